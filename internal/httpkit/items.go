package httpkit

import (
	"bytes"
	"maps"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/strictjson"
)

// List describes a list in a body whose items are judged separately, as declared by x-judged in its
// schema.
type List struct {
	Name  string   // name of the member that contains the list
	Item  *Body    // schema of each item
	Most  int      // items
	ID    string   // the member of an item that names it in the response; "": none
	Spare []string // optional members of an item, which are dropped if they are invalid
	// Around lists optional members of the body outside the list. Body is the schema of the body
	// with arbitrary items.
	Around []string
	Body   *Body
}

// ListOf returns the list that a schema declares with x-judged, nil if there is none. free is a
// schema that accepts any JSON.
func ListOf(body *openapi3.Schema, free *openapi3.SchemaRef) *List {
	declared, is := body.Extensions["x-judged"].(map[string]any)
	if !is {
		return nil
	}
	words := func(name string) (words []string) {
		list, _ := declared[name].([]any)
		for _, w := range list {
			word, _ := w.(string)
			words = append(words, word)
		}
		return words
	}
	l := &List{Spare: words("spare"), Around: words("around")}
	l.Name, _ = declared["list"].(string)
	l.ID, _ = declared["id"].(string)
	list := *body.Properties[l.Name].Value
	l.Item, l.Most = BodyOf(list.Items.Value), int(*list.MaxItems) //nolint:gosec // at most thousands
	list.Items = free
	around := *body
	around.Properties = maps.Clone(body.Properties)
	around.Properties[l.Name] = &openapi3.SchemaRef{Value: &list}
	l.Body = BodyOf(&around)
	return l
}

// Judged is the result for one item; the zero value means that it is valid.
type Judged struct {
	ID       string       // value of the member that names a rejected item, if there is one
	Refused  *fault.Error // pointers are relative to the item
	Kept     bool         // only optional members were invalid and have been dropped
	Adjusted []string     // pointers of texts that were mended
}

// Item returns the result for item i of the body's list; undecoded is the reason why it could not
// be decoded, nil if it could.
func (r *Request) Item(i int, undecoded error) (j Judged) {
	if r.Items != nil {
		j = r.Items[i]
	}
	if undecoded != nil && (j.Refused == nil || j.Kept) {
		j.Refused, j.Kept = fault.As(Unreadable(undecoded)), false
	}
	return j
}

// Merged returns the pointers of texts that were mended and of texts that were cut, without duplicates.
func Merged(mended, cut []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(mended, cut))))
}

