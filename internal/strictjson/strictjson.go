// Package strictjson checks external JSON and rewrites it in a canonical form.
//
// It accepts everything that RFC 8259 allows, except what cannot be stored or reproduced
// faithfully: invalid UTF-8, duplicate object keys, NUL characters, lone surrogates, numbers of
// absurd length, and unlimited nesting.
//
// The canonical form is the form in which PostgreSQL prints a jsonb value, without the blanks after
// commas and colons:
//
//   - keys are ordered by their length in bytes, then bytewise, both on the
//     decoded UTF-8 key: "b" before "aa";
//   - strings escape only the quote, the backslash and the control characters
//     below U+0020: \b \f \n \r \t, else \u00xx in lower case;
//   - numbers are plain decimals that keep their trailing zeros: 1e3 is 1000,
//     1.50e1 is 15.0, -0.0 is 0.0.
//
// So if a value is made canonical, stored as jsonb, read back and made canonical again, it has the
// same bytes as before. Requests to participants rely on this: a body that is rebuilt after a
// restart must equal the one that was sent before.
package strictjson

import (
	"slices"
	"strings"
)

// Limits limits what Canonical accepts. The zero value means the defaults.
type Limits struct {
	// MaxDepth is how deep arrays and objects may be nested; [] has depth 1, a number has depth 0.
	// Zero or less means DefaultMaxDepth. The parser recurses once per level.
	MaxDepth int
	// MaxNumberDigits is how many digits a number may have in total, before and after the point,
	// when written without an exponent; 1e3 has four, 0.01 has three. Zero or less means
	// DefaultMaxNumberDigits. Values to be stored should have at most 16,383 digits, which is the
	// most that jsonb accepts after the point.
	MaxNumberDigits int
}

// The defaults of Limits. 400 digits hold every float64 in its shortest form, and PostgreSQL's
// numeric holds far more.
const (
	DefaultMaxDepth        = 64
	DefaultMaxNumberDigits = 400
)

// Canonical checks that src is exactly one JSON value within the limits and appends its
// canonical form to dst. The result is a fixed point: its own canonical form is itself. src is
// neither modified nor retained, and must not share memory with dst.
//
// On failure it returns dst unchanged (although bytes beyond its length may have changed) and an
// *Error for the first fault; a duplicate key counts as a fault at the end of its object.
func Canonical(dst, src []byte, l Limits) ([]byte, error) {
	return canonical(dst, src, l, nil)
}

func canonical(dst, src []byte, l Limits, mend func(path []string) bool) ([]byte, error) {
	p := parser{
		mend:      mend,
		src:       src,
		out:       slices.Grow(dst, len(src)),
		maxDepth:  l.MaxDepth,
		maxDigits: l.MaxNumberDigits,
	}
	if p.maxDepth <= 0 {
		p.maxDepth = DefaultMaxDepth
	}
	if p.maxDigits <= 0 {
		p.maxDigits = DefaultMaxNumberDigits
	}
	if err := p.document(); err != nil {
		err.Pointer = shortened(err.Pointer)
		return dst, err
	}
	return p.out, nil
}

// maxPointer keeps the error small if the client's keys are long.
const maxPointer = 512

// shortened cuts whole tokens off the end of a pointer that is too long.
func shortened(pointer string) string {
	if len(pointer) <= maxPointer {
		return pointer
	}
	return pointer[:strings.LastIndexByte(pointer[:maxPointer+1], '/')]
}
