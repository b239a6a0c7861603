package expression

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/internal/strictjson"
)

// maxExpressions is the maximum number of expressions in one template.
const maxExpressions = 256

// Template is a JSON value with expressions in its strings. If a string consists of one expression,
// it is replaced by the expression's value. Inside longer text an expression is replaced by the
// characters of a string, number or bool.
type Template struct {
	nodes []node
	exprs int
	// Computes reports whether the template has a meaning that it did not have before expressions
	// existed, because it contains anything other than references that are whole strings.
	Computes bool
}

// node is one part of a template. Nodes are in the order in which they are sent.
type node struct {
	literal []byte
	value   *expr
	text    []textPart // for one string that contains expressions
	pointer string     // the pointer of value and text
}

type textPart struct {
	literal string // as it is sent
	expr    *expr
}

// NewTemplate compiles a template. It reports every mistake with its pointer within the template.
func NewTemplate(doc json.RawMessage, p *Place, fail func(pointer string, err error)) *Template {
	t := &Template{}
	t.add(strictjson.Decode(doc), "", p, fail)
	return t
}

func (t *Template) literal(b ...byte) {
	if n := len(t.nodes); n > 0 && t.nodes[n-1].value == nil && t.nodes[n-1].text == nil {
		t.nodes[n-1].literal = append(t.nodes[n-1].literal, b...)
		return
	}
	t.nodes = append(t.nodes, node{literal: bytes.Clone(b)})
}

func (t *Template) encoded(v any) {
	b, err := strictjson.Encode(v)
	if err != nil {
		panic("expression: a part of canonical JSON is not JSON: " + err.Error())
	}
	t.literal(b...)
}

func (t *Template) add(v any, at string, p *Place, fail func(string, error)) {
	switch v := v.(type) {
	case string:
		if !Has(v) {
			t.encoded(v)
			return
		}
		t.string(v, at, p, fail)
	case []any:
		t.literal('[')
		for i := range v {
			if i > 0 {
				t.literal(',')
			}
			t.add(v[i], at+"/"+strconv.Itoa(i), p, fail)
		}
		t.literal(']')
	case map[string]any:
		t.literal('{')
		for i, key := range canonicalKeys(v) {
			if i > 0 {
				t.literal(',')
			}
			t.encoded(key)
			t.literal(':')
			t.add(v[key], at+"/"+strictjson.Token(key), p, fail)
		}
		t.literal('}')
	default:
		t.encoded(v)
	}
}

// canonicalKeys returns the keys in the order of canonical JSON.
func canonicalKeys(m map[string]any) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(len(a)-len(b), cmp.Compare(a, b))
	})
}

func (t *Template) string(s, at string, p *Place, fail func(string, error)) {
	if p.Lenient && !strings.HasPrefix(s, "${") { // text, except for the escape at its start
		if strings.HasPrefix(s, "$${") {
			s = s[1:]
		}
		t.encoded(s)
		return
	}
	pieces, err := split(s)
	if err != nil {
		fail(at, err)
		return
	}
	if len(pieces) == 1 && !pieces[0].isExpr { // escapes only
		t.encoded(pieces[0].text)
		return
	}
	n := node{pointer: at}
	for _, piece := range pieces {
		if !piece.isExpr {
			quoted, err := strictjson.Encode(piece.text)
			if err != nil {
				fail(at, errors.New("contains characters that JSON does not allow"))
				return
			}
			n.text = append(n.text, textPart{literal: string(quoted[1 : len(quoted)-1])})
			continue
		}
		x, err := compileExpr(piece.source, p)
		if t.exprs++; err == nil && t.exprs > maxExpressions {
			err = fmt.Errorf("a template can have at most %d expressions", maxExpressions)
		}
		if err != nil {
			fail(at, err)
			return
		}
		n.text = append(n.text, textPart{expr: x})
	}
	if len(n.text) == 1 {
		n.value, n.text = n.text[0].expr, nil
		t.Computes = t.Computes || !n.value.plain
	} else {
		t.Computes = true
	}
	t.nodes = append(t.nodes, n)
}

// Most returns the maximum size in bytes of the template's result, provided that no value named by
// its expressions is larger than value. It returns math.MaxInt if one of them computes a value.
func (t *Template) Most(value int) int {
	most := 0
	for i := range t.nodes {
		n := &t.nodes[i]
		most = add(most, len(n.literal)+len(`""`))
		if n.value != nil {
			most = add(most, n.value.most(value))
		}
		most = add(most, mostText(n.text, value))
	}
	return most
}

func mostText(parts []textPart, value int) int {
	most := 0
	for i := range parts {
		most = add(most, len(parts[i].literal))
		if x := parts[i].expr; x != nil {
			most = add(most, x.most(value))
		}
	}
	return most
}

// most returns the maximum size of x's result in bytes, provided that the value it names is at most
// that large.
func (x *expr) most(value int) int {
	if x.computed != nil {
		return math.MaxInt
	}
	return value
}

func add(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

var errTooLarge = errors.New("the value would make the result too large")

// Append appends the result of the template as canonical JSON. The error is a *Failure.
func (t *Template) Append(b []byte, e *Evaluation) ([]byte, error) {
	for i := range t.nodes {
		n := &t.nodes[i]
		if n.value == nil && n.text == nil {
			b = append(b, n.literal...)
			continue
		}
		start := len(b)
		var err error
		x := n.value
		if x != nil {
			b, err = x.append(b, e)
		} else {
			b, x, err = n.appendText(b, e)
		}
		if err == nil && len(b) > MaxSize {
			err = errTooLarge
		}
		if err == nil {
			continue
		}
		f := x.failure(n.pointer, err)
		if !e.Nulls || !e.Complete && !f.Missing && !errors.Is(err, errTooLarge) {
			return b[:start], f
		}
		e.Missing = append(e.Missing, n.pointer)
		b = append(b[:start], "null"...)
	}
	return b, nil
}

// appendText appends a string that contains expressions. x is the expression that failed.
func (n *node) appendText(b []byte, e *Evaluation) (out []byte, x *expr, err error) {
	b = append(b, '"')
	for i := range n.text {
		if x = n.text[i].expr; x == nil {
			b = append(b, n.text[i].literal...)
		} else if b, err = x.appendInside(b, e); err != nil {
			return b, x, err
		}
	}
	return append(b, '"'), x, nil
}
