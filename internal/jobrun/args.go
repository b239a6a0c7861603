package jobrun

import (
	"encoding/json"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/strictjson/schema"
)

// Schema validates the arguments of runs. A nil Schema accepts everything.
type Schema struct{ of *schema.Schema }

// ParseSchema parses a JSON Schema, which is of draft 2020-12 unless $schema names another draft.
// It returns nil for an empty or null doc. References to other documents are refused. Fault:
// Invalid (CodeInvalid).
func ParseSchema(doc json.RawMessage) (*Schema, error) {
	if len(doc) == 0 || isNull(doc) {
		return nil, nil
	}
	of, err := schema.Parse(doc)
	if err != nil {
		return nil, fault.New(fault.Invalid, CodeInvalid, "is not a valid JSON Schema: %s", err)
	}
	return &Schema{of}, nil
}

// Check validates arguments. It returns a fault of kind Invalid (CodeInvalid) whose pointers begin
// with pointer. Nil arguments count as {}.
func (s *Schema) Check(pointer string, args json.RawMessage) error {
	w := s.mistakes(pointer, args)
	if len(args) > MaxArgs {
		w.Add(pointer, "too_large", "must have at most %d bytes", MaxArgs)
	}
	return w.fault()
}

func (s *Schema) mistakes(pointer string, args json.RawMessage) (w mistakes) {
	if s == nil {
		return w
	}
	if args == nil {
		args = json.RawMessage(`{}`)
	}
	w.Mistakes = s.of.Mistakes(pointer, args)
	return w
}
