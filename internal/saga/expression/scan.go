package expression

import (
	"fmt"
	"strings"
)

// piece is a part of a string: literal text, or the source of an expression.
type piece struct {
	text   string
	source string
	isExpr bool
}

// split splits a string at its expressions. "$${" is the text "${".
func split(s string) ([]piece, error) {
	var out []piece
	text := ""
	flush := func() {
		if text != "" {
			out = append(out, piece{text: text})
			text = ""
		}
	}
	for {
		at := strings.Index(s, "${")
		if at < 0 {
			text += s
			flush()
			return out, nil
		}
		if at > 0 && s[at-1] == '$' {
			text += s[:at-1] + "${"
			s = s[at+2:]
			continue
		}
		text += s[:at]
		end := closing(s[at+2:])
		if end < 0 {
			return nil, fmt.Errorf("%.100q has no closing brace; write $${ for the characters ${", s[at:])
		}
		source := strings.TrimSpace(s[at+2 : at+2+end])
		switch {
		case source == "":
			return nil, fmt.Errorf("${} is empty; write $${ for the characters ${")
		case len(source) > maxSource:
			return nil, fmt.Errorf("an expression has more than %d bytes", maxSource)
		}
		flush()
		out = append(out, piece{source: source, isExpr: true})
		s = s[at+2+end+1:]
	}
}

// closing returns the position of the brace that closes an expression, or -1 if there is none.
// Braces of maps and braces inside strings of the expression do not close it.
func closing(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		case '"', '\'', '`':
			end := quoted(s[i:])
			if end < 0 {
				return -1
			}
			i += end - 1
		}
	}
	return -1
}

// quoted returns the length of the string at the start of s, or -1 if it is not terminated.
func quoted(s string) int {
	mark := s[:1]
	if three := strings.Repeat(mark, 3); strings.HasPrefix(s, three) && mark != "`" {
		if end := strings.Index(s[3:], three); end >= 0 {
			return end + 6
		}
		return -1
	}
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && mark != "`":
			i++
		case s[i] == mark[0]:
			return i + 1
		}
	}
	return -1
}

// Has reports whether a string contains an expression or an escaped one.
func Has(s string) bool { return strings.Contains(s, "${") }
