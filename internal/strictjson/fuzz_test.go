package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"testing"
	"unicode/utf8"

	"github.com/skald-saga/skald/internal/strictjson"
)

// FuzzCanonical compares Canonical with encoding/json: what Canonical accepts,
// encoding/json accepts with the same meaning, and what only encoding/json accepts
// has the fault that Canonical reports.
func FuzzCanonical(f *testing.F) {
	for _, s := range canonicalForms {
		f.Add([]byte(s.src))
	}
	for _, src := range []string{
		``, `{} {}`, `[1,]`, `{"a":1,"a":2}`, `{"b":1,"a":2,"b":3}`, `"\ud800"`, `"\u0000"`, "\"\xff\"",
		`1e400`, `[[[[]]]]`, `-`, `"\`,
	} {
		f.Add([]byte(src))
	}
	limits := strictjson.Limits{MaxDepth: 5}
	f.Fuzz(func(t *testing.T, src []byte) {
		before := bytes.Clone(src)
		out, err := strictjson.Canonical(nil, src, limits)
		if !bytes.Equal(src, before) {
			t.Fatalf("src changed from %q to %q", before, src)
		}
		if err != nil {
			checkFault(t, src, err)
			return
		}
		if !json.Valid(src) || !utf8.Valid(src) {
			t.Fatalf("accepted %q", src)
		}
		depth, duplicate := walk(src)
		if depth > limits.MaxDepth || duplicate {
			t.Fatalf("accepted %q: depth %d, duplicate key %t", src, depth, duplicate)
		}
		if a, b := parsed(t, src), parsed(t, out); !same(a, b) {
			t.Fatalf("%q became %q", src, out)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, out); err != nil || !bytes.Equal(compact.Bytes(), out) {
			t.Fatalf("%q is not compact: %v", out, err)
		}
		again, err := strictjson.Canonical(nil, out, limits)
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("Canonical(%q) = %q, %v; want it unchanged", out, again, err)
		}
	})
}

// checkFault fails unless src has the fault that err names.
func checkFault(t *testing.T, src []byte, err error) {
	t.Helper()
	var e *strictjson.Error
	if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(src) {
		t.Fatalf("%q: error %+v", src, err)
	}
	rest := src[e.Offset:]
	depth, duplicate := walk(src)
	var right bool
	switch e.Code {
	case strictjson.CodeEmpty:
		right = len(bytes.Trim(src, " \t\r\n")) == 0
	case strictjson.CodeSyntax:
		right = !json.Valid(src)
	case strictjson.CodeTrailingData:
		right = !json.Valid(src) && json.Valid(src[:e.Offset])
	case strictjson.CodeInvalidUTF8:
		r, size := utf8.DecodeRune(rest)
		right = r == utf8.RuneError && size == 1 && utf8.Valid(src[:e.Offset])
	case strictjson.CodeNULCharacter:
		right = rest[0] == 0 || bytes.HasPrefix(rest, []byte(`\u0000`))
	case strictjson.CodeLoneSurrogate:
		right = bytes.HasPrefix(bytes.ToLower(rest), []byte(`\ud`))
	case strictjson.CodeDuplicateKey:
		right = duplicate && rest[0] == '"'
	case strictjson.CodeTooDeep:
		right = depth > 5 && (rest[0] == '[' || rest[0] == '{')
	case strictjson.CodeNumberOutOfRange:
		right = rest[0] == '-' || rest[0] >= '0' && rest[0] <= '9'
	}
	if !right {
		t.Fatalf("%q: error %+v", src, e)
	}
}

// walk reads src as far as encoding/json can and returns how deeply it nests and
// whether an object has a key twice.
func walk(src []byte) (depth int, duplicate bool) {
	type level struct {
		keys    map[string]bool // nil in an array
		wantKey bool
	}
	var open []level
	decoder := json.NewDecoder(bytes.NewReader(src))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err != nil {
			return depth, duplicate
		}
		if n := len(open); n > 0 && open[n-1].keys != nil {
			key, ok := token.(string)
			if in := &open[n-1]; in.wantKey && ok {
				duplicate = duplicate || in.keys[key]
				in.keys[key] = true
				in.wantKey = false
				continue
			}
			open[n-1].wantKey = true
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{keys: map[string]bool{}, wantKey: true})
		case json.Delim('['):
			open = append(open, level{})
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
		depth = max(depth, len(open))
	}
}

func parsed(t *testing.T, src []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(src))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%q: %v", src, err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		t.Fatalf("%q: %v after the value, want its end", src, err)
	}
	return v
}

// same compares parsed values, numbers by their value.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, ok := b[k]
			if !ok || !same(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		if !ok {
			return false
		}
		x, okX := new(big.Rat).SetString(a.String())
		y, okY := new(big.Rat).SetString(b.String())
		return okX && okY && x.Cmp(y) == 0
	default:
		return a == b
	}
}
