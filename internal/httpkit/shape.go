package httpkit

import (
	"bytes"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
)

// Shape is a compiled schema that quickly accepts valid values. It never rejects: a value that it
// does not accept, for example because it does not support a keyword of the schema, must be checked
// against the schema itself. It accepts nothing that the schema rejects (decision 0124).
type Shape struct {
	kind     string // JSON type, anything, or unknown
	nullable bool

	min, max *float64
	// limits for the length of a text in characters or the number of items
	least, most int
	pattern     openapi3.RegexMatcher // nil: any text
	format      openapi3.StringFormatValidator
	words       []string // nil: any text

	items *Shape // items of an array

	members  map[string]*member
	required int    // number of required members
	closed   bool   // other members are not allowed
	others   *Shape // shape of other members; nil: anything
}

type member struct {
	*Shape
	required bool
}

// Kinds of shapes in addition to the JSON types.
const (
	anything = "anything"
	unknown  = "unknown"
)

// ShapeOf compiles a schema. The document that contains it must have been validated.
func ShapeOf(s *openapi3.Schema) *Shape { return shapes{}.of(s) }

// shapes holds the shapes that have already been compiled, because schemas may be recursive.
type shapes map[*openapi3.Schema]*Shape

func (done shapes) of(s *openapi3.Schema) *Shape {
	if shape := done[s]; shape != nil {
		return shape
	}
	shape := &Shape{kind: unknown}
	done[s] = shape
	if s.Type == nil && len(s.AllOf) == 1 { // a reference, which may have its own description but no other keywords
		if onlyKnown(s) && isFree(s) && !s.ReadOnly {
			done[s] = done.of(s.AllOf[0].Value)
		}
		return done[s]
	}
	if !onlyKnown(s) || len(s.AllOf) > 0 || s.ReadOnly {
		return shape
	}
	if s.Type == nil {
		if s.Nullable && isFree(s) {
			shape.kind, shape.nullable = anything, true
		}
		return shape
	}
	if len(*s.Type) != 1 {
		return shape
	}
	kind := (*s.Type)[0]
	var ok bool
	switch kind {
	case openapi3.TypeBoolean:
		ok = s.Enum == nil
	case openapi3.TypeInteger, openapi3.TypeNumber:
		ok = s.Enum == nil && slices.Contains([]string{"", "int32", "int64", "double"}, s.Format)
		shape.min, shape.max = s.Min, s.Max
		if s.Format == "int32" {
			shape.narrow(-1<<31, 1<<31-1)
		}
	case openapi3.TypeString:
		ok = shape.text(s)
	case openapi3.TypeArray:
		if ok = s.Enum == nil && s.Items != nil; ok {
			shape.least, shape.most = bounds(s.MinItems, s.MaxItems)
			shape.items = done.of(s.Items.Value)
		}
	case openapi3.TypeObject:
		ok = s.Enum == nil && s.MinProps == 0 && s.MaxProps == nil && done.object(shape, s)
	default:
		ok = false
	}
	if ok {
		shape.kind, shape.nullable = kind, s.Nullable
	}
	return shape
}

// narrow adds bounds to the schema's own.
func (s *Shape) narrow(least, most float64) {
	if s.min == nil || *s.min < least {
		s.min = &least
	}
	if s.max == nil || *s.max > most {
		s.max = &most
	}
}

// text compiles a schema's constraints on a string. It returns false if a constraint is unknown.
func (s *Shape) text(of *openapi3.Schema) bool {
	s.least, s.most = bounds(of.MinLength, of.MaxLength)
	for _, word := range of.Enum {
		text, is := word.(string)
		if !is {
			return false
		}
		s.words = append(s.words, text)
	}
	s.format = openapi3.SchemaStringFormats[of.Format]
	if of.Pattern == "" {
		return true
	}
	var err error
	s.pattern, err = MatcherOf(of.Pattern)
	return err == nil
}

func bounds(least uint64, most *uint64) (int, int) {
	const enough = 1 << 31
	if most == nil {
		return int(min(least, enough)), enough //nolint:gosec // at most enough
	}
	return int(min(least, enough)), int(min(*most, enough)) //nolint:gosec // at most enough
}

// object compiles a schema's constraints on an object. It returns false if a constraint is unknown.
func (done shapes) object(shape *Shape, s *openapi3.Schema) bool {
	shape.members = make(map[string]*member, len(s.Properties))
	for name, property := range s.Properties {
		m := &member{done.of(property.Value), slices.Contains(s.Required, name)}
		if m.required {
			shape.required++
		}
		shape.members[name] = m
	}
	if has := s.AdditionalProperties.Has; has != nil {
		shape.closed = !*has
	}
	if others := s.AdditionalProperties.Schema; others != nil {
		shape.others = done.of(others.Value)
	}
	return shape.required == len(s.Required)
}

