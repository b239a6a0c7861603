package strictjson

import (
	"bytes"
	"encoding/json"
)

// Member is one member of an object, with its value unparsed.
type Member struct {
	Key string
	Raw []byte // the value as sent, which need not be valid JSON
}

// Members splits an object into its members, in order. It looks only at keys, quotes and brackets,
// so that an invalid value does not affect the others. It returns false if src is not an object
// that can be split or has too many members.
func Members(src []byte) (members []Member, ok bool) {
	return (&splitter{src: src}).members()
}

// Salvaged returns the members of what should be an object, as far as they can be distinguished:
// an unclosed array ends with the object, and text after the object is ignored.
func Salvaged(src []byte) []Member {
	members, _ := (&splitter{src: src, salvages: true}).members()
	return members
}

func (s *splitter) members() (members []Member, ok bool) {
	if !s.take('{') {
		return nil, false
	}
	for first := true; !s.take('}'); first = false {
		if !first && !s.take(',') || len(members) == mostMembers {
			return members, false
		}
		key, ok := s.key()
		if !ok || !s.take(':') {
			return members, false
		}
		raw, ok := s.value('}')
		if !ok {
			return members, false
		}
		members = append(members, Member{key, raw})
	}
	return members, s.atEnd()
}

// mostMembers is far more than any object of the API has.
const mostMembers = 1000

// Elements splits an array of at most this many elements in the same way as Members splits an
// object. An element may be empty: [1,] has two elements.
func Elements(src []byte, most int) (elements [][]byte, ok bool) {
	s := splitter{src: src}
	if !s.take('[') {
		return nil, false
	}
	if s.take(']') {
		return nil, s.atEnd()
	}
	for more := true; more; more = s.take(',') {
		raw, ok := s.value(']')
		if !ok || len(elements) == most {
			return nil, false
		}
		elements = append(elements, raw)
	}
	return elements, s.take(']') && s.atEnd()
}

type splitter struct {
	src      []byte
	pos      int
	salvages bool // set for Salvaged
}

func (s *splitter) next() byte {
	p := parser{src: s.src, pos: s.pos}
	c := p.next()
	s.pos = p.pos
	return c
}

func (s *splitter) take(c byte) bool {
	if s.next() != c {
		return false
	}
	s.pos++
	return true
}

func (s *splitter) atEnd() bool { return s.next() == 0 && s.pos == len(s.src) }

// key reads a key.
func (s *splitter) key() (key string, ok bool) {
	if s.next() != '"' {
		return "", false
	}
	end, ok := stringEnd(s.src, s.pos)
	if !ok || json.Unmarshal(s.src[s.pos:end], &key) != nil {
		return "", false
	}
	s.pos = end
	return key, true
}

// value reads up to the comma or bracket that ends the value. It tolerates unbalanced brackets
// inside the value: a closing brace also closes the arrays inside it, and a bracket that closes
// nothing is skipped.
func (s *splitter) value(closing byte) (raw []byte, ok bool) {
	var open []byte
	start := s.pos
	for i := start; i < len(s.src); i++ {
		c := s.src[i]
		if len(open) == 0 && (c == ',' || c == closing) {
			s.pos = i
			return bytes.TrimSpace(s.src[start:i]), true
		}
		switch c {
		case '"':
			end, ok := stringEnd(s.src, i)
			if !ok {
				return nil, false
			}
			i = end - 1
		case '{', '[':
			open = append(open, c)
		case ']':
			if n := len(open); n > 0 && open[n-1] == '[' {
				open = open[:n-1]
			}
		case '}':
			n := bytes.LastIndexByte(open, '{')
			switch {
			case n >= 0:
				open = open[:n]
			case s.salvages:
				s.pos = i
				return bytes.TrimSpace(s.src[start:i]), true
			}
		}
	}
	return nil, false
}

// stringEnd returns the offset just after the string that begins at i.
func stringEnd(src []byte, i int) (end int, ok bool) {
	for i++; i < len(src); i++ {
		switch src[i] {
		case '"':
			return i + 1, true
		case '\\':
			i++
		}
	}
	return 0, false
}
