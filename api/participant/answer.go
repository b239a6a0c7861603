package participant

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// kept is a stored answer, which is returned again for every repeat of the call.
type kept struct {
	Digest string `json:"digest"` // digest of the request body
	Status int    `json:"status"`
	Body   string `json:"body,omitempty"`
	// Later is set while the work of a deferred call is in progress; until then this is the answer.
	Later *pending `json:"later,omitempty"`
}

// pending is the state of a call that was answered with Later.
type pending struct {
	Callback string `json:"callback"` // the newest callback, which came with Attempt
	Attempt  int    `json:"attempt"`
	Action   Action `json:"action"`
	Run      int    `json:"run"`
	// Over is set once an execute was compensated, so that there is nothing left to cancel.
	Over bool `json:"over,omitempty"`
}

// Refusal is the error of a function that rejects a call permanently for a business reason.
// Everything the function has written is rolled back, and a repeat of the call gets the same
// answer. A refused compensation is not retried until an operator resumes it.
type Refusal struct {
	Status  int    // 4xx except 408, 425 and 429; any other value becomes 409
	Code    string // for programs and operators, such as OUT_OF_STOCK
	Message string
	Details map[string]any // additional members of the answer
}

// Refuse returns a Refusal with status 409.
func Refuse(code, message string) error { return &Refusal{Code: code, Message: message} }

// Error implements error.
func (r *Refusal) Error() string { return "refused: " + r.Code + ": " + r.Message }

func (r *Refusal) answer() (kept, error) {
	members := map[string]any{}
	for name, value := range r.Details {
		members[name] = value
	}
	if r.Code != "" {
		members["code"] = r.Code
	}
	if r.Message != "" {
		members["message"] = r.Message
	}
	body, err := encode(members)
	return kept{Status: r.status(), Body: body}, err
}

func (r *Refusal) status() int {
	switch s := r.Status; {
	case s < 400, s > 499, s == http.StatusRequestTimeout, s == http.StatusTooEarly, s == http.StatusTooManyRequests:
		return http.StatusConflict
	default:
		return s
	}
}

// NotApplied is the error of a function that has certainly had no effect, either in the transaction
// or elsewhere, and may be called again, for example because a lock is taken or a rate limit is
// reached. The answer is 425. Unlike every other error, it leaves no doubt about the outcome of the
// step.
type NotApplied struct {
	After   time.Duration // when to try again; 0 lets Skald decide
	Message string
}

// Error implements error.
func (n *NotApplied) Error() string { return "not applied: " + n.Message }

// write sends an answer.
func (k kept) write(w http.ResponseWriter, after time.Duration) {
	if k.Body != "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(k.Body)))
	if after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	w.WriteHeader(k.Status)
	_, _ = w.Write([]byte(k.Body)) // if it cannot be sent, Skald asks again
}

func problem(status int, code, message string) kept {
	body, err := encode(map[string]string{"code": code, "message": message})
	if err != nil {
		panic(err) // a map of two strings always encodes
	}
	return kept{Status: status, Body: body}
}

// encode returns a value as JSON in UTF-8. nil gives an empty body.
func encode(value any) (string, error) {
	if value == nil {
		return "", nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("the output cannot be encoded: %w", err)
	}
	return strings.ToValidUTF8(string(text), "\ufffd"), nil
}
