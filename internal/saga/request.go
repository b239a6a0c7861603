package saga

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/strictjson"
)

// parts returns the parts of the body of the call in flight.
func (r *Instance) parts() Parts {
	if r.intervened(r.CurrentStep).Input != nil {
		return nil // used instead of the payload, until the operator's next patch
	}
	n := 0
	for i, out := range r.outputs {
		switch {
		case out == nil:
		case i >= len(r.given) || r.given[i] == 0:
			return nil
		default:
			n = i + 1
		}
	}
	return r.given[:n:n] // with and without make a copy
}

// body contains the parts of a call's body (DESIGN.md section 5). The fields are in a fixed order,
// the outputs are in step order, and every part is canonical JSON, so that the same call is
// byte-equal regardless of the caller.
type body struct {
	saga                 uuid.UUID
	workflow, step, word string
	input                json.RawMessage
	outputs              []json.RawMessage // by step; nil if a step has none
	of                   int               // the index of the step that is called
}

// appendTo appends the encoded body to b. name returns the name of a step that has an output.
func (c *body) appendTo(b []byte, name func(i int) string) []byte {
	b = append(b, `{"saga_id":"`...)
	b = append(b, c.saga.String()...)
	b = append(b, `","workflow_name":`...)
	b = appendText(b, c.workflow)
	b = append(b, `,"step":`...)
	b = appendText(b, c.step)
	b = append(b, `,"action":"`...)
	b = append(b, c.word...)
	b = append(b, `","payload":`...)
	b = append(b, orNull(c.input)...)
	b = append(b, `,"outputs":{`...)
	first := true
	for i, out := range c.outputs {
		if out == nil {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendText(b, name(i))
		b = append(b, ':')
		b = append(b, out...)
	}
	b = append(b, '}')
	if c.word == wordOf(Compensate) {
		b = append(b, `,"input":`...)
		b = append(b, orNull(c.input)...)
		b = append(b, `,"output":`...)
		var own json.RawMessage
		if c.of < len(c.outputs) {
			own = c.outputs[c.of]
		}
		b = append(b, orNull(own)...)
	}
	return append(b, '}')
}

// wordOf returns the name of an action in bodies and keys.
func wordOf(a Action) string {
	if a == Compensate {
		return "compensate"
	}
	return "execute"
}

// appendText appends s as a JSON string. Names contain no characters that need escaping (workflow.ValidName).
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// MakeRequests sets the requests that a store did not keep, in the form in which it returns the
// kept ones. logs must contain all actions of the saga that succeeded, with their responses. s must
// have the id, the workflow and the payload.
func MakeRequests(s *Saga, logs []StepLog) {
	var by map[[2]int]*StepLog
	for i := range logs {
		l := &logs[i]
		if l.Parts == nil || l.Request != nil {
			continue
		}
		if by == nil {
			by = make(map[[2]int]*StepLog, len(logs))
			for k := range logs {
				if logs[k].Action == Execute && logs[k].Status == LogSuccess {
					by[[2]int{logs[k].StepIndex, logs[k].Attempt}] = &logs[k]
				}
			}
		}
		l.makeRequest(s, by)
	}
}

func (l *StepLog) makeRequest(s *Saga, by map[[2]int]*StepLog) {
	c := body{
		saga: s.ID, workflow: s.WorkflowName, step: l.StepName, word: wordOf(l.Action), input: s.Payload,
		outputs: make([]json.RawMessage, len(l.Parts)), of: l.StepIndex,
	}
	l.ContentUnreadable = l.ContentUnreadable || s.ContentUnreadable && s.Payload == nil
	size := 256 + 2*len(s.Payload)
	for k, attempt := range l.Parts {
		if attempt == 0 {
			continue
		}
		from := by[[2]int{k, int(attempt)}]
		if from == nil {
			return // the log was deleted by hand
		}
		l.ContentUnreadable = l.ContentUnreadable || from.ContentUnreadable && from.Response == nil
		c.outputs[k] = orNull(from.Response)
		size += len(from.Response) + len(from.StepName) + 4
	}
	if l.ContentUnreadable {
		return
	}
	sent := c.appendTo(make([]byte, 0, size), func(k int) string { return by[[2]int{k, int(l.Parts[k])}].StepName })
	if made, err := strictjson.Canonical(make([]byte, 0, len(sent)), sent, strictjson.Stored); err == nil {
		l.Request = made
	}
}
