package expression

import (
	"errors"
	"strings"
)

// Text is a string with expressions, such as a header, a member of a form, or a path with its
// query.
type Text struct{ parts []textPart }

// NewText compiles a text.
func NewText(s string, p *Place) (*Text, error) {
	pieces, err := split(s)
	if err != nil {
		return nil, err
	}
	if len(pieces) > maxExpressions {
		return nil, errors.New("has too many expressions")
	}
	t := &Text{}
	for _, piece := range pieces {
		part := textPart{literal: piece.text}
		if piece.isExpr {
			if part.expr, err = compileExpr(piece.source, p); err != nil {
				return nil, err
			}
		}
		t.parts = append(t.parts, part)
	}
	return t, nil
}

// Append appends the result of the text. encode, unless it is nil, is applied to everything except
// the placeholders of secrets. The error is a *Failure.
func (t *Text) Append(b []byte, e *Evaluation, encode func([]byte, string) []byte) ([]byte, error) {
	if encode == nil {
		encode = func(b []byte, s string) []byte { return append(b, s...) }
	}
	for i := range t.parts {
		x := t.parts[i].expr
		switch {
		case x == nil:
			b = encode(b, t.parts[i].literal)
		case x.computed == nil && x.path.root == "secrets":
			b = e.secret(b, x.path.step)
		default:
			s, err := x.text(e)
			if err != nil {
				return b, x.failure("", err)
			}
			b = encode(b, s)
		}
	}
	return b, nil
}

// Target is a path with a query, or a URL. Its literal parts are sent as they are written.
type Target struct{ text Text }

// NewTarget compiles a path or a URL.
func NewTarget(s string, p *Place) (*Target, error) {
	text, err := NewText(s, p)
	if err != nil {
		return nil, err
	}
	return &Target{*text}, nil
}

var (
	errEmptyPart = errors.New("the value is empty, which would change the path")
	errDots      = errors.New("the value turns a segment of the path into \".\" or \"..\", which would lead elsewhere")
)

// Append appends the result of the target. Values are percent-encoded, so that no value can add a
// segment to the path or a member to the query. The error is a *Failure.
func (t *Target) Append(b []byte, e *Evaluation) ([]byte, error) {
	inQuery, start := false, len(b)
	var last *expr
	for i := range t.text.parts {
		x := t.text.parts[i].expr
		if x == nil {
			literal := t.text.parts[i].literal
			b = append(b, literal...)
			inQuery = inQuery || strings.Contains(literal, "?")
			continue
		}
		s, err := x.text(e)
		if err != nil {
			return b, x.failure("", err)
		}
		if last = x; s == "" && !inQuery {
			return b, x.failure("", errEmptyPart)
		}
		b = PercentEncoded(b, s)
	}
	if last == nil {
		return b, nil
	}
	way, _, _ := strings.Cut(string(b[start:]), "?")
	for part := range strings.SplitSeq(way, "/") {
		if part == "." || part == ".." {
			return b, last.failure("", errDots)
		}
	}
	return b, nil
}

// PercentEncoded appends s, percent-encoding every byte that has a meaning in a URL.
func PercentEncoded(b []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}

// Shape returns a URL with a letter in place of each expression.
func Shape(s string) (string, error) {
	pieces, err := split(s)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, piece := range pieces {
		if b.WriteString(piece.text); piece.isExpr {
			b.WriteByte('x')
		}
	}
	return b.String(), nil
}
