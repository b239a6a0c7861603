package errortext

import (
	"net/netip"
	"strings"
)

// A recognizer for a token longer than a word applies only at the beginning of the token, so that
// the rest of a token after # is not mistaken for a complete token.

// placeAt returns the end of a variable token at i that does not begin with a word, or 0 if there
// is none.
func (s *scan) placeAt(i int) int {
	switch s.in[i] {
	case '@':
		return objectAt(s.in, i)
	case '/':
		return temporaryAt(s.in, i)
	case ':':
		return ipv6At(s.in, i)
	case '[':
		return bracketedAt(s.in, i)
	}
	return 0
}

// longAt returns the end of a variable token that begins with the word at i and is longer than that
// word, or 0 if there is none.
func (s *scan) longAt(i int) int {
	in := s.in
	if !after(in, i, inLocal) {
		if end := emailAt(in, i); end > 0 {
			return end
		}
	}
	if !after(in, i, inBase64) {
		if end := encodedAt(in, i); end > 0 {
			return end
		}
	}
	if !after(in, i, inFile) {
		if end := temporaryFileAt(in, i); end > 0 {
			return end
		}
	}
	if !after(in, i, begun) {
		if end := macAt(in, i); end > 0 {
			return end
		}
		if is(in[i], hex) {
			if end := ipv6At(in, i); end > 0 {
				return end
			}
		}
	}
	return 0
}

// emailAt reads ann.b+c@mail.example.com.
func emailAt(s string, i int) int {
	at := span(s, i, inLocal)
	if at == len(s) || s[at] != '@' || strings.IndexByte(s[i:at], '#') >= 0 {
		return 0
	}
	end := span(s, at+1, inHost)
	for end > at && strings.IndexByte(".-", s[end-1]) >= 0 {
		end--
	}
	host := s[at+1 : end]
	dot := strings.LastIndexByte(host, '.')
	if dot < 1 || len(host)-dot < 3 || !all(host[dot+1:], letter) || strings.ContainsAny(host, "#_") {
		return 0
	}
	return end
}

// encodedAt reads Base64, including the URL-safe alphabet, and JWTs.
func encodedAt(s string, i int) int {
	if strings.HasPrefix(s[i:], "eyJ") {
		if end := span(s, i, inToken); end-i >= 20 && strings.IndexByte(s[i:end], '#') < 0 {
			return end
		}
	}
	end := span(s, i, inBase64)
	token := s[i:end]
	if cut := strings.IndexByte(token, '='); cut > 0 { // padding ends the token
		token = token[:cut+len(token[cut:])-len(strings.TrimLeft(token[cut:], "="))]
		end = i + len(token)
	}
	bare := strings.TrimRight(token, "=")
	padding, n := len(token)-len(bare), len(bare)
	if n < 12 || strings.IndexByte(bare, '#') >= 0 || at(s, end, word) || end < len(s) && s[end] == '#' {
		return 0
	}
	digits, uppers, lowers, humps, slashes := 0, 0, 0, 0, 0
	for k := range n {
		switch c := bare[k]; {
		case is(c, digit):
			digits++
		case is(c, upper):
			if uppers++; k > 0 && is(bare[k-1], small) {
				humps++
			}
		case is(c, small):
			lowers++
		case c == '/':
			slashes++
		}
	}
	mixed := 5*humps > n || digits > 0 && 8*humps > n
	switch {
	case padding > 0 && padding < 3 && (n+padding)%4 == 0 && mixed:
		return end
	case n >= 20 && digits > 1 && uppers > 2 && lowers > 2 && 8*humps > n && 16*slashes <= n+16:
		return end
	}
	return 0
}

// temporaryFileAt reads the name of a temporary file.
func temporaryFileAt(s string, i int) int {
	end := span(s, i, inFile)
	for end > i && s[end-1] == '.' {
		end--
	}
	name := s[i:end]
	if strings.IndexByte(name, '#') >= 0 || end < len(s) && (s[end] == '#' || s[end] == '/') {
		return 0
	}
	for _, suffix := range [...]string{".tmp", ".temp", ".part", ".swp"} {
		if len(name) > len(suffix) && hasPrefixFold(name[len(name)-len(suffix):], suffix) {
			return end
		}
	}
	return 0
}

