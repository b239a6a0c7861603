package httpapi

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// as returns the words of the contract as those of the rules, which a test
// keeps the same.
func as[T, W ~string](words []W) []T {
	var out []T
	for _, w := range words {
		out = append(out, T(w))
	}
	return out
}

// word is the text of an enum that was not required, "" without it.
func word[W ~string](w *W) string {
	if w == nil {
		return ""
	}
	return string(*w)
}

// given returns nil of JSON's null.
func given(v []byte) []byte {
	if string(v) == "null" {
		return nil
	}
	return v
}

func asInt(v *int32) *int {
	if v == nil {
		return nil
	}
	return new(int(*v))
}

func onlyTrue(b bool) *bool {
	if !b {
		return nil
	}
	return &b
}

func ms(d time.Duration) int64 { return d.Milliseconds() }

func unlessEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func unlessNil(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}

func wordUnlessEmpty[T ~string](word string) *T {
	if word == "" {
		return nil
	}
	return new(T(word))
}

// timeOf reads a time; the zero time when it was not given.
func timeOf(name string, in *time.Time) (time.Time, error) {
	if in == nil {
		return time.Time{}, nil
	}
	t := in.UTC()
	if t.Year() < 1970 || t.Year() > 9999 {
		return t, badParameter(name, "invalid", "must be in the years 1970 to 9999")
	}
	return t, nil
}

// unstorable tells whether PostgreSQL would refuse the text.
func unstorable(s string) bool { return strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) }
