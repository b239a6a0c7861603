package httpkit

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/skald-saga/skald/api"
)

// Redacted is shown in place of content to callers without payloads:read.
var Redacted = json.RawMessage(`"***"`)

// RedactedText is Redacted for members that are text.
const RedactedText = "***"

// Redactor is the set of names of members that hold content from clients and participants: the
// members that the contract declares anywhere as AnyJSON or ContentText.
type Redactor map[string]bool

// NewRedactor reads the names from the contract, so that a new member is redacted as soon as
// it is declared.
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

// Redact returns a copy of an answer's body with *** in place of each value of those members. A
// body belongs to one answer, so data behind pointers and slices is redacted in place. ok is false
// if the body cannot be redacted because it has parts without member names.
func (n Redactor) Redact(body any) (covered any, ok bool) {
	v := reflect.New(reflect.TypeOf(body)).Elem()
	v.Set(reflect.ValueOf(body))
	ok = n.walk(v)
	return v.Interface(), ok
}

var (
	rawJSON       = reflect.TypeFor[json.RawMessage]()
	plannedChange = reflect.TypeFor[api.PlannedChange]()
	anyText       = reflect.TypeFor[string]()
	anyTexts      = reflect.TypeFor[[]string]()
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
		if v.Type() == plannedChange {
			n.change(v.Addr().Interface().(*api.PlannedChange))
			return true
		}
		for i := range v.NumField() {
			// Members of embedded structs, exported or not, are also part of the answer.
			if of := v.Type().Field(i); (of.IsExported() || of.Anonymous) && !n.member(v.Field(i), of) {
				return false
			}
		}
	case reflect.Map: // maps contain names and numbers, not content
		k := v.Type().Elem().Kind()
		return v.IsNil() || k == reflect.String || k == reflect.Float64
	case reflect.Interface:
		return v.IsNil()
	}
	return true
}

// change redacts content in the changes of a dry run, which identify it by path.
func (n Redactor) change(c *api.PlannedChange) {
	for name := range strings.SplitSeq(c.Member, ".") {
		if !n[name] {
			continue
		}
		for _, value := range []**string{&c.From, &c.To} {
			if *value != nil {
				*value = new(RedactedText)
			}
		}
	}
}

func (n Redactor) member(f reflect.Value, of reflect.StructField) bool {
	name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
	switch {
	case f.Type() == rawJSON:
		if n[name] && !f.IsNil() {
			f.Set(reflect.ValueOf(Redacted))
		}
	// An enum of the contract has its own type and is not content. An example is the result of an
	// action; a saga has a content member of the same name.
	case n[name] && f.Type() == anyText:
		f.SetString(RedactedText)
	case n[name] && f.Kind() == reflect.Pointer && f.Type().Elem() == anyText:
		if !f.IsNil() {
			f.Set(reflect.ValueOf(new(RedactedText))) // the handler's pointer may refer to shared data
		}
	case n[name] && f.Type() == anyTexts:
		if f.Len() > 0 {
			f.Set(reflect.ValueOf([]string{RedactedText}))
		}
	default:
		return n.walk(f)
	}
	return true
}
