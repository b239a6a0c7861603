package errortext

import "strings"

// class is a set of ASCII characters.
type class uint16

const (
	digit class = 1 << iota
	upper
	small
	hex
	space
	inLocal  // in the local part of an email address
	inBase64 // in Base64, including the URL-safe alphabet
	inToken  // in a JWT
	inFile   // in a file name
	inPath   // in a path
	inURL    // in a URL
	inIPv6   // in an IPv6 address
	inHost   // in a host name
	joint    // between the parts of a variable token
	under    // the underscore
	mark     // #, which replaces variable tokens

	letter = upper | small
	word   = letter | digit | under
	begun  = word | mark // a token after one of these is not recognized as a whole
)

// The classes of longer tokens include #, so that the rest of a token after a # is not mistaken for
// a complete token. Paths and URLs end at a #.
var classes = func() (all [256]class) {
	add := func(c class, chars string) {
		for i := range len(chars) {
			all[chars[i]] |= c
		}
	}
	const digits, uppers, smalls = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
	add(digit, digits)
	add(upper, uppers)
	add(small, smalls)
	add(hex|inIPv6, digits+"abcdefABCDEF")
	add(space, " \t\n\v\f\r")
	add(under, "_")
	add(mark, "#")
	add(joint, " ,;:.-_+=")
	add(inLocal, digits+uppers+smalls+"_.%+-#")
	add(inBase64, digits+uppers+smalls+"_+/-=#")
	add(inToken, digits+uppers+smalls+"_.-#")
	add(inFile, digits+uppers+smalls+"_.~-#")
	add(inIPv6, ":.#")
	add(inHost, digits+uppers+smalls+"_.-#")
	for c := '!'; c < 256; c++ {
		all[c] |= inPath | inURL
	}
	for _, c := range "\"'`,;:()[]{}<>|#" {
		all[c] &^= inPath
	}
	for _, c := range "\"'`<>()[]{}|\\^#" {
		all[c] &^= inURL
	}
	return all
}()

func is(c byte, of class) bool { return classes[c]&of != 0 }

// at reports whether the character at i belongs to a class.
func at(s string, i int, of class) bool { return i < len(s) && classes[s[i]]&of != 0 }

// after reports whether the character before i belongs to a class.
func after(s string, i int, of class) bool { return i > 0 && classes[s[i-1]]&of != 0 }

// span returns the end of the run of characters of a class that begins at i.
func span(s string, i int, of class) int {
	for i < len(s) && classes[s[i]]&of != 0 {
		i++
	}
	return i
}

func all(s string, of class) bool { return span(s, 0, of) == len(s) }

// set returns the words of a list as a set.
func set(list string) map[string]bool {
	words := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		words[w] = true
	}
	return words
}

// lower returns an ASCII letter in lower case.
func lower(c byte) byte {
	if is(c, upper) {
		return c + 'a' - 'A'
	}
	return c
}

// inLower appends s in lower case to a buffer, up to its capacity; no name that is looked up is
// longer.
func inLower(buf []byte, s string) []byte {
	for i := 0; i < len(s) && len(buf) < cap(buf); i++ {
		buf = append(buf, lower(s[i]))
	}
	return buf
}

// hasPrefixFold is a case-insensitive strings.HasPrefix for ASCII; prefix must be in lower case.
func hasPrefixFold(s, prefix string) bool {
	if len(s) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if lower(s[i]) != prefix[i] {
			return false
		}
	}
	return true
}
