package rest

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Text is a text that may be left out, "" without it.
func Text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// As returns the words of the contract as those of the rules, which a test
// keeps the same.
func As[T, W ~string](words []W) []T {
	var out []T
	for _, w := range words {
		out = append(out, T(w))
	}
	return out
}

// Word is the text of an enum that was not required, "" without it.
func Word[W ~string](w *W) string {
	if w == nil {
		return ""
	}
	return string(*w)
}

// Given returns nil of JSON's null.
func Given(v []byte) []byte {
	if string(v) == "null" {
		return nil
	}
	return v
}

// AsInt is a number that may be left out.
func AsInt(v *int32) *int {
	if v == nil {
		return nil
	}
	return new(int(*v))
}

// OnlyTrue leaves out what is false.
func OnlyTrue(b bool) *bool {
	if !b {
		return nil
	}
	return &b
}

// MS is a duration as the API tells it.
func MS(d time.Duration) int64 { return d.Milliseconds() }

// UnlessEmpty leaves out what is empty.
func UnlessEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// UnlessNil leaves out the id of nothing.
func UnlessNil(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}

// WordUnlessEmpty is a word of an enum of the contract; left out when it is empty.
func WordUnlessEmpty[T ~string](word string) *T {
	if word == "" {
		return nil
	}
	return new(T(word))
}

// TimeOf reads a time; the zero time when it was not given.
func TimeOf(name string, in *time.Time) (time.Time, error) {
	if in == nil {
		return time.Time{}, nil
	}
	t := in.UTC()
	if t.Year() < 1970 || t.Year() > 9999 {
		return t, BadParameter(name, "invalid", "must be in the years 1970 to 9999")
	}
	return t, nil
}

// Unstorable tells whether PostgreSQL would refuse the text.
func Unstorable(s string) bool { return strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) }
