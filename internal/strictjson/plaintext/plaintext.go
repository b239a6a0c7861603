// Package plaintext converts external text, such as the reason why a message failed, a worker's
// progress report or a participant's answer, into text that can be stored. A client's failure
// report must not get lost because of one character, so such text is never rejected.
package plaintext

import (
	"strings"
	"unicode/utf8"
)

// Replacement replaces characters that cannot be stored: a NUL character, half of a surrogate pair,
// or a run of bytes that are not UTF-8.
const Replacement = "\uFFFD"

// Limit is the maximum length of a text. The zero value means no limit.
type Limit struct{ bytes, characters int }

// Bytes limits a text to n bytes of UTF-8.
func Bytes(n int) Limit { return Limit{bytes: n} }

// Characters limits a text to n characters.
func Characters(n int) Limit { return Limit{characters: n} }

// Storable returns the form in which s is stored: UTF-8 without NUL, cut to the limit between two
// characters. It also reports whether that form differs from s. It is idempotent.
func Storable(s string, most Limit) (text string, changed bool) {
	text = s
	if strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
		text = strings.ReplaceAll(strings.ToValidUTF8(text, Replacement), "\x00", Replacement)
	}
	text = text[:most.end(text)]
	return text, len(text) != len(s) || text != s
}

// Text is Storable without the report whether the text was changed.
func Text(s string, most Limit) string {
	text, _ := Storable(s, most)
	return text
}

// end returns where a valid UTF-8 text is cut.
func (l Limit) end(s string) int {
	switch {
	case l.bytes > 0 && len(s) > l.bytes:
		end := l.bytes
		for !utf8.RuneStart(s[end]) {
			end--
		}
		return end
	case l.characters > 0 && len(s) > l.characters:
		n := 0
		for i := range s {
			if n == l.characters {
				return i
			}
			n++
		}
	}
	return len(s)
}

// Members makes several texts of one document storable and records which of them it changed.
type Members struct {
	Changed []string // JSON Pointers (RFC 6901), in the order of the calls
}

// Storable is like the function of the same name, for the text at a pointer.
func (m *Members) Storable(pointer, s string, most Limit) string {
	text, changed := Storable(s, most)
	if changed {
		m.Changed = append(m.Changed, pointer)
	}
	return text
}
