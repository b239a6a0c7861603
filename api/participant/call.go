package participant

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Action is the direction of a call.
type Action string

// The actions.
const (
	Execute    Action = "execute"
	Compensate Action = "compensate"
)

// Call is one call from Skald.
type Call struct {
	// Key is the Idempotency-Key. It is the same in every attempt of this call.
	Key      string
	Saga     string
	Tenant   string // two tenants may have sagas with the same id
	Workflow string
	Step     string
	Action   Action
	Attempt  int
	Fence    int64
	Deadline time.Time // when Skald stops waiting for the answer; zero if the call does not say
	// Payload is the saga's payload. Outputs holds the outputs of the earlier steps by name.
	Payload json.RawMessage
	Outputs map[string]json.RawMessage
	// For a compensation, Input and Output are those of the step being compensated. Output is null
	// or nil if the step's answer never arrived.
	Input, Output json.RawMessage
	Header        http.Header
	// Callback is the URL to which the result of a deferred call is reported. It is "" if the
	// step's definition has no answer.later, so that the function must answer immediately.
	Callback string

	run       int // the number n from a key suffix #n, otherwise 1
	digest    string
	committed []func()
}

// Decode decodes the payload.
func (c *Call) Decode(payload any) error { return json.Unmarshal(c.Payload, payload) }

// AfterCommit registers f to be called after the transaction of this call has committed and before
// the answer is sent. If the process dies in between, f is not called again, so nothing may depend
// on it.
func (c *Call) AfterCommit(f func()) { c.committed = append(c.committed, f) }

// mistake is the error of a malformed call, which is rejected with 400.
type mistake string

func (m mistake) Error() string { return string(m) }

// read builds a call from its headers and its body. Because the signature covers only the body, the
// headers must agree with it.
func read(h http.Header, body []byte) (*Call, error) {
	c := &Call{
		Key: h.Get("Idempotency-Key"), Saga: h.Get("X-Saga-Id"), Tenant: h.Get("X-Saga-Tenant"),
		Step: h.Get("X-Saga-Step"), Action: Action(h.Get("X-Saga-Action")), Header: h, digest: digest(body),
		Callback: h.Get("X-Saga-Callback"),
	}
	switch {
	case c.Key == "":
		return nil, mistake("there is no Idempotency-Key")
	case c.Saga == "" || c.Step == "":
		return nil, mistake("X-Saga-Id or X-Saga-Step is missing")
	case c.Action != Execute && c.Action != Compensate:
		return nil, mistake("X-Saga-Action is neither execute nor compensate")
	}
	var err error
	if c.Attempt, err = strconv.Atoi(or(h.Get("X-Saga-Attempt"), "1")); err != nil {
		return nil, mistake("X-Saga-Attempt is not a number")
	}
	if c.Fence, err = strconv.ParseInt(or(h.Get("X-Saga-Fence"), "0"), 10, 64); err != nil {
		return nil, mistake("X-Saga-Fence is not a number")
	}
	if at := h.Get("X-Saga-Deadline"); at != "" {
		if c.Deadline, err = time.Parse(time.RFC3339, at); err != nil {
			return nil, mistake("X-Saga-Deadline is not a time")
		}
	}
	c.run = runOf(c.Key)
	return c, c.open(body)
}

// open decodes the body.
func (c *Call) open(body []byte) error {
	var e struct {
		Saga     string                     `json:"saga_id"`
		Workflow string                     `json:"workflow_name"`
		Step     string                     `json:"step"`
		Action   Action                     `json:"action"`
		Payload  json.RawMessage            `json:"payload"`
		Outputs  map[string]json.RawMessage `json:"outputs"`
		Input    json.RawMessage            `json:"input"`
		Output   json.RawMessage            `json:"output"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return mistake("the body is not the JSON of a call")
	}
	step, err := url.PathUnescape(c.Step)
	if err != nil || e.Step == c.Step {
		step = c.Step
	}
	if or(e.Saga, c.Saga) != c.Saga || or(e.Step, step) != step || e.Action != "" && e.Action != c.Action {
		return mistake("the body belongs to a different call than the headers")
	}
	c.Step, c.Workflow = step, e.Workflow
	c.Payload, c.Outputs, c.Input, c.Output = e.Payload, e.Outputs, e.Input, e.Output
	return nil
}

// runOf returns the n of a key that ends in #n, which marks a new call made by an operator. All
// other keys belong to run 1.
func runOf(key string) int {
	last := key[strings.LastIndexByte(key, '/')+1:]
	_, number, found := strings.Cut(last, "#")
	if n, err := strconv.Atoi(number); found && err == nil && n > 1 {
		return n
	}
	return 1
}

// maxID is the length of the id column.
const maxID = 600

// id identifies the step of the saga, and with it the row that holds the state of its calls. The
// saga id comes first because saga ids grow with time.
func (c *Call) id() string {
	tenant, step := c.Tenant, url.PathEscape(c.Step)
	if id := c.Saga + "/" + tenant + "/" + step; len(id) <= maxID && isASCII(id) {
		return id
	}
	return digest([]byte(c.Saga + "/" + tenant + "/" + step))
}

func isASCII(s string) bool { return strings.IndexFunc(s, func(r rune) bool { return r > '~' }) < 0 }

func or(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

func digest(of []byte) string {
	sum := sha256.Sum256(of)
	return hex.EncodeToString(sum[:])
}
