package saga

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga/expression"
	"github.com/skald-saga/skald/internal/strictjson"
)

// CodeMappingFailed is the outcome code of a request whose expressions gave no value.
const CodeMappingFailed = "mapping_failed"

// mapped holds the values that the expressions of a call can use.
type mapped struct {
	r    *Instance
	step int
	call *Call // nil if this is not the request of a call
	now  time.Time
}

// Variable implements expression.Values.
func (v mapped) Variable(name string) (json.RawMessage, bool) {
	switch name {
	case "payload", "input":
		if v.step < 0 {
			return orNull(v.r.Payload), true
		}
		return orNull(v.r.input(v.step)), true
	case "output": // null if no answer ever arrived, as in the body that Skald builds
		return orNull(v.r.outputs[v.step]), true
	case "saga":
		return v.saga(), true
	case "call":
		b := append(make([]byte, 0, 128), `{"key":`...)
		b = appendEscaped(b, v.call.Key)
		b = append(b, `,"attempt":`...)
		b = strconv.AppendInt(b, int64(v.call.Attempt), 10)
		return append(b, '}'), true
	case "now":
		return moment(v.now), true
	}
	return nil, false
}

// Step implements expression.Values.
func (v mapped) Step(name string) (json.RawMessage, bool) {
	for i := range v.r.Def.Steps {
		if v.r.Def.Steps[i].Name == name && i < len(v.r.outputs) {
			return v.r.outputs[i], v.r.outputs[i] != nil
		}
	}
	return nil, false
}

func (v mapped) saga() json.RawMessage {
	s := &v.r.Saga
	b := append(make([]byte, 0, 256), `{"id":"`...)
	b = append(b, s.ID.String()...)
	b = append(b, `","tenant":"`...)
	b = append(b, s.Tenant.ID.String()...)
	b = append(b, `","created_at":`...)
	b = append(b, moment(s.CreatedAt)...)
	for _, m := range []struct {
		name  string
		value *string
	}{{"business_key", s.BusinessKey}, {"correlation_id", s.CorrelationID}} {
		b = append(append(append(b, `,"`...), m.name...), `":`...)
		if m.value == nil {
			b = append(b, "null"...)
		} else {
			b = appendEscaped(b, *m.value)
		}
	}
	return append(b, '}')
}

func moment(t time.Time) json.RawMessage {
	b := append(make([]byte, 0, 40), '"')
	return append(t.UTC().AppendFormat(b, time.RFC3339Nano), '"')
}

// appendEscaped appends s as a JSON string.
func appendEscaped(b []byte, s string) []byte {
	j, err := strictjson.Encode(s)
	if err != nil { // cannot happen: the API rejects text that JSON cannot encode
		j = json.RawMessage(`""`)
	}
	return append(b, j...)
}

// filled returns the call in flight with its expressions evaluated. It makes a copy, so that calls
// without expressions stay off the heap. The error is an *expression.Failure.
func (r *Instance) filled(c Call) (Call, error) {
	k, undo := c.Index, c.Action == Compensate
	c.Rules = r.Def.Rules(k, undo)
	if !r.Def.Computed(k, undo) {
		return c, nil
	}
	e := expression.Evaluate(mapped{r: r, step: k, call: &c})
	if c.By.HTTP == nil {
		args, computed, err := r.Def.Arguments(k, undo, e)
		if computed {
			c.Body = args
		}
		return c, err
	}
	request, err := r.Def.Request(k, undo, e)
	if err != nil {
		return c, err
	}
	c.By.HTTP, c.ContentType, c.Filled = request.HTTP, request.ContentType, true
	if request.Body != nil {
		c.Body = request.Body
	}
	return c, nil
}

// unmapped is the outcome of a call whose expressions gave no value: nothing was sent, and another
// attempt could not be sent either.
func unmapped(err error, now time.Time) Outcome {
	message := "the request could not be built"
	if f := (*expression.Failure)(nil); errors.As(err, &f) {
		message = f.Error()
	}
	return Outcome{
		Verdict: NotApplied, Class: retry.Refused, Code: CodeMappingFailed, Message: clipped(message),
		StartedAt: now, EndedAt: now, Last: true,
	}
}

// maxOutcomeMessage is the maximum number of characters in the message of an outcome.
const maxOutcomeMessage = 1000

func clipped(s string) string {
	if r := []rune(s); len(r) > maxOutcomeMessage {
		return string(r[:maxOutcomeMessage])
	}
	return s
}
