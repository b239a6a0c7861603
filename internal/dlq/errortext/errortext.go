// Package errortext groups errors by kind. It replaces the parts of an error message that vary from
// one error to the next, and keeps the words. It is pure.
//
// A message is read once, token by token. Quoted text, identifiers, addresses, times, durations,
// numbers, encoded data and temporary files become #. Parts that identify the kind of error are
// kept: words, class names, error codes, HTTP statuses. Doubtful tokens are kept, because it is
// visible when one kind is split into two groups, whereas two kinds in one group would be retried
// or discarded together.
//
// Files, each on top of those before it: chars, scan, quotes, numbers, codes, names, places, times,
// errortext.
package errortext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Normalised returns a message with its variable parts replaced by #. The result is a single line
// of at most 500 bytes and never empty. The function is idempotent. It is called for every letter
// that arrives.
func Normalised(message string) string {
	text, whole := normalised(message)
	for n := 0; !whole && n < 4; n++ { // the omitted part may have determined the meaning of the rest
		text, whole = normalised(text)
	}
	return text
}

// normalised returns a message with its variable parts replaced by #, and reports whether all of it
// fitted.
func normalised(message string) (text string, whole bool) {
	var room [maxOut]byte
	s := scan{in: message, out: room[:0]}
	if len(message) > maxIn {
		s.in, s.cut = message[:wholeWords(message[:maxIn])], true
	}
	for i := 0; i < len(s.in) && !s.full; {
		i = s.next(i)
	}
	for len(s.out) > 0 && s.out[len(s.out)-1] == ' ' {
		s.out = s.out[:len(s.out)-1]
	}
	if len(s.out) == 0 {
		return "#", true
	}
	return string(s.out), !s.full
}

// wholeWords returns the length of s without its last word if that may have been cut.
func wholeWords(s string) int {
	for n := len(s); n > len(s)-200; n-- {
		if is(s[n-1], space) {
			return n
		}
	}
	return len(s)
}

// next reads the token that begins at i and returns its end.
func (s *scan) next(i int) int {
	c := s.in[i]
	switch {
	case c >= utf8.RuneSelf:
		return s.foreign(i)
	case is(c, word):
		return s.word(i)
	case c <= ' ' || c == 0x7f:
		s.blank()
		return i + 1
	case c == '#':
		s.hash()
		return i + 1
	case c == '"' || c == '\'' || c == '`':
		return s.quote(i, rune(c), 1)
	case c == '?' && i < s.url:
		s.put("?")
		s.hash()
		return s.url
	}
	if end := s.placeAt(i); end > 0 {
		s.hash()
		return end
	}
	s.put(s.in[i : i+1])
	return i + 1
}

// foreign reads a non-ASCII character.
func (s *scan) foreign(i int) int {
	r, n := utf8.DecodeRuneInString(s.in[i:])
	switch {
	case r == utf8.RuneError && n == 1:
		s.blank()
	case r == '，' || r == '、' || r == '；':
		s.put(s.in[i : i+n])
	case isQuote(r):
		return s.quote(i, r, n)
	case unicode.IsSpace(r) || unicode.IsControl(r):
		s.blank()
	case unicode.IsDigit(r):
		s.hash()
	default:
		s.put(s.in[i : i+n])
	}
	return i + n
}

// word reads a word, which consists of letters, digits and underscores.
func (s *scan) word(i int) int {
	if end := s.longAt(i); end > 0 {
		s.hash()
		return end
	}
	end := span(s.in, i, word)
	if is(s.in[i], letter) {
		if strings.HasPrefix(s.in[end:], "://") {
			return s.urlAt(i, end)
		}
		far := 0
		switch {
		case end == i+1:
			far = windowsTemporaryAt(s.in, i)
		case is(s.in[i], upper) && end < len(s.in) && (s.in[end] == ' ' || s.in[end] == ','):
			far = calendarAt(s.in, i)
		}
		if far > 0 {
			s.hash()
			return far
		}
	} else if is(s.in[i], digit) {
		if end := timeAt(s.in, i); end > 0 {
			s.hash()
			return end
		}
		if isNumber(s.in[i:end]) {
			if far := microEnd(s.in, end); far > end {
				s.hash()
				return far
			}
			s.number(s.in[i:end], end)
			return end
		}
	}
	for i < end {
		if s.in[i] == '_' {
			s.put("_")
			i++
			continue
		}
		if far := uuidAt(s.in, i); far > 0 {
			s.hash()
			return far
		}
		next := i
		for next < end && s.in[next] != '_' {
			next++
		}
		s.part(s.in[i:next], next)
		i = next
	}
	return end
}

// number writes a number. Only codes are kept.
func (s *scan) number(text string, end int) {
	if all(text, digit) && s.isCode(text, end) {
		s.put(text)
		return
	}
	s.hash()
}

// part writes a part of a word, as delimited by underscores.
func (s *scan) part(p string, end int) {
	if all(p, digit) {
		s.number(p, end)
		return
	}
	keep, varies := part(p)
	if n := len(s.out); n > 0 && (s.out[n-1] == '_' || n > 3 && string(s.out[n-4:]) == "tmp.") && random(p[:keep]) {
		keep, varies = 0, true
	}
	switch {
	case keep == len(p) && all(p, letter):
		s.putLetters(p)
	case keep > 0:
		s.put(p[:keep])
	}
	if varies {
		s.hash()
	}
}

// urlAt reads the scheme of a URL and drops the user name and password. The rest, up to the query,
// is read like other text.
func (s *scan) urlAt(i, end int) int {
	s.put(s.in[i:end])
	s.put("://")
	i = end + 3
	if i > s.url {
		s.url = span(s.in, i, inURL)
		for s.url > i && strings.IndexByte(".,;:!?", s.in[s.url-1]) >= 0 {
			s.url--
		}
	}
	host := i
	for host < len(s.in) && is(s.in[host], inURL) && s.in[host] != '/' && s.in[host] != '?' {
		host++
	}
	if at := strings.LastIndexByte(s.in[i:host], '@'); at >= 0 {
		return i + at + 1
	}
	return i
}
