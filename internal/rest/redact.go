package rest

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Redacted stands for what somebody without payloads:read does not get to see.
var Redacted = json.RawMessage(`"***"`)

// RedactedText is redacted where a member is text.
const RedactedText = "***"

// Redactor is the names of members that hold what clients and participants say:
// those that the contract calls AnyJSON or ContentText, somewhere.
type Redactor map[string]bool

// NewRedactor reads them from the contract, so that a new one is covered by being
// declared.
func NewRedactor(doc *openapi3.T) Redactor {
	out := Redactor{}
	for _, schema := range doc.Components.Schemas {
		for name, member := range schema.Value.Properties {
			text := member.Ref
			if len(member.Value.AllOf) == 1 {
				text = member.Value.AllOf[0].Ref
			}
			if member.Ref == "#/components/schemas/AnyJSON" || text == "#/components/schemas/ContentText" {
				out[name] = true
			}
		}
	}
	return out
}

// Redact returns a copy of an answer's body with the text *** for each value of
// those members. Handlers make bodies for one answer, so what lies behind
// pointers and slices is covered in place. ok is false for a body with parts
// that do not tell their members' names, so that they cannot be covered.
func (n Redactor) Redact(body any) (covered any, ok bool) {
	v := reflect.New(reflect.TypeOf(body)).Elem()
	v.Set(reflect.ValueOf(body))
	ok = n.walk(v)
	return v.Interface(), ok
}

var (
	rawJSON = reflect.TypeFor[json.RawMessage]()
	anyText = reflect.TypeFor[string]()
)

func (n Redactor) walk(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return v.IsNil() || n.walk(v.Elem())
	case reflect.Slice:
		if v.Type() == rawJSON {
			return false
		}
		for i := range v.Len() {
			if !n.walk(v.Index(i)) {
				return false
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			// Members of what is embedded are answered too, whatever it is called.
			if of := v.Type().Field(i); (of.IsExported() || of.Anonymous) && !n.member(v.Field(i), of) {
				return false
			}
		}
	case reflect.Map: // names and numbers that somebody has given hold no content
		k := v.Type().Elem().Kind()
		return v.IsNil() || k == reflect.String || k == reflect.Float64
	case reflect.Interface:
		return v.IsNil()
	}
	return true
}

func (n Redactor) member(f reflect.Value, of reflect.StructField) bool {
	name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
	switch {
	case f.Type() == rawJSON:
		if n[name] && !f.IsNil() {
			f.Set(reflect.ValueOf(Redacted))
		}
	// A word of the contract's own (an enum has a type of its own) tells no content,
	// such as what came of an action, whose name the result of a saga has too.
	case n[name] && f.Type() == anyText:
		f.SetString(RedactedText)
	case n[name] && f.Kind() == reflect.Pointer && f.Type().Elem() == anyText:
		if !f.IsNil() {
			f.Set(reflect.ValueOf(new(RedactedText))) // what the handler points to may be shared
		}
	default:
		return n.walk(f)
	}
	return true
}
