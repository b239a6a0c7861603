package httpkit

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Text returns an optional text or enum value, "" if it is missing.
func Text[S ~string](s *S) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

// Enums converts enum values of the contract to those of the rules, or back; a test ensures that
// the two are identical.
func Enums[T, W ~string](words []W) []T {
	var out []T
	for _, w := range words {
		out = append(out, T(w))
	}
	return out
}

// UnlessNull returns nil for JSON's null, otherwise v.
func UnlessNull[T ~[]byte](v T) T {
	if string(v) == "null" {
		return nil
	}
	return v
}

// AsInt converts an optional number.
func AsInt(v *int32) *int {
	if v == nil {
		return nil
	}
	return new(int(*v))
}

// UnlessFalse returns nil for false, so that it is omitted.
func UnlessFalse(b bool) *bool {
	if !b {
		return nil
	}
	return &b
}

// UnlessEmpty returns nil for "", so that it is omitted.
func UnlessEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// UnlessNil returns nil for uuid.Nil, so that it is omitted.
func UnlessNil(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}

// EnumUnlessEmpty returns an enum value of the contract, nil for "".
func EnumUnlessEmpty[T ~string](word string) *T {
	if word == "" {
		return nil
	}
	return new(T(word))
}

// TimeOf returns an optional time, the zero time if it is missing.
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

// Unstorable reports whether PostgreSQL would reject the text.
func Unstorable(s string) bool { return strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) }
