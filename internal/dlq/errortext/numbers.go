package errortext

import "strings"

// units may follow a number without a space; the number and its unit are then a single token.
var units = set(`
	ns us ms s sec secs m min mins h hr hrs d w y b e k kb kib mb mib g gb gib t tb tib hz khz mhz ghz x
	px pt st nd rd th`)

// isNumber reports whether a word is a number, possibly with units, as in 5ms and 1m30s. Numbers
// joined by points and commas are separate words.
func isNumber(word string) bool {
	for i := 0; i < len(word); {
		digits := span(word, i, digit)
		if digits == i {
			return false
		}
		if i = digits; i < len(word) {
			if i = unitEnd(word, i); i == 0 {
				return false
			}
		}
	}
	return true
}

// microEnd returns the end of the µs that follows a number at i, or i if there is none.
func microEnd(s string, i int) int {
	rest := s[i:]
	if (strings.HasPrefix(rest, "µs") || strings.HasPrefix(rest, "μs")) && !at(rest, 3, begun) {
		return i + 3
	}
	return i
}

// unitEnd returns the end of the unit that begins at i, or 0 if there is none. The e of an exponent
// counts as a unit, because its sign is a joint that is followed by another number.
func unitEnd(s string, i int) int {
	end := span(s, i, letter)
	if end == i || end-i > 4 {
		return 0
	}
	var buf [4]byte
	name := inLower(buf[:0], s[i:end])
	if units[string(name)] {
		return end
	}
	return 0
}
