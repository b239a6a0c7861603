package expression

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/skald-saga/skald/internal/strictjson"
)

// path is a reference to a value, which is copied unchanged.
type path struct {
	root  string // a variable
	step  string // of the variable steps
	parts []part
}

// part is one step into a value: a member, or an element if the value is a list.
type part struct {
	key   []byte // as canonical JSON
	index int    // -1 means not a number
}

func partOf(name string) part {
	p := part{index: -1}
	if i, err := strconv.ParseUint(name, 10, 31); err == nil {
		p.index = int(i)
	}
	key, err := strictjson.Encode(name)
	if err != nil { // not UTF-8, so no member has that name
		key = nil
	}
	p.key = key
	return p
}

// parsePath parses source as a path. If ok is false, source is not a path but a CEL expression.
func parsePath(source string, p *Place) (found path, ok bool, err error) {
	root, rest := word(source)
	if root == "" || rest != "" && rest[0] != '.' && rest[0] != '[' {
		return path{}, false, nil
	}
	if strings.ContainsRune(root, '-') { // for example output-1
		return path{}, false, nil
	}
	found.root = root
	if root == "steps" && strings.HasPrefix(rest, ".") {
		if name := longest(rest[1:], p.Known); name != "" {
			found.step, rest = name, rest[1+len(name):]
		}
	}
	var names []string
	for rest != "" {
		name, after, isPart := nextPart(rest)
		if !isPart {
			return path{}, false, nil
		}
		names, rest = append(names, name), after
	}
	if err := p.variable(root); err != nil {
		return path{}, true, err
	}
	switch {
	case root == "steps" && found.step == "" && len(names) == 0:
		return path{}, true, errors.New("name the step: ${steps.NAME}, or ${steps.NAME.member}")
	case root == "steps" && found.step == "":
		found.step, names = names[0], names[1:]
		fallthrough
	case root == "steps":
		if err := p.step(found.step); err != nil {
			return path{}, true, err
		}
	case root == "secrets" && len(names) != 1:
		return path{}, true, errors.New("name one secret: ${secrets.NAME}")
	case root == "secrets":
		if err := p.Secret(names[0]); err != nil {
			return path{}, true, err
		}
		found.step = names[0]
		return found, true, nil
	case members[root] != nil && len(names) != 1:
		return path{}, true, fmt.Errorf("name one member of %s: %s", root, strings.Join(members[root], ", "))
	case members[root] != nil:
		if err := member(root, names[0]); err != nil {
			return path{}, true, err
		}
	}
	for _, name := range names {
		found.parts = append(found.parts, partOf(name))
	}
	return found, true, nil
}

// longest returns the longest step name that s starts with. Names may contain dots.
func longest(s string, known func(string) bool) string {
	if known == nil {
		return ""
	}
	end := strings.IndexByte(s, '[')
	if end < 0 {
		end = len(s)
	}
	for end > 0 && !known(s[:end]) {
		end = strings.LastIndexByte(s[:end], '.')
	}
	return s[:max(end, 0)]
}

// word cuts the leading name characters off s.
func word(s string) (name, rest string) {
	end := strings.IndexFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && !strings.ContainsRune("_-:", r)
	})
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:]
}

// nextPart reads .name, [index] or ["name"].
func nextPart(s string) (name, rest string, ok bool) {
	if s[0] == '.' {
		name, rest = word(s[1:])
		return name, rest, name != ""
	}
	if s[0] != '[' || len(s) < 3 {
		return "", "", false
	}
	if s[1] != '"' && s[1] != '\'' {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", "", false
		}
		if _, err := strconv.ParseUint(s[1:end], 10, 31); err != nil {
			return "", "", false
		}
		return s[1:end], s[end+1:], true
	}
	n := quoted(s[1:])
	if n < 2 || 1+n >= len(s) || s[1+n] != ']' {
		return "", "", false
	}
	name = s[2:n]
	return name, s[n+2:], name != "" && !strings.ContainsAny(name, "\\\"'")
}

// find returns the value at parts in canonical JSON. It returns false if there is none; null is a
// value.
func find(j []byte, parts []part) ([]byte, bool) {
	for i := range parts {
		if len(j) == 0 {
			return nil, false
		}
		var ok bool
		switch j[0] {
		case '{':
			j, ok = memberOf(j, parts[i].key)
		case '[':
			j, ok = elementOf(j, parts[i].index)
		}
		if !ok {
			return nil, false
		}
	}
	return j, len(j) > 0
}

func memberOf(j, key []byte) ([]byte, bool) {
	for i := 1; i < len(j) && j[i] == '"'; i++ { // positioned at a comma after each member
		start := i
		i = skip(j, i)
		is := bytes.Equal(j[start:i], key)
		if i++; i >= len(j) {
			return nil, false
		}
		start = i
		if i = skip(j, i); is {
			return j[start:i], true
		}
	}
	return nil, false
}

func elementOf(j []byte, index int) ([]byte, bool) {
	if index < 0 || len(j) < 2 || j[1] == ']' {
		return nil, false
	}
	for i := 1; i < len(j); i++ {
		start := i
		if i = skip(j, i); index == 0 {
			return j[start:i], true
		}
		if index--; i >= len(j) || j[i] != ',' {
			return nil, false
		}
	}
	return nil, false
}

// skip returns the position after the value that starts at i.
func skip(j []byte, i int) int {
	depth := 0
	for ; i < len(j); i++ {
		switch j[i] {
		case '"':
			for i++; i < len(j) && j[i] != '"'; i++ {
				if j[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return min(i+1, len(j))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // the end of the value that contains a number or a word
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return len(j)
}

// textOf returns the characters of a JSON string.
func textOf(j []byte) (string, bool) {
	if len(j) < 2 || j[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(j, '\\') < 0 {
		return string(j[1 : len(j)-1]), true
	}
	var s string
	err := json.Unmarshal(j, &s)
	return s, err == nil
}