// Judge splits a body that was rejected as a whole and judges its items. It returns the body with
// null in place of each rejected item, and the result for each item. It returns false if the body
// is not an object with such a list.
func (l *List) Judge(body []byte, maxDepth int) (judged []byte, items []Judged, around *fault.Error, ok bool) {
	members, ok := strictjson.Members(body)
	if !ok {
		return nil, nil, nil, false
	}
	limits := strictjson.Limits{MaxDepth: maxDepth}
	within := strictjson.Limits{MaxDepth: maxDepth - 2}
	var out bytes.Buffer
	out.WriteByte('{')
	found, grown := false, 0
	for _, m := range members {
		raw := m.Raw
		switch {
		case m.Key == l.Name && !found:
			elements, list := strictjson.Elements(raw, l.Most)
			if !list {
				return nil, nil, nil, false
			}
			found = true
			items = make([]Judged, len(elements))
			texts := make([][]byte, len(elements))
			for i := range elements {
				texts[i], items[i] = l.judge(elements[i], within, &grown)
			}
			raw = append(append([]byte{'['}, bytes.Join(texts, []byte{','})...), ']')
		case slices.Contains(l.Around, m.Key):
			if why := refusal(l.Body.Schema, m, limits); why != nil {
				around = why
				continue
			}
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(quoted(m.Key))
		out.WriteByte(':')
		out.Write(raw)
	}
	out.WriteByte('}')
	return out.Bytes(), items, around, found
}

var null = []byte("null")

// mostGrowth is how many digits the exponents of all items together may add, which is as many as
// strictjson allows for a whole document.
const mostGrowth = 64 << 10

// judge returns the canonical form of an item without its invalid optional members, or null if the
// item is rejected.
func (l *List) judge(raw []byte, limits strictjson.Limits, grown *int) ([]byte, Judged) {
	text, adjusted, why := Read(l.Item, raw, limits)
	if why == nil {
		if more := len(text) - len(raw); more > 0 {
			if *grown += more; *grown > mostGrowth {
				why = fault.New(fault.Malformed, CodeInvalidJSON, "the numbers of all items together have too many digits")
			}
		}
	}
	if why == nil {
		return text, Judged{Adjusted: adjusted}
	}
	members := strictjson.Salvaged(raw)
	var kept bytes.Buffer
	kept.WriteByte('{')
	id := ""
	for _, m := range members {
		if m.Key == l.ID && len(m.Raw) > 2 && len(m.Raw) < 100 && m.Raw[0] == '"' {
			id = string(m.Raw[1 : len(m.Raw)-1])
		}
		if slices.Contains(l.Spare, m.Key) && refusal(l.Item.Schema, m, limits) != nil {
			continue
		}
		if kept.Len() > 1 {
			kept.WriteByte(',')
		}
		kept.Write(quoted(m.Key))
		kept.WriteByte(':')
		kept.Write(m.Raw)
	}
	kept.WriteByte('}')
	if l.Spare != nil && members != nil {
		if text, adjusted, still := Read(l.Item, kept.Bytes(), limits); still == nil {
			return text, Judged{ID: id, Refused: why, Kept: true, Adjusted: adjusted}
		}
	}
	return null, Judged{ID: id, Refused: why}
}

// refusal returns why one member of an object is invalid regardless of the others, nil if it is
// valid.
func refusal(object *openapi3.Schema, m strictjson.Member, limits strictjson.Limits) *fault.Error {
	alone := slices.Concat([]byte{'{'}, quoted(m.Key), []byte{':'}, m.Raw, []byte{'}'})
	only := openapi3.Schema{
		Type: object.Type, AdditionalProperties: object.AdditionalProperties,
		Properties: openapi3.Schemas{m.Key: object.Properties[m.Key]},
	}
	_, _, why := Read(&Body{Schema: &only}, alone, limits)
	return why
}

func quoted(key string) []byte {
	text, err := strictjson.Encode(key)
	if err != nil { // the item is rejected because the name cannot be stored
		return []byte(`"\u0000"`)
	}
	return text
}

// Body is the schema of a body, or of an item of its list, with its shape.
type Body struct {
	Schema *openapi3.Schema
	shape  *Shape // nil: not compiled
}

// BodyOf compiles a schema; nil: nil.
func BodyOf(s *openapi3.Schema) *Body {
	if s == nil {
		return nil
	}
	return &Body{Schema: s, shape: ShapeOf(s)}
}

// Read checks one JSON value strictly and against its schema. It returns the value in canonical
// form, even if only the schema rejects it; adjusted is as for Mended. A nil Body has no schema.
func Read(body *Body, raw []byte, limits strictjson.Limits) (text []byte, adjusted []string, why *fault.Error) {
	if body == nil {
		body = &Body{}
	}
	text, adjusted, err := Mended(body.Schema, raw, limits)
	switch {
	case err != nil:
		return nil, nil, fault.As(NotStrict(err))
	case body.Schema == nil:
		return text, nil, nil
	case body.shape != nil && text[0] == '{' && body.shape.Accepts(text):
		return text, adjusted, nil
	}
	if fields := Violations(body.Schema, text); fields != nil {
		return text, nil, SchemaFault(fields...)
	}
	return text, adjusted, nil
}

// Mended checks one JSON value strictly, and returns it in canonical form. Texts that the schema
// marks with x-cleaned are mended instead of rejected; adjusted lists the pointers of the mended
// texts.
func Mended(schema *openapi3.Schema, raw []byte, limits strictjson.Limits) (
	text []byte, adjusted []string, err error,
) {
	text, err = strictjson.Canonical(nil, raw, limits)
	if err == nil || schema == nil || !strictjson.Mendable(err) {
		return text, nil, err
	}
	text, err = strictjson.Mended(nil, raw, limits, func(path []string) bool {
		if !cleaned(schema, path) {
			return false
		}
		if p := pointerOf(path); !slices.Contains(adjusted, p) {
			adjusted = append(adjusted, p)
		}
		return true
	})
	return text, adjusted, err
}

// cleaned reports whether the contract marks the text at path with x-cleaned.
func cleaned(s *openapi3.Schema, path []string) bool {
	for _, name := range path {
		s = plain(s)
		property := s.Properties[name]
		if property == nil {
			return false
		}
		s = property.Value
	}
	is, _ := plain(s).Extensions["x-cleaned"].(bool)
	return is
}

// plain returns the schema that a reference with its own description refers to.
func plain(s *openapi3.Schema) *openapi3.Schema {
	for s.Type == nil && len(s.AllOf) == 1 && s.Properties == nil {
		s = s.AllOf[0].Value
	}
	return s
}

func pointerOf(path []string) (pointer string) {
	for _, token := range path {
		pointer += "/" + strictjson.Token(token)
	}
	return pointer
}
