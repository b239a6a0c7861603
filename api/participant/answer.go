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

// kept is an answer that is given again.
type kept struct {
	Digest string `json:"digest"` // of the body of the request
	Status int    `json:"status"`
	Body   string `json:"body,omitempty"`
	// Later is set while the call is answered later: this is the answer until then.
	Later *pending `json:"later,omitempty"`
}

// pending is what is known of a call that was answered later.
type pending struct {
	Callback string `json:"callback"` // the newest, which came with Attempt
	Attempt  int    `json:"attempt"`
	Action   Action `json:"action"`
	Run      int    `json:"run"`
	// Over is set when an execute was compensated, so that there is nothing to cancel.
	Over bool `json:"over,omitempty"`
}

// Refusal is the error of a function that refuses a call permanently: the business does not allow
// it. Everything that the function has written is rolled back, and a repeat of the call gets the same
// answer. A refused compensation gives up, and is asked again when an operator resumes it.
type Refusal struct {
	Status  int    // 4xx except 408, 425 and 429; others: 409
	Code    string // for programs and operators, such as OUT_OF_STOCK
	Message string
	Details map[string]any // further members of the answer
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

// NotApplied is the error of a function that has certainly done nothing, neither in the transaction
// nor elsewhere, and may be called again: a lock is taken, a limit is reached. The answer is 425, and it
// leaves no doubt about the step, as every other error does.
type NotApplied struct {
	After   time.Duration // when to try again; 0: Skald decides
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
		panic(err) // two strings
	}
	return kept{Status: status, Body: body}
}

// encode returns a value as JSON in UTF-8; nil: no body.
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
