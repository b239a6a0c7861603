package workflow

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/strictjson"
)

// Limits limits a definition. Zero fields mean the defaults given in the comments.
type Limits struct {
	MaxSteps int // 100
}

// ParseJSON parses a definition from JSON, validates it completely and returns it normalized. The
// fault lists every mistake with a JSON Pointer, up to 100.
func ParseJSON(src []byte, l Limits) (*Definition, error) {
	strict, err := strictjson.Canonical(nil, src, strictjson.Limits{})
	if err != nil {
		// The error's message gives position and cause, and quotes nothing.
		return nil, fault.New(fault.Invalid, CodeSyntax, "the definition is invalid: %s", err)
	}
	dec := json.NewDecoder(bytes.NewReader(strict))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		return nil, fault.New(fault.Invalid, CodeSyntax, "the definition is not JSON").Because(err)
	}
	return parse(doc, l)
}

func parse(doc any, l Limits) (*Definition, error) {
	if l.MaxSteps == 0 {
		l.MaxSteps = 100
	}
	r := &reader{}
	d := r.definition(doc, l)
	declared := d.Steps
	d.Steps = r.ordered(declared)
	r.pivot(declared, d.Steps)
	if len(d.Steps) > 0 {
		d.Written = positions(declared, d.Steps)
		r.expressions(d)
	}
	if len(r.problems) > 0 {
		return nil, invalid(r.problems)
	}
	return d, nil
}

// positions returns where each of the steps was declared, in execution order. nil means that both
// orders are the same.
func positions(declared, running []Step) []int {
	at := make(map[string]int, len(declared))
	for i := range declared {
		at[declared[i].Name] = i
	}
	all, moved := make([]int, len(running)), false
	for i := range running {
		all[i] = at[running[i].Name]
		moved = moved || all[i] != i
	}
	if !moved {
		return nil
	}
	return all
}

// invalid combines the problems in one fault. Its code is their common code, or CodeInvalid.
func invalid(problems []fault.Field) error {
	code := problems[0].Code
	for _, p := range problems {
		if p.Code != code {
			code = CodeInvalid
		}
	}
	detail := problems[0].Message
	if n := len(problems); n > 1 {
		detail = fmt.Sprintf("%s (and %d more)", detail, n-1)
	}
	where := cmp.Or(problems[0].Pointer, "the definition")
	return fault.New(fault.Invalid, code, "%s: %s", where, detail).With(problems...)
}
