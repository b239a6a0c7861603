package api

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/skald-saga/skald/internal/strictjson"
)

// Long JSON values from clients, such as a saga's payload, are canonical before a request is
// decoded and when an answer is encoded. encoding/json would read every byte twice more to decode
// it, and once to encode it; with payloads of 100 kB that took three fifths of the server's CPU
// time (docs/decisions/0168). So a short mark takes the place of each long value while the rest is
// decoded or encoded.

// long is the size in bytes from which a value is replaced.
const long = 1 << 10

// secret makes the marks unpredictable, so that no content can contain one.
var secret = rand.Text()

// mark is the JSON string that stands for the i-th long value.
func mark(i int) json.RawMessage { return fmt.Appendf(nil, `"%s-%d"`, secret, i) }

var (
	rawMessage  = reflect.TypeFor[json.RawMessage]()
	marshaler   = reflect.TypeFor[json.Marshaler]()
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
)

// Encode returns the JSON of an answer, followed by a line feed. Fields of type json.RawMessage, at
// any level, must contain valid JSON. Long ones are written unchanged.
func Encode(body any) ([]byte, error) {
	short, values := body, []json.RawMessage(nil)
	v := reflect.Indirect(reflect.ValueOf(body))
	if parts := partsOf(v); hasLong(v, parts) {
		c := reflect.New(v.Type())
		c.Elem().Set(v)
		values = takeLong(c.Elem(), parts, nil)
		short = c.Interface()
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(short); err != nil {
		return nil, err
	}
	rest := text.Bytes()
	if len(values) == 0 {
		return rest, nil
	}
	size := len(rest)
	for _, v := range values {
		size += len(v)
	}
	out := make([]byte, 0, size)
	for i, v := range values { // the fields are encoded in order
		before, after, _ := bytes.Cut(rest, mark(i))
		out, rest = append(append(out, before...), v...), after
	}
	return append(out, rest...), nil
}

// part is a field that may be long, or a list of structs that contain such fields, such as the
// items of a page or a saga's step logs.
type part struct {
	field int
	name  string // name of the JSON member
	items []part // nil means that the field is a json.RawMessage
}

// known caches the []part of each type that was encoded or decoded.
var known sync.Map

// partsOf returns the parts of v in order, or none if v is not a struct.
func partsOf(v reflect.Value) []part {
	if v.Kind() != reflect.Struct {
		return nil
	}
	return partsOfType(v.Type())
}

// partsOfType returns the parts of a struct type. It skips a type nested within itself, and returns
// none for a type with its own JSON methods.
func partsOfType(t reflect.Type, around ...reflect.Type) []part {
	if parts, found := known.Load(t); found {
		return parts.([]part) //nolint:forcetypeassert // nothing else is stored
	}
	if slices.Contains(around, t) {
		return nil
	}
	var parts []part
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch list := f.Type.Kind() == reflect.Slice; {
		case !f.IsExported():
		case f.Type == rawMessage:
			parts = append(parts, part{field: i, name: name})
		case list && f.Type.Elem().Kind() == reflect.Struct:
			if items := partsOfType(f.Type.Elem(), append(around, t)...); len(items) > 0 {
				parts = append(parts, part{i, name, items})
			}
		}
	}
	if p := reflect.PointerTo(t); p.Implements(marshaler) || p.Implements(unmarshaler) {
		parts = nil
	}
	known.Store(t, parts)
	return parts
}

func hasLong(v reflect.Value, parts []part) bool {
	return slices.ContainsFunc(parts, func(p part) bool {
		f := v.Field(p.field)
		if p.items == nil {
			return f.Len() >= long
		}
		for i := range f.Len() {
			if hasLong(f.Index(i), p.items) {
				return true
			}
		}
		return false
	})
}

// takeLong replaces the long values in v, which is a copy, by marks, and appends them to values.
// Lists are copied.
func takeLong(v reflect.Value, parts []part, values []json.RawMessage) []json.RawMessage {
	for _, p := range parts {
		f := v.Field(p.field)
		switch {
		case p.items != nil && f.Len() > 0:
			c := reflect.MakeSlice(f.Type(), f.Len(), f.Len())
			reflect.Copy(c, f)
			f.Set(c)
			for i := range f.Len() {
				values = takeLong(f.Index(i), p.items, values)
			}
		case p.items == nil && f.Len() >= long:
			values = append(values, f.Bytes())
			f.SetBytes(mark(len(values) - 1))
		}
	}
	return values
}

// decode decodes a request's body, which is canonical JSON of r.ContentLength bytes. io.EOF means
// that there is no body.
func decode(r *http.Request, body any) error {
	var read bytes.Buffer
	read.Grow(int(r.ContentLength) + bytes.MinRead)
	if _, err := read.ReadFrom(r.Body); err != nil {
		return err
	}
	text := read.Bytes()
	switch {
	case len(text) == 0:
		return io.EOF
	case len(text) < long:
		return json.Unmarshal(text, body)
	}
	v := reflect.Indirect(reflect.ValueOf(body))
	parts := partsOf(v)
	members, ok := strictjson.Members(text)
	if len(parts) == 0 || !ok {
		return json.Unmarshal(text, body)
	}
	short, values := []byte{'{'}, map[int][]byte{}
	for i, m := range members {
		own := slices.IndexFunc(parts, func(p part) bool { return p.items == nil && p.name == m.Key })
		if own >= 0 && len(m.Raw) >= long {
			values[parts[own].field], m.Raw = slices.Clip(m.Raw), []byte("null")
		}
		if i > 0 {
			short = append(short, ',')
		}
		key, err := strictjson.Encode(m.Key)
		if err != nil {
			return err
		}
		short = append(append(append(short, key...), ':'), m.Raw...)
	}
	if err := json.Unmarshal(append(short, '}'), body); err != nil {
		return err
	}
	for field, text := range values {
		v.Field(field).SetBytes(text)
	}
	return nil
}
