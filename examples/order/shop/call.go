package shop

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

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
	key     string
	fence   int64
	sha     string
	order   order
	// broken names what the caller did wrong, "" when the call can be judged.
	broken string
	// misread is why the payload is no order; only an execute minds.
	misread error
}

// order is what the services want to know of a payload. Other fields do not matter here.
type order struct {
	SKU      string            `json:"sku"`
	Quantity *int              `json:"quantity"` // nil means 1
	Amount   float64           `json:"amount"`
	Card     string            `json:"card"`
	Simulate map[string]string `json:"simulate"` // see parseFault
}

// receive reads a call to its end. An error means that the body did not arrive
// whole, so that there is no call: it is an *http.MaxBytesError or the network's.
// A call that breaks the contract is returned with broken set: it belongs in the
// ledger too.
func receive(w http.ResponseWriter, r *http.Request, to service, action ledger.Action) (call, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return call{}, fmt.Errorf("read body: %w", err)
	}
	sum := sha256.Sum256(body)
	c := call{
		to:     to,
		action: action,
		sha:    hex.EncodeToString(sum[:]),
		saga:   r.Header.Get("X-Saga-Id"),
		step:   r.Header.Get("X-Saga-Step"),
		key:    r.Header.Get("Idempotency-Key"),
	}
	c.broken = cmp.Or(c.readHeader(r), c.readBody(body))
	return c, nil
}

// readHeader takes the numbers out of the header and returns what is wrong with
// it, "" for nothing.
func (c *call) readHeader(r *http.Request) (broken string) {
	var attemptErr, fenceErr error
	c.attempt, attemptErr = strconv.Atoi(r.Header.Get("X-Saga-Attempt"))
	if fence := r.Header.Get("X-Saga-Fence"); fence != "" {
		c.fence, fenceErr = strconv.ParseInt(fence, 10, 64)
	}
	name := r.PathValue("name")
	switch {
	case c.key == "":
		return "idempotency_key_missing"
	case c.saga == "" || c.step == "":
		return "saga_headers_missing"
	case r.Header.Get("X-Saga-Action") != string(c.action):
		return "action_does_not_fit_path"
	case name != "" && name != c.step:
		return "step_does_not_fit_path"
	case attemptErr != nil || c.attempt < 1:
		return "attempt_invalid"
	case fenceErr != nil:
		return "fence_invalid"
	}
	return ""
}

// readBody takes the payload out of the envelope, whose ids must be those of
// the header where it has them, and returns what is wrong with it.
func (c *call) readBody(raw []byte) (broken string) {
	var envelope struct {
		SagaID  string          `json:"saga_id"`
		Step    string          `json:"step"`
		Action  ledger.Action   `json:"action"`
		Payload json.RawMessage `json:"payload"`
	}
	switch err := json.Unmarshal(raw, &envelope); {
	case err != nil:
		return "body_invalid"
	case cmp.Or(envelope.SagaID, c.saga) != c.saga,
		cmp.Or(envelope.Step, c.step) != c.step,
		cmp.Or(envelope.Action, c.action) != c.action:
		return "body_does_not_fit_header"
	}
	if len(envelope.Payload) > 0 {
		c.misread = json.Unmarshal(envelope.Payload, &c.order)
	}
	return ""
}

// entry is what the ledger keeps of c.
func (c call) entry(v verdict, reply ledger.Reply) ledger.Entry {
	e := ledger.Entry{
		Seq: c.seq, Time: c.at, Participant: c.to.name, Saga: c.saga, Step: c.step, Action: c.action,
		Attempt: c.attempt, Key: c.key, Fence: c.fence, BodySHA256: c.sha,
		Effect: v.effect, Reply: reply, Status: v.answer.status,
	}
	if e.Decided() && v.effect != ledger.Dup {
		e.Answer = v.answer.body
	}
	return e
}

// answer is what goes back to the caller.
type answer struct {
	status     int
	body       []byte
	retryAfter *time.Duration // nil means no such header
}

// problem is a refusal: code is what a program may branch on.
func problem(status int, code string) answer {
	body, err := json.Marshal(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Error  string `json:"error"`
	}{http.StatusText(status), status, code})
	if err != nil {
		panic(err) // two strings and a number
	}
	return answer{status: status, body: body}
}

func write(w http.ResponseWriter, a answer) {
	contentType := "application/json"
	if a.status >= 400 {
		contentType = "application/problem+json"
	}
	w.Header().Set("Content-Type", contentType)
	if a.retryAfter != nil {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(a.retryAfter.Seconds()))))
	}
	w.WriteHeader(a.status)
	// An error means that the caller has gone; it will ask again.
	_, _ = w.Write(a.body)
}
