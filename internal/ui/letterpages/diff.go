package letterpages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"html/template"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/internal/ui/web"
)

// operation is one operation of a JSON Patch (RFC 6902).
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
	// Before is the value that the operation replaces or removes.
	Before json.RawMessage `json:"-"`
}

// sentence describes an operation for people: "amount: 599.00 → 59.90".
func (o operation) sentence() template.HTML {
	at := strings.ReplaceAll(strings.TrimPrefix(o.Path, "/"), "/", " / ")
	at = unescaped.Replace(cmp.Or(at, "the payload"))
	switch o.Op {
	case "add":
		return web.Sentence("%s: added, %s", at, brief(o.Value))
	case "remove":
		return web.Sentence("%s: removed, currently %s", at, brief(o.Before))
	}
	return web.Sentence("%s: %s → %s", at, brief(o.Before), brief(o.Value))
}

var unescaped = strings.NewReplacer("~1", "/", "~0", "~")

// brief formats a value on one line.
func brief(raw json.RawMessage) string {
	const most = 120
	if text := []rune(string(raw)); len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(raw)
}

// difference returns the patch that turns before into after. Numbers are compared and kept as written: 1.0
// differs from 1, and no digit of a 64-bit number is lost.
func difference(before, after json.RawMessage) (patch []operation, err error) {
	was, err := parse(before)
	if err != nil {
		return nil, err
	}
	is, err := parse(after)
	if err != nil {
		return nil, err
	}
	compare("", was, is, &patch)
	return patch, nil
}

// value is a JSON value whose objects and arrays are decoded.
type value struct {
	raw     json.RawMessage
	members map[string]value // of an object
	items   []value          // of an array
	kind    byte             // its first character
}

func parse(raw json.RawMessage) (v value, err error) {
	raw = bytes.TrimSpace(raw)
	var small bytes.Buffer
	if err := json.Compact(&small, raw); err != nil {
		return v, err
	}
	v.raw, v.kind = small.Bytes(), small.Bytes()[0]
	switch v.kind {
	case '{':
		var inner map[string]json.RawMessage
		if err := json.Unmarshal(v.raw, &inner); err != nil {
			return v, err
		}
		v.members = make(map[string]value, len(inner))
		for name, m := range inner {
			if v.members[name], err = parse(m); err != nil {
				return v, err
			}
		}
	case '[':
		var inner []json.RawMessage
		if err := json.Unmarshal(v.raw, &inner); err != nil {
			return v, err
		}
		for _, m := range inner {
			item, err := parse(m)
			if err != nil {
				return v, err
			}
			v.items = append(v.items, item)
		}
	case '"': // the same text may be written in several ways
		var text string
		if err := json.Unmarshal(v.raw, &text); err != nil {
			return v, err
		}
		if v.raw, err = plainly(text); err != nil {
			return v, err
		}
	}
	return v, nil
}

// plainly returns a text as JSON without the escapes that only HTML needs.
func plainly(text string) (json.RawMessage, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(text)
	return bytes.TrimSpace(out.Bytes()), err
}

func same(a, b value) bool {
	if a.kind != b.kind || len(a.members) != len(b.members) || len(a.items) != len(b.items) {
		return false
	}
	switch a.kind {
	case '{':
		for name, m := range a.members {
			other, ok := b.members[name]
			if !ok || !same(m, other) {
				return false
			}
		}
		return true
	case '[':
		return slices.EqualFunc(a.items, b.items, same)
	}
	return bytes.Equal(a.raw, b.raw)
}

// compare adds the operations that turn was into is. An object is replaced as a whole if a member
// with an empty name differs, because some programs, including this server, do not understand paths
// through such a member.
func compare(path string, was, is value, patch *[]operation) {
	switch {
	case same(was, is):
	case was.kind == '{' && is.kind == '{' && same(was.members[""], is.members[""]):
		for _, name := range slices.Sorted(maps.Keys(was.members)) {
			at := path + "/" + web.Token(name)
			if now, ok := is.members[name]; ok {
				compare(at, was.members[name], now, patch)
			} else {
				*patch = append(*patch, operation{Op: "remove", Path: at, Before: was.members[name].raw})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(is.members)) {
			if _, ok := was.members[name]; !ok {
				at := path + "/" + web.Token(name)
				*patch = append(*patch, operation{Op: "add", Path: at, Value: is.members[name].raw})
			}
		}
	case was.kind == '[' && is.kind == '[':
		compareItems(path, was.items, is.items, patch)
	default:
		*patch = append(*patch, operation{Op: "replace", Path: path, Value: is.raw, Before: was.raw})
	}
}

// compareItems skips the elements that two arrays have in common at their beginning and end, and
// compares the rest one by one.
func compareItems(path string, was, is []value, patch *[]operation) {
	first := 0
	for first < len(was) && first < len(is) && same(was[first], is[first]) {
		first++
	}
	was, is = was[first:], is[first:]
	for len(was) > 0 && len(is) > 0 && same(was[len(was)-1], is[len(is)-1]) {
		was, is = was[:len(was)-1], is[:len(is)-1]
	}
	at := func(i int) string { return path + "/" + strconv.Itoa(first+i) }
	both := min(len(was), len(is))
	for i := range both {
		compare(at(i), was[i], is[i], patch)
	}
	for i := len(was) - 1; i >= both; i-- {
		*patch = append(*patch, operation{Op: "remove", Path: at(i), Before: was[i].raw})
	}
	for i := both; i < len(is); i++ {
		*patch = append(*patch, operation{Op: "add", Path: at(i), Value: is[i].raw})
	}
}