// temporary lists the path prefixes of temporary files.
var temporary = [...]string{
	"/tmp/", "/var/tmp/", "/private/tmp/", "/var/folders/", "/private/var/folders/", "/dev/shm/", "/run/user/",
}

func temporaryAt(s string, i int) int {
	if i > 0 && (is(s[i-1], begun) || strings.IndexByte(".~-", s[i-1]) >= 0) {
		return 0
	}
	for _, prefix := range temporary {
		if strings.HasPrefix(s[i:], prefix) {
			return pathEnd(s, i+len(prefix))
		}
	}
	return 0
}

// windowsTemporaryAt reads a path in a Windows directory for temporary files.
func windowsTemporaryAt(s string, i int) int {
	if i+3 >= len(s) || s[i+1] != ':' || s[i+2] != '\\' && s[i+2] != '/' || !is(s[i], letter) || after(s, i, begun) {
		return 0
	}
	end := pathEnd(s, i+3)
	for j := i + 2; j+5 <= end; j++ {
		name, separated := s[j+1:end], s[j] == '\\' || s[j] == '/'
		if separated && (hasPrefixFold(name, "temp"+s[j:j+1]) || hasPrefixFold(name, "tmp"+s[j:j+1])) {
			return end
		}
	}
	return 0
}

func pathEnd(s string, i int) int {
	begin := i
	for i = span(s, i, inPath); i > begin && strings.IndexByte(".!?", s[i-1]) >= 0; {
		i--
	}
	return i
}

// objectAt reads the identity of an object in Java's format: Order@1b2c3d.
func objectAt(s string, i int) int {
	end := span(s, i+1, hex)
	if end < i+5 || end < len(s) && is(s[end], begun) {
		return 0
	}
	if i > 0 && is(s[i-1], word) || strings.ContainsAny(s[i+1:end], "0123456789") {
		return end
	}
	return 0
}

// macAt reads 00:1a:2b:3c:4d:5e.
func macAt(s string, i int) int {
	if len(s)-i < 17 || s[i+2] != ':' {
		return 0
	}
	for k := range 17 {
		if c := s[i+k]; k%3 == 2 && c != ':' || k%3 != 2 && !is(c, hex) {
			return 0
		}
	}
	if i+17 < len(s) && (is(s[i+17], begun) || s[i+17] == ':') || !strings.ContainsAny(s[i:i+17], "0123456789") {
		return 0
	}
	return i + 17
}

// ipv6At reads an IPv6 address without brackets, including its zone.
func ipv6At(s string, i int) int {
	if i > 0 && (is(s[i-1], begun) || is(s[i-1], inIPv6)) {
		return 0
	}
	end := span(s, i, inIPv6)
	for end > i+2 && (s[end-1] == '.' || s[end-1] == ':' && s[end-2] != ':') {
		end--
	}
	address := s[i:end]
	if len(address) < 3 || len(address) > 45 || strings.IndexByte(address, '#') >= 0 || at(s, end, begun) ||
		strings.Count(address, ":") < 2 || !strings.ContainsAny(address, "0123456789") {
		return 0
	}
	if a, err := netip.ParseAddr(address); err != nil || !a.Is6() {
		return 0
	}
	if end+1 < len(s) && s[end] == '%' && is(s[end+1], word) {
		end = span(s, end+1, word)
	}
	return end
}

// bracketedAt reads [::1] and [::1]:443.
func bracketedAt(s string, i int) int {
	end := ipv6At(s, i+1)
	if end == 0 || end == len(s) || s[end] != ']' {
		return 0
	}
	end++
	if port := span(s, min(end+1, len(s)), digit); port > end+1 && s[end] == ':' && !at(s, port, word) {
		return port
	}
	return end
}

// uuidAt reads 8-4-4-4-12 hexadecimal digits.
func uuidAt(s string, i int) int {
	if len(s)-i < 36 || s[i+8] != '-' {
		return 0
	}
	for k := range 36 {
		dash := k == 8 || k == 13 || k == 18 || k == 23
		if dash != (s[i+k] == '-') || !dash && !is(s[i+k], hex) {
			return 0
		}
	}
	if at(s, i+36, word) {
		return 0
	}
	return i + 36
}
