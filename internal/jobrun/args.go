package jobrun

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/strictjson"
)

// Schema validates the arguments of runs. A nil Schema accepts everything.
type Schema struct{ compiled *jsonschema.Schema }

// schemaName is the schema's URL within the library; nothing can be loaded from it.
const schemaName = "args:///schema"

// noSchemaFiles keeps schemas from loading files and URLs.
type noSchemaFiles struct{}

func (noSchemaFiles) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q is not part of the schema", url)
}

// ParseSchema parses a JSON Schema, of draft 2020-12 unless $schema names another; it returns nil
// for an empty or null doc. References to other documents are refused. Fault: Invalid
// (CodeInvalid).
func ParseSchema(doc json.RawMessage) (*Schema, error) {
	if len(doc) == 0 || isNull(doc) {
		return nil, nil
	}
	bad := func(err error) (*Schema, error) {
		return nil, fault.New(fault.Invalid, CodeInvalid, "is not a valid JSON Schema: %s", clean(err))
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return bad(err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noSchemaFiles{})
	if err := c.AddResource(schemaName, value); err != nil {
		return bad(err)
	}
	compiled, err := c.Compile(schemaName)
	if err != nil {
		return bad(err)
	}
	return &Schema{compiled}, nil
}

// clean returns the library's error message on one line, without our internal name of the schema.
func clean(err error) string {
	s := strings.ReplaceAll(err.Error(), schemaName, "")
	return strings.Join(strings.Fields(s), " ")
}

// Check validates arguments and returns a fault of kind Invalid (CodeInvalid) whose pointers begin
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
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		w.Add(pointer, "syntax", "is not JSON")
		return w
	}
	var wrong *jsonschema.ValidationError
	err = s.compiled.Validate(value)
	if !errors.As(err, &wrong) {
		if err != nil {
			w.Add(pointer, "schema", "%s", clean(err))
		}
		return w
	}
	w.leaves(pointer, wrong, message.NewPrinter(language.English))
	slices.SortFunc(w.Mistakes, func(a, b fault.Field) int { return strings.Compare(a.Pointer, b.Pointer) })
	return w
}

// leaves collects the errors that have no further cause.
func (w *mistakes) leaves(pointer string, e *jsonschema.ValidationError, p *message.Printer) {
	for _, cause := range e.Causes {
		w.leaves(pointer, cause, p)
	}
	if len(e.Causes) > 0 {
		return
	}
	for _, token := range e.InstanceLocation {
		pointer += "/" + strictjson.Token(token)
	}
	code := "schema"
	if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
		code = path[0]
	}
	w.Add(pointer, code, "%s", e.ErrorKind.LocalizedString(p))
}
