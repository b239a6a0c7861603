package rest

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Text is a text, or a word of an enum, that may be left out; "" without it.
func Text[S ~string](s *S) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

// Enums returns the words of the contract as those of the rules, or the other way round; a
// test keeps the two the same.
func Enums[T, W ~string](words []W) []T {
	var out []T
	for _, w := range words {
		out = append(out, T(w))
	}
	return out
}

// UnlessNull leaves out JSON's null.
func UnlessNull[T ~[]byte](v T) T {
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

// UnlessFalse leaves out what is false.
func UnlessFalse(b bool) *bool {
	if !b {
		return nil
	}
	return &b
}

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

// EnumUnlessEmpty is a word of an enum of the contract; left out when it is empty.
func EnumUnlessEmpty[T ~string](word string) *T {
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
