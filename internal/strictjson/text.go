package strictjson

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads a string and reports whether src contains escapes in it. Characters that cannot be
// stored are replaced if mend allows it.
func (p *parser) text(mend func(path []string) bool) (escaped bool, err *Error) {
	src, i := p.src, p.pos+1
	p.out = append(p.out, '"')
	for {
		run, bits := i, byte(0)
		for i < len(src) && src[i] >= ' ' && src[i] != '"' && src[i] != '\\' {
			bits |= src[i]
			i++
		}
		// A run ends at an ASCII byte, so it never ends inside a character.
		if bits >= utf8.RuneSelf && !utf8.Valid(src[run:i]) {
			if mend == nil || !mend(p.path) {
				return false, p.fault(CodeInvalidUTF8, run+firstInvalid(src[run:i]), "invalid UTF-8")
			}
			p.out = append(p.out, bytes.ToValidUTF8(src[run:i], replacement)...)
		} else {
			p.out = append(p.out, src[run:i]...)
		}

		if i == len(src) {
			return false, p.unexpectedEnd()
		}
		switch src[i] {
		case '"':
			p.out = append(p.out, '"')
			p.pos = i + 1
			return escaped, nil
		case '\\':
			end, err := p.escape(i)
			if err != nil {
				if !mendable[err.Code] || mend == nil || !mend(p.path) {
					return false, err
				}
				p.out, end = append(p.out, replacement...), i+len(`\u0000`)
			}
			i, escaped = end, true
		case 0:
			if mend != nil && mend(p.path) {
				p.out = append(p.out, replacement...)
				i++
				continue
			}
			return false, p.fault(CodeNULCharacter, i, "NUL character in a string")
		default:
			return false, p.fault(CodeSyntax, i, "control character in a string must be escaped")
		}
	}
}

// escape reads the escape whose backslash is at i and returns the offset after it.
func (p *parser) escape(i int) (int, *Error) {
	src := p.src
	if i+1 == len(src) {
		return 0, p.unexpectedEnd()
	}
	switch c := src[i+1]; c {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		p.out = append(p.out, '\\', c)
		return i + 2, nil
	case '/':
		p.out = append(p.out, '/')
		return i + 2, nil
	case 'u':
	default:
		return 0, p.fault(CodeSyntax, i, "unknown escape in a string")
	}
	r, ok := unicodeEscape(src[i:])
	if !ok {
		return 0, p.fault(CodeSyntax, i, `\u needs four hexadecimal digits`)
	}
	if r == 0 {
		return 0, p.fault(CodeNULCharacter, i, "NUL character in a string")
	}
	end := i + 6
	if utf16.IsSurrogate(r) {
		low, _ := unicodeEscape(src[end:])
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return 0, p.fault(CodeLoneSurrogate, i, "half of a surrogate pair in a string")
		}
		end += 6
	}
	p.out = appendCharacter(p.out, r)
	return end, nil
}

// unicodeEscape reads the \uXXXX at the beginning of s.
func unicodeEscape(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	r, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	return rune(r), err == nil
}

// appendCharacter writes a character in the same way as PostgreSQL's escape_json.
func appendCharacter(out []byte, r rune) []byte {
	switch {
	case r == '"', r == '\\':
		return append(out, '\\', byte(r))
	case r >= ' ':
		return utf8.AppendRune(out, r)
	case r >= '\b' && r <= '\r' && r != '\v':
		return append(out, '\\', "btn-fr"[r-'\b'])
	default:
		const hex = "0123456789abcdef"
		return append(out, '\\', 'u', '0', '0', hex[r>>4], hex[r&0xf])
	}
}

// firstInvalid returns the index of the first byte of s that is not UTF-8.
func firstInvalid(s []byte) int {
	i := 0
	for i < len(s) {
		r, size := utf8.DecodeRune(s[i:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		i += size
	}
	return i
}
