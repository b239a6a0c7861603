package expression

import (
	"encoding/json"
	"errors"
	"math"

	"github.com/skald-saga/skald/internal/strictjson"
)

// Form is the body of a form request: members whose values are texts or lists of texts.
type Form struct{ fields []field }

type field struct {
	name string
	text *Text
}

var errForm = errors.New("must be a string, a number, true, false, or a list of these")

// NewForm compiles an object. It reports every mistake with its pointer within the object.
func NewForm(doc json.RawMessage, p *Place, fail func(pointer string, err error)) *Form {
	members, _ := strictjson.Decode(doc).(map[string]any)
	f := &Form{}
	add := func(name, at string, v any) {
		var s string
		switch v := v.(type) {
		case string:
			s = v
		case json.Number:
			s = string(v)
		case bool:
			s = "false"
			if v {
				s = "true"
			}
		default:
			fail(at, errForm)
			return
		}
		t, err := NewText(s, p)
		if err == nil && len(f.fields) >= maxExpressions {
			err = errors.New("the form has too many members")
		}
		if err != nil {
			fail(at, err)
			return
		}
		f.fields = append(f.fields, field{name, t})
	}
	for _, name := range canonicalKeys(members) {
		at := "/" + strictjson.Token(name)
		list, isList := members[name].([]any)
		if !isList {
			add(name, at, members[name])
			continue
		}
		for _, v := range list {
			add(name, at, v)
		}
	}
	return f
}

// Append appends the form as application/x-www-form-urlencoded. The error is a *Failure.
func (f *Form) Append(b []byte, e *Evaluation) ([]byte, error) {
	for i := range f.fields {
		if i > 0 {
			b = append(b, '&')
		}
		b = append(PercentEncoded(b, f.fields[i].name), '=')
		var err error
		if b, err = f.fields[i].text.Append(b, e, PercentEncoded); err != nil {
			var wrong *Failure
			if errors.As(err, &wrong) {
				wrong.Pointer = "/" + strictjson.Token(f.fields[i].name)
			}
			return b, err
		}
	}
	return b, nil
}

// Most is like Most of a template, but for the encoded form, in which a byte may take three bytes.
func (f *Form) Most(value int) int {
	most := 0
	for i := range f.fields {
		most = add(most, len(f.fields[i].name)+len("&=")+mostText(f.fields[i].text.parts, value))
	}
	if most > math.MaxInt/3 {
		return math.MaxInt
	}
	return 3 * most
}