// onlyKnown reports whether a schema has only keywords that of supports.
func onlyKnown(s *openapi3.Schema) bool {
	rest := *s
	rest.AllOf = nil // of handles it
	rest.Extensions, rest.Origin, rest.Title, rest.Description, rest.ExternalDocs = nil, nil, "", "", nil
	rest.Default, rest.Example, rest.Deprecated, rest.WriteOnly, rest.ReadOnly = nil, nil, false, false, false
	rest.Type, rest.Format, rest.Enum, rest.Nullable = nil, "", nil, false
	rest.Min, rest.Max, rest.MinLength, rest.MaxLength, rest.Pattern = nil, nil, 0, nil, ""
	rest.MinItems, rest.MaxItems, rest.Items = 0, nil, nil
	rest.Required, rest.Properties, rest.MinProps, rest.MaxProps = nil, nil, 0, nil
	rest.AdditionalProperties = openapi3.AdditionalProperties{}
	return reflect.ValueOf(rest).IsZero()
}

// isFree reports whether a schema without a type allows any value.
func isFree(s *openapi3.Schema) bool {
	return s.Format == "" && s.Enum == nil && s.Min == nil && s.Max == nil && s.MinLength == 0 && s.MaxLength == nil &&
		s.Pattern == "" && s.MinItems == 0 && s.MaxItems == nil && s.Items == nil && s.Required == nil &&
		s.Properties == nil && s.MinProps == 0 && s.MaxProps == nil &&
		s.AdditionalProperties.Has == nil && s.AdditionalProperties.Schema == nil
}

// Accepts reports whether a value in canonical JSON is certainly valid.
func (s *Shape) Accepts(raw []byte) bool {
	switch s.kind {
	case anything:
		return true
	case unknown:
		return false
	}
	switch raw[0] {
	case 'n':
		return s.nullable
	case 't', 'f':
		return s.kind == openapi3.TypeBoolean
	case '"':
		if s.kind != openapi3.TypeString {
			return false
		}
		return s.AcceptsText(unquoted(raw))
	case '[':
		return s.kind == openapi3.TypeArray && s.acceptsItems(raw)
	case '{':
		return s.kind == openapi3.TypeObject && s.acceptsMembers(raw)
	}
	return s.acceptsNumber(raw)
}

// mostDigits is the maximum number of digits for which a number is certainly exact as a float64.
const mostDigits = 15

func (s *Shape) acceptsNumber(raw []byte) bool {
	whole := !bytes.ContainsAny(raw, ".eE")
	if len(raw) > mostDigits || s.kind != openapi3.TypeNumber && !(s.kind == openapi3.TypeInteger && whole) {
		return false
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	return err == nil && (s.min == nil || *s.min <= v) && (s.max == nil || v <= *s.max)
}

// AcceptsText reports whether a text, such as a parameter value, is certainly valid.
func (s *Shape) AcceptsText(text string) bool {
	if s.kind == anything {
		return true
	}
	if n := len(text); s.kind != openapi3.TypeString || n > s.most && utf8.RuneCountInString(text) > s.most ||
		n < s.least || s.least > 1 && utf8.RuneCountInString(text) < s.least {
		return false
	}
	return (s.words == nil || slices.Contains(s.words, text)) && (s.pattern == nil || s.pattern.MatchString(text)) &&
		(s.format == nil || s.format.Validate(text) == nil)
}

func (s *Shape) acceptsItems(raw []byte) bool {
	n := 0
	for item := range Elements(raw) {
		if n++; n > s.most || !s.items.Accepts(item) {
			return false
		}
	}
	return n >= s.least
}

func (s *Shape) acceptsMembers(raw []byte) bool {
	missing := s.required
	for rest := raw[1:]; rest[0] != '}'; {
		end := valueEnd(rest)
		name := rest[1 : end-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			return false
		}
		rest = rest[end+1:] // skip the colon
		end = valueEnd(rest)
		value := rest[:end]
		if rest = rest[end:]; rest[0] == ',' {
			rest = rest[1:]
		}
		switch m := s.members[string(name)]; {
		case m != nil:
			if !m.Accepts(value) {
				return false
			}
			if m.required {
				missing--
			}
		case s.closed, s.others != nil && !s.others.Accepts(value):
			return false
		}
	}
	return missing == 0
}
