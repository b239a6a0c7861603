package expression

import (
	"encoding/json"

	"github.com/skald-saga/skald/internal/strictjson"
)

// Values are what expressions are evaluated with.
type Values interface {
	// Variable returns a variable as canonical JSON. It is not asked for steps and secrets.
	Variable(name string) (json.RawMessage, bool)
	// Step returns the output of a step as canonical JSON; false: it has none.
	Step(name string) (json.RawMessage, bool)
}

// Evaluation evaluates the expressions of one call, which share what has been decoded. It is
// for one goroutine.
type Evaluation struct {
	values  Values
	decoded map[string]any // for CEL: a variable, or "steps." and the name of a step
	// Nulls makes missing values null, and lists where, as the output of a workflow and the
	// arguments of jobs have always done. Complete does so whatever the reason is.
	Nulls, Complete bool
	Missing         []string
	// Secrets are where secrets belong in what was appended to since it was last emptied.
	Secrets []Secret
}

// Secret is a placeholder in what a template has become.
type Secret struct {
	Name string
	At   int // the first byte of the placeholder
	Len  int
}

// Placeholder is what a secret looks like until the request is sent, and in every record of it.
func Placeholder(name string) string { return "«secret:" + name + "»" }

// Filled appends b to out with a value in place of every placeholder of which secrets says where it
// is. Text that only looks like one stays.
func Filled(out, b []byte, secrets []Secret, value func(out []byte, name string) []byte) []byte {
	from := 0
	for _, s := range secrets {
		out = value(append(out, b[from:s.At]...), s.Name)
		from = s.At + s.Len
	}
	return append(out, b[from:]...)
}

// Evaluate begins an evaluation.
func Evaluate(v Values) *Evaluation { return &Evaluation{values: v} }

// raw returns what a path leads to.
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

// document returns a variable or the output of a step, decoded.
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
