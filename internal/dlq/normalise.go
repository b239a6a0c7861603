package dlq

import (
	"strings"
	"unicode/utf8"
)

const maxNormalised = 500

// Normalised returns an error message with its variable parts replaced by #, on one
// line, at most 500 bytes. Variable parts are quoted texts, ids, times, addresses and
// numbers. It runs for every arriving letter, so it is hand-written; a test compares it
// with the equivalent regular expression.
func Normalised(message string) string {
	in := message[:min(len(message), 4*maxNormalised)]
	var out strings.Builder
	out.Grow(min(len(in), maxNormalised+64))
	for i := 0; i < len(in); {
		end := varying(in, i)
		if end > i {
			out.WriteByte('#')
			i = end
			continue
		}
		out.WriteByte(in[i])
		i++
	}
	s := strings.ToValidUTF8(strings.Join(strings.Fields(out.String()), " "), "")
	if len(s) > maxNormalised {
		s = strings.ToValidUTF8(s[:maxNormalised], "")
	}
	return s
}

// varying returns where what varies and begins at i ends, 0 when nothing does.
func varying(s string, i int) int {
	c := s[i]
	switch {
	case c == '"' || c == '\'' || c == '`':
		return quotedAt(s, i)
	case c == '@':
		if end := hexRun(s, i+1); end >= i+5 && !wordAt(s, end) {
			return end
		}
		return 0
	case !isHex(c):
		return 0
	}
	if end := uuidAt(s, i); end > 0 {
		return end
	}
	if end := timeAt(s, i); end > 0 {
		return end
	}
	if i == 0 || !isWord(s[i-1]) {
		if end := addressAt(s, i); end > 0 {
			return end
		}
		if c == '0' && i+1 < len(s) && s[i+1] == 'x' {
			if end := hexRun(s, i+2); end > i+2 && !wordAt(s, end) {
				return end
			}
		}
		if end := hexRun(s, i); !wordAt(s, end) && strings.ContainsAny(s[i:end], "0123456789") {
			return end
		}
	}
	end := digits(s, i)
	for end > i && end < len(s) && (s[end] == '.' || s[end] == ',') {
		next := digits(s, end+1)
		if next == end+1 {
			break
		}
		end = next
	}
	if end == i {
		return 0
	}
	return end
}

// quotedAt is a text in quotes, on one line.
func quotedAt(s string, i int) int {
	for j := i + 1; j < len(s) && s[j] != '\n'; j++ {
		if s[j] == s[i] {
			return j + 1
		}
	}
	return 0
}

// uuidAt is 8-4-4-4-12 hexadecimal digits.
func uuidAt(s string, i int) int {
	if len(s)-i < 36 {
		return 0
	}
	for k := range 36 {
		dash := k == 8 || k == 13 || k == 18 || k == 23
		if dash != (s[i+k] == '-') || !dash && !isHex(s[i+k]) {
			return 0
		}
	}
	return i + 36
}

// timeAt is a date and a time, in the forms of RFC 3339 and of logs.
func timeAt(s string, i int) int {
	const form = "0000-00-00T00:00"
	if !formed(s, i, form) {
		return 0
	}
	i += len(form)
	if formed(s, i, ":00") {
		i += 3
		if i < len(s) && (s[i] == '.' || s[i] == ',') {
			if end := digits(s, i+1); end > i+1 {
				i = end
			}
		}
	}
	switch {
	case i < len(s) && s[i] == 'Z':
		return i + 1
	case i < len(s) && (s[i] == '+' || s[i] == '-'):
		if formed(s, i+1, "00:00") {
			return i + 6
		}
		if formed(s, i+1, "0000") {
			return i + 5
		}
	}
	return i
}

// formed tells whether s has digits where form has 0, T or a blank where it has
// T, and else the same.
func formed(s string, i int, form string) bool {
	if len(s)-i < len(form) {
		return false
	}
	for k := range len(form) {
		switch c := s[i+k]; form[k] {
		case '0':
			if !isDigit(c) {
				return false
			}
		case 'T':
			if c != 'T' && c != ' ' {
				return false
			}
		default:
			if c != form[k] {
				return false
			}
		}
	}
	return true
}

// addressAt is an IPv4 address, optionally with a port.
func addressAt(s string, i int) int {
	for octet := range 4 {
		if octet > 0 {
			if i >= len(s) || s[i] != '.' {
				return 0
			}
			i++
		}
		end := min(digits(s, i), i+3)
		if end == i {
			return 0
		}
		i = end
	}
	if i < len(s) && s[i] == ':' {
		if end := digits(s, i+1); end > i+1 && !wordAt(s, end) {
			return end
		}
	}
	if wordAt(s, i) {
		return 0
	}
	return i
}

func digits(s string, i int) int {
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	return i
}

func hexRun(s string, i int) int {
	for i < len(s) && isHex(s[i]) {
		i++
	}
	return i
}

func wordAt(s string, i int) bool { return i < len(s) && isWord(s[i]) }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

func isWord(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

func storable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// Storable returns s as PostgreSQL can keep it: UTF-8 without NUL, at most max
// bytes. For what others have written; what it changes is not repeated anywhere.
func Storable(s string, limit int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return s
}
