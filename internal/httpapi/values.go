package httpapi

import "time"

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
