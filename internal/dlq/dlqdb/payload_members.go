package dlqdb

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Limits on how much of a payload is indexed by terms; maxTermValue also applies to headers.
const (
	maxPayloadTerms = 60
	maxPayloadDepth = 6
	maxTermValue    = 255 // bytes
)

// walk traverses a text that is known to be JSON.
type walk struct {
	doc   []byte
	at    int
	found []string
}

// value reads one value. It returns false when the limit or the end has been reached. The path ""
// stands for the whole text, or for a value that is not indexed.
func (w *walk) value(path string, depth int) bool {
	open := w.next()
	if open == '{' || open == '[' {
		w.at++
		return w.inside(open, path, depth)
	}
	t, ok := w.scalar(open)
	if !ok {
		return false
	}
	if s, ok := scalar(t); ok && path != "" && depth <= maxPayloadDepth {
		w.found = append(w.found, memberTerm(path, s))
	}
	return len(w.found) < maxPayloadTerms
}

// inside reads the members of an object or the items of an array, including the closing bracket.
func (w *walk) inside(open byte, path string, depth int) bool {
	for i := 0; ; i++ {
		c := w.next()
		if c == open+2 { // in ASCII, } and ] come two after { and [
			w.at++
			return true
		}
		if i > 0 {
			if c != ',' {
				return false
			}
			w.at++
		}
		var name string
		if open == '[' {
			name = strconv.Itoa(i)
		} else {
			text, ok := w.text()
			if !ok || w.next() != ':' {
				return false
			}
			w.at++
			name = text
		}
		if !w.value(below(path, name, depth), depth+1) {
			return false
		}
	}
}

// next returns the next byte that is not white space without consuming it, or 0 at the end.
func (w *walk) next() byte {
	for ; w.at < len(w.doc); w.at++ {
		switch c := w.doc[w.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// scalar reads a value that begins with c and is not an object or an array.
func (w *walk) scalar(c byte) (json.Token, bool) {
	if c == '"' {
		return w.text()
	}
	begin := w.at
	for ; w.at < len(w.doc) && bytes.IndexByte([]byte(",]} \t\n\r"), w.doc[w.at]) < 0; w.at++ {
	}
	switch s := string(w.doc[begin:w.at]); s {
	case "":
		return nil, false
	case "null":
		return nil, true
	case "true":
		return true, true
	case "false":
		return false, true
	default:
		return json.Number(s), true
	}
}

// text reads a quoted string.
func (w *walk) text() (string, bool) {
	if w.next() != '"' {
		return "", false
	}
	begin, simple := w.at, true
	for w.at++; w.at < len(w.doc); w.at++ {
		switch c := w.doc[w.at]; {
		case c == '"':
			w.at++
			quoted := w.doc[begin:w.at]
			if simple {
				return string(quoted[1 : len(quoted)-1]), true
			}
			var s string
			err := json.Unmarshal(quoted, &s)
			return s, err == nil
		case c == '\\':
			simple = false
			w.at++
		case c >= 0x80:
			simple = false // left to the decoder
		}
	}
	return "", false
}

func below(path, name string, depth int) string {
	switch {
	case name == "" || strings.Contains(name, ".") || depth > 0 && path == "":
		return ""
	case depth == 0:
		return name
	}
	return path + "." + name
}

func memberTerm(path, value string) string { return path + "\x00" + value }

// scalar encodes a JSON scalar so that equal values have equal encodings. Strings are quoted, and
// numbers are converted to the nearest binary fraction regardless of how they were written.
func scalar(t json.Token) (string, bool) {
	switch v := t.(type) {
	case nil:
		return "null", true
	case bool:
		return strconv.FormatBool(v), true
	case string:
		return `"` + v + `"`, len(v) <= maxTermValue
	case json.Number:
		f, err := v.Float64()
		if f == 0 {
			f = 0 // -0 equals 0
		}
		return strconv.FormatFloat(f, 'g', -1, 64), err == nil && !math.IsInf(f, 0)
	}
	return "", false
}

// members returns the first scalar members of a JSON text, each as path, NUL, value. The name of an
// array item is its index. Members with a dot in a name are omitted because their path would be
// ambiguous, as is everything after a syntax error. The function reads every payload that arrives,
// so it does not use a decoder.
func members(doc []byte) []string {
	w := walk{doc: doc}
	w.value("", 0)
	return w.found
}
