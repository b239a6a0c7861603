// Package schema checks JSON against JSON Schema (draft 2020-12 unless $schema names another). It
// never loads other documents.
package schema

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

// Schema is a compiled schema.
type Schema struct{ compiled *jsonschema.Schema }

// name is the schema's URL inside the library; nothing can be loaded from it.
const name = "args:///schema"

// noFiles prevents schemas from loading files and URLs.
type noFiles struct{}

func (noFiles) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q is not part of the schema", url)
}

// Parse compiles a schema. It rejects references to other documents. The error describes the
// problem in one line.
func Parse(doc json.RawMessage) (*Schema, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return nil, clean(err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noFiles{})
	if err := c.AddResource(name, value); err != nil {
		return nil, clean(err)
	}
	compiled, err := c.Compile(name)
	if err != nil {
		return nil, clean(err)
	}
	return &Schema{compiled}, nil
}

// clean returns the library's error on one line, without our internal name of the schema.
func clean(err error) error {
	return errors.New(strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), name, "")), " "))
}

// Mistakes returns the places where doc does not match the schema. Their pointers begin with pointer.
func (s *Schema) Mistakes(pointer string, doc json.RawMessage) (w fault.Mistakes) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
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
	leaves(&w, pointer, wrong, message.NewPrinter(language.English))
	slices.SortFunc(w, func(a, b fault.Field) int { return strings.Compare(a.Pointer, b.Pointer) })
	return w
}

// leaves collects the errors that have no causes of their own.
func leaves(w *fault.Mistakes, pointer string, e *jsonschema.ValidationError, p *message.Printer) {
	for _, cause := range e.Causes {
		leaves(w, pointer, cause, p)
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
