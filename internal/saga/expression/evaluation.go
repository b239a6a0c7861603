package expression

import (
	"encoding/json"

	"github.com/skald-saga/skald/internal/strictjson"
)

// Values provides the values that expressions are evaluated with.
type Values interface {
	// Variable returns a variable as canonical JSON. It is never called for steps or secrets.
	Variable(name string) (json.RawMessage, bool)
	// Step returns the output of a step as canonical JSON; false means that the step has none.
	Step(name string) (json.RawMessage, bool)
}

// Evaluation evaluates the expressions of one call, which share the decoded values. It must be used
// by one goroutine only.
type Evaluation struct {
	values  Values
	decoded map[string]any // for CEL: a variable, or "steps." followed by the name of a step
	// Nulls replaces missing values by null and lists where they are missing, as the output of a
	// workflow and the arguments of jobs have always done. Complete does so for any reason.
	Nulls, Complete bool
	Missing         []string
	// Secrets are the positions of secrets in the buffer that was appended to, since the buffer was
	// last emptied.
	Secrets []Secret
}

// Secret is a placeholder in the result of a template.
type Secret struct {
	Name string
	At   int // the position of the first byte of the placeholder
	Len  int
}

// Placeholder is the text that stands in for a secret until the request is sent, and in every
// record of the request.
func Placeholder(name string) string { return "«secret:" + name + "»" }

// Filled appends b to out with a value in place of every placeholder whose position is given in
// secrets. Text that only looks like a placeholder is kept.
func Filled(out, b []byte, secrets []Secret, value func(out []byte, name string) []byte) []byte {
	from := 0
	for _, s := range secrets {
		out = value(append(out, b[from:s.At]...), s.Name)
		from = s.At + s.Len
	}
	return append(out, b[from:]...)
}

// Evaluate starts an evaluation.
func Evaluate(v Values) *Evaluation { return &Evaluation{values: v} }

// raw returns the value that a path refers to.
func (e *Evaluation) raw(p *path) (json.RawMessage, bool) {
	var from json.RawMessage
	var ok bool
	if p.root == "steps" {
		from, ok = e.values.Step(p.step)
	} else {
		from, ok = e.values.Variable(p.root)
	}
	if !ok {
		return nil, false
	}
	return find(from, p.parts)
}

// document returns the decoded value of a variable or of a step's output.
func (e *Evaluation) document(variable, step string) (any, bool) {
	key := variable
	if step != "" {
		key += "." + step
	}
	if v, known := e.decoded[key]; known {
		return v, true
	}
	var from json.RawMessage
	var ok bool
	if step != "" {
		from, ok = e.values.Step(step)
	} else {
		from, ok = e.values.Variable(variable)
	}
	if !ok {
		return nil, false
	}
	v := strictjson.Decode(from)
	if e.decoded == nil {
		e.decoded = map[string]any{}
	}
	e.decoded[key] = v
	return v, true
}
