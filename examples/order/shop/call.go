package shop

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/skald-saga/skald/examples/order/ledger"
)

// call is one request as it was received.
type call struct {
	to      service
	seq     int64
	at      time.Time
	saga    string
	step    string
	action  ledger.Action
	attempt int
	fence   int64
	header  http.Header
	body    string
	order   order
	// broken says how the caller broke the contract; "" if the participant can be asked.
	broken string
	// misread says why the payload is not an order; only an execute needs it to be one.
	misread   error
	fault     fault
	past      *past // at the start: what the ledger recorded about it
	performed bool  // a function of the shop was called
}

// order contains the fields of a payload that the services use. Other fields are ignored.
type order struct {
	SKU      string            `json:"sku"`
	Quantity *int              `json:"quantity"` // nil means 1
	Amount   float64           `json:"amount"`
	Card     string            `json:"card"`
	Simulate map[string]string `json:"simulate"` // see parseFault
}

// receive reads a call to its end. An error means that the body did not arrive completely, so that
// there is no call: it is an *http.MaxBytesError or a network error. A call that breaks the
// contract is returned with broken set, because it belongs in the ledger as well.
func receive(w http.ResponseWriter, r *http.Request, to service, action ledger.Action) (*call, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	c := &call{
		to: to, action: action, header: r.Header, body: string(body),
		saga: r.Header.Get("X-Saga-Id"), step: r.Header.Get("X-Saga-Step"),
	}
	c.broken = c.readHeader(r)
	var envelope struct {
		Payload json.RawMessage `json:"payload"`
	}
	if err := json.Unmarshal(body, &envelope); err == nil && len(envelope.Payload) > 0 {
		c.misread = json.Unmarshal(envelope.Payload, &c.order)
	}
	return c, nil
}

// readHeader reads the numbers from the header and returns what is wrong with the call for the called
// path; "" if nothing is. The participant checks the rest.
func (c *call) readHeader(r *http.Request) (broken string) {
	var attemptErr error
	c.attempt, attemptErr = strconv.Atoi(r.Header.Get("X-Saga-Attempt"))
	c.fence, _ = strconv.ParseInt(r.Header.Get("X-Saga-Fence"), 10, 64) // the participant refuses what is not a number
	name := r.PathValue("name")
	switch {
	case r.Header.Get("X-Saga-Action") != string(c.action):
		return "action_does_not_fit_path"
	case name != "" && name != c.step:
		return "step_does_not_fit_path"
	case attemptErr != nil || c.attempt < 1:
		return "attempt_invalid"
	case !utf8.ValidString(c.body): // the ledger is in JSON
		return "body_invalid"
	}
	return ""
}

// entry is what the ledger stores about c.
func (c *call) entry(v verdict, reply ledger.Reply) ledger.Entry {
	sum := sha256.Sum256([]byte(c.body))
	e := ledger.Entry{
		Seq: c.seq, Time: c.at, Participant: c.to.name, Tenant: c.header.Get("X-Saga-Tenant"),
		Saga: c.saga, Step: c.step, Action: c.action, Attempt: c.attempt, Key: c.header.Get("Idempotency-Key"),
		Fence: c.fence, BodySHA256: hex.EncodeToString(sum[:]),
		Effect: v.effect, Reply: reply, Status: v.answer.status,
	}
	switch v.answer.status {
	case http.StatusOK, http.StatusConflict, http.StatusUnprocessableEntity:
		e.Request = c.body
	}
	if e.Decided() && v.effect != ledger.Dup {
		e.Answer = v.answer.body
	}
	return e
}

// answer is the response to the caller.
type answer struct {
	status     int
	body       []byte
	retryAfter *time.Duration // nil means no such header
}

// problem is a refusal. Programs may branch on code.
func problem(status int, code string) answer {
	body, err := json.Marshal(map[string]string{"code": code, "message": code})
	if err != nil {
		panic(err) // two strings
	}
	return answer{status: status, body: body}
}

func write(w http.ResponseWriter, a answer) {
	w.Header().Set("Content-Type", "application/json")
	if a.retryAfter != nil {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(a.retryAfter.Seconds()))))
	}
	w.WriteHeader(a.status)
	// An error means that the caller has disconnected; it will retry.
	_, _ = w.Write(a.body)
}
