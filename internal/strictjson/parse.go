package strictjson

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"unicode/utf8"
)

// parser reads src once and writes the canonical form along the way.
type parser struct {
	src       []byte
	pos       int
	out       []byte
	scratch   []byte // scratch space for sort; reused, so that deep nesting does not allocate on every level
	maxDepth  int
	maxDigits int
	grown     int // digits that exponents have added so far

	mend func(path []string) bool // nil: nothing is mended
	path []string                 // the path of the current value; only with mend
}

// member is one "key":value of an object.
type member struct {
	key        []byte // decoded key
	at         int    // offset in src of the key's opening quote
	start, end int    // where the canonical member is in out
}

func (p *parser) document() *Error {
	if p.next(); p.pos == len(p.src) {
		return p.fault(CodeEmpty, p.pos, "no JSON value")
	}
	if err := p.value(1); err != nil {
		return err
	}
	if p.next(); p.pos < len(p.src) {
		return p.fault(CodeTrailingData, p.pos, "data after the JSON value")
	}
	return nil
}

// value reads any value. depth is the depth of the value if it is an array or an
// object.
func (p *parser) value(depth int) *Error {
	switch p.next() {
	case '{':
		return p.object(depth)
	case '[':
		return p.array(depth)
	case '"':
		_, err := p.text(p.mend)
		return err
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return p.number()
	case 't':
		return p.literal("true")
	case 'f':
		return p.literal("false")
	case 'n':
		return p.literal("null")
	default:
		return p.unexpected("expected a value")
	}
}

func (p *parser) literal(word string) *Error {
	if !bytes.HasPrefix(p.src[p.pos:], []byte(word)) {
		return p.fault(CodeSyntax, p.pos, "expected true, false or null")
	}
	p.pos += len(word)
	p.out = append(p.out, word...)
	return nil
}

func (p *parser) array(depth int) *Error {
	if depth > p.maxDepth {
		return p.tooDeep()
	}
	p.take('[')
	if p.next() == ']' {
		p.take(']')
		return nil
	}
	for i := 0; ; i++ {
		if p.mend != nil {
			p.path = append(p.path, strconv.Itoa(i))
		}
		if err := p.value(depth + 1); err != nil {
			return err.under(strconv.Itoa(i))
		}
		p.leave()
		switch p.next() {
		case ',':
			p.take(',')
		case ']':
			p.take(']')
			return nil
		default:
			return p.unexpected("expected a comma or a closing bracket")
		}
	}
}

func (p *parser) object(depth int) *Error {
	if depth > p.maxDepth {
		return p.tooDeep()
	}
	p.take('{')
	if p.next() == '}' {
		p.take('}')
		return nil
	}
	var room [16]member // on the stack; enough for most objects
	members, sorted := room[:0], true
	for {
		m, err := p.key()
		if err != nil {
			return err
		}
		if n := len(members); n > 0 && compareKeys(members[n-1].key, m.key) >= 0 {
			sorted = false // or a duplicate key, which sort finds
		}
		if p.mend != nil {
			p.path = append(p.path, string(m.key))
		}
		if err := p.value(depth + 1); err != nil {
			return err.under(string(m.key))
		}
		p.leave()
		m.end = len(p.out)
		members = append(members, m)

		switch p.next() {
		case ',':
			p.take(',')
		case '}':
			if !sorted {
				if err := p.sort(members); err != nil {
					return err
				}
			}
			p.take('}')
			return nil
		default:
			return p.unexpected("expected a comma or a closing brace")
		}
	}
}

// leave restores the path of the enclosing value.
func (p *parser) leave() {
	if p.mend != nil {
		p.path = p.path[:len(p.path)-1]
	}
}

// key reads a key and the colon after it.
func (p *parser) key() (member, *Error) {
	if p.next() != '"' {
		return member{}, p.unexpected("expected a key in double quotes")
	}
	m := member{at: p.pos, start: len(p.out)}
	escaped, err := p.text(nil)
	if err != nil {
		return member{}, err
	}
	if escaped {
		// Every escape in the canonical form has the same meaning in Go.
		key, _ := strconv.Unquote(string(p.out[m.start:]))
		m.key = []byte(key)
	} else {
		m.key = p.src[m.at+1 : p.pos-1]
	}
	if p.next() != ':' {
		return member{}, p.unexpected("expected a colon")
	}
	p.take(':')
	return m, nil
}

// compareKeys compares keys in the order of jsonb.
func compareKeys(a, b []byte) int {
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return bytes.Compare(a, b)
}

// sort orders the members of an object that has just been read. They are at the end of out,
// separated by commas.
func (p *parser) sort(members []member) *Error {
	start := members[0].start
	var room [512]byte // on the stack
	unsorted := room[:]
	if len(p.out)-start > len(room) {
		p.scratch = slices.Grow(p.scratch[:0], len(p.out)-start)
		unsorted = p.scratch[:len(p.out)-start]
	}
	copy(unsorted, p.out[start:])
	slices.SortFunc(members, func(a, b member) int {
		return cmp.Or(compareKeys(a.key, b.key), cmp.Compare(a.at, b.at))
	})

	p.out = p.out[:start]
	repeated := -1 // the earliest repetition of a key
	for i, m := range members {
		if i > 0 {
			p.out = append(p.out, ',')
			if bytes.Equal(members[i-1].key, m.key) && (repeated < 0 || m.at < members[repeated].at) {
				repeated = i
			}
		}
		p.out = append(p.out, unsorted[m.start-start:m.end-start]...)
	}
	if repeated >= 0 {
		m := members[repeated]
		return p.fault(CodeDuplicateKey, m.at, "the object already has this key").under(string(m.key))
	}
	return nil
}

// next skips blanks and returns the byte after them without consuming it, or 0 at the end of
// the document.
func (p *parser) next() byte {
	for ; p.pos < len(p.src); p.pos++ {
		switch c := p.src[p.pos]; c {
		case ' ', '\n', '\t', '\r':
		default:
			return c
		}
	}
	return 0
}

// take consumes the byte that next returned, and writes it.
func (p *parser) take(c byte) {
	p.pos++
	p.out = append(p.out, c)
}

func (p *parser) fault(code string, at int, detail string) *Error {
	return &Error{Code: code, Offset: at, Detail: detail}
}

func (p *parser) tooDeep() *Error {
	return p.fault(CodeTooDeep, p.pos, "more than "+strconv.Itoa(p.maxDepth)+" levels of nesting")
}

// unexpected returns the error for the byte at pos, which is not part of a string.
func (p *parser) unexpected(detail string) *Error {
	if p.pos == len(p.src) {
		return p.unexpectedEnd()
	}
	if r, size := utf8.DecodeRune(p.src[p.pos:]); r == utf8.RuneError && size == 1 {
		return p.fault(CodeInvalidUTF8, p.pos, "invalid UTF-8")
	}
	return p.fault(CodeSyntax, p.pos, detail)
}

func (p *parser) unexpectedEnd() *Error {
	return p.fault(CodeSyntax, len(p.src), "unexpected end of the document")
}
