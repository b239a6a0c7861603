package httpkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/strictjson"
)

// Violations checks a canonical JSON body against its schema. Free-form members are not
// decoded: they are canonical, and nothing else needs to be checked.
func Violations(schema *openapi3.Schema, body []byte) []fault.Field {
	if body[0] != '{' {
		return []fault.Field{{Pointer: "", Code: "type", Message: "must be an object"}}
	}
	value := decoded(schema, body)
	err := schema.VisitJSON(value, openapi3.VisitAsRequest(), openapi3.MultiErrors())
	if err == nil {
		return nil
	}
	fields := violationsIn(err)
	slices.SortFunc(fields, func(a, b fault.Field) int { return strings.Compare(a.Pointer, b.Pointer) })
	return fields
}

// violationsIn returns the violations with their locations. For a member that refers to its schema
// by allOf because it has its own description, it returns the violations inside that schema.
func violationsIn(err error) (fields []fault.Field) {
	for _, e := range Flatten(err) {
		var violation *openapi3.SchemaError
		var inside openapi3.MultiError
		switch {
		case !errors.As(e, &violation):
		case violation.SchemaField == "allOf" && errors.As(violation.Origin, &inside):
			fields = append(fields, violationsIn(inside)...)
		default:
			fields = append(fields, ViolationField(violation))
		}
	}
	return fields
}

// decoded decodes canonical JSON to the extent that its schema describes it.
func decoded(s *openapi3.Schema, raw []byte) any {
	for s.Type == nil && len(s.AllOf) == 1 && s.Properties == nil { // a reference with its own description
		s = s.AllOf[0].Value
	}
	more, composed := s.AdditionalProperties.Schema, len(s.AllOf)+len(s.OneOf)+len(s.AnyOf) > 0
	switch {
	case composed:
	case s.Type == nil && s.Nullable: // free-form
		if string(raw) == "null" {
			return nil
		}
		return true
	case raw[0] == '{' && s.Type.Is(openapi3.TypeObject):
		value := make(map[string]any, 8)
		for name, raw := range Members(raw) {
			switch property := s.Properties[name]; {
			case property != nil:
				value[name] = decoded(property.Value, raw)
			case more != nil:
				value[name] = decoded(more.Value, raw)
			case len(s.Properties) > 0:
				value[name] = nil // an unknown member is rejected because of its name
			}
		}
		return value
	case raw[0] == '[' && s.Items != nil:
		var value []any
		for raw := range Elements(raw) {
			value = append(value, decoded(s.Items.Value, raw))
		}
		if value == nil {
			value = []any{}
		}
		return value
	}
	if raw[0] == '"' {
		return unquoted(raw)
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		v = nil // canonical JSON can always be decoded, except for numbers beyond float64
	}
	return v
}

// Members yields the members of a canonical JSON object. Canonical JSON has no blanks or errors, so
// the end of a value can be found without a parser.
func Members(object []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for rest := object[1:]; rest[0] != '}'; {
			end := valueEnd(rest)
			key := unquoted(rest[:end])
			rest = rest[end+1:] // skip the colon
			end = valueEnd(rest)
			if !yield(key, rest[:end]) {
				return
			}
			rest = rest[end:]
			if rest[0] == ',' {
				rest = rest[1:]
			}
		}
	}
}

// unquoted reads a canonical JSON string.
func unquoted(raw []byte) (text string) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	if err := json.Unmarshal(raw, &text); err != nil {
		panic("rest: a canonical string is a JSON string: " + err.Error())
	}
	return text
}

// Elements yields the elements of a canonical JSON array.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest := array[1:]; rest[0] != ']'; {
			end := valueEnd(rest)
			if !yield(rest[:end]) {
				return
			}
			if rest = rest[end:]; rest[0] == ',' {
				rest = rest[1:]
			}
		}
	}
}

// valueEnd returns the end of the first value in canonical JSON.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // the preceding number or literal ends here
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
}

// ViolationField returns the API's code and message for one violation of a schema.
func ViolationField(e *openapi3.SchemaError) fault.Field {
	f := fault.Field{Code: e.SchemaField, Message: strings.TrimPrefix(strings.TrimPrefix(e.Reason, "value "), "number ")}
	for _, token := range e.JSONPointer() {
		f.Pointer += "/" + strictjson.Token(token)
	}
	switch e.SchemaField {
	case "required":
		f.Message = "is required"
	case "properties":
		f.Code, f.Message = "unknown", "is unknown"
		if key, err := strconv.QuotedPrefix(strings.TrimPrefix(e.Reason, "property ")); err == nil {
			if name, err := strconv.Unquote(key); err == nil {
				f.Pointer += "/" + strictjson.Token(name)
			}
		}
	case "nullable":
		f.Message = "must not be null"
	case "minLength":
		f.Message = "must have at least " + characters(e.Schema.MinLength)
	case "maxLength":
		f.Message = "must have at most " + characters(*e.Schema.MaxLength)
	case "maximum": // kin-openapi would print 3.1e+10
		f.Message = "must be at most " + strconv.FormatFloat(*e.Schema.Max, 'f', -1, 64)
	case "minimum":
		f.Message = "must be at least " + strconv.FormatFloat(*e.Schema.Min, 'f', -1, 64)
	case "pattern", "format":
		f.Message = "does not match the format in the contract"
	}
	return f
}

// Flatten returns the errors inside nested openapi3.MultiErrors.
func Flatten(err error) []error {
	multi, ok := err.(openapi3.MultiError) //nolint:errorlint // unwrap one level at a time
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range multi {
		out = append(out, Flatten(e)...)
	}
	return out
}

func characters(n uint64) string {
	if n == 1 {
		return "1 character"
	}
	return strconv.FormatUint(n, 10) + " characters"
}
