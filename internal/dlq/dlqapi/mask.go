package dlqapi

import (
	"encoding/json"
	"strings"

	"github.com/skald-saga/skald/internal/rest"
	"github.com/skald-saga/skald/internal/strictjson"
)

// masked returns a JSON document with the text *** in place of the members
// that paths name: names between dots, in arrays of each element. A document
// that cannot be looked into is masked as a whole.
func masked(doc []byte, paths []string) json.RawMessage {
	if len(paths) == 0 {
		return doc
	}
	canonical, err := strictjson.Canonical(nil, doc, strictjson.Limits{})
	if err != nil {
		return rest.Redacted
	}
	split := make([][]string, len(paths))
	for i, path := range paths {
		split[i] = strings.Split(path, ".")
	}
	return mask(nil, canonical, split)
}

// mask appends a canonical value to out, without what paths name.
func mask(out, value []byte, paths [][]string) []byte {
	switch {
	case len(paths) == 0:
		return append(out, value...)
	case value[0] == '{':
		out = append(out, '{')
		for name, member := range rest.Members(value) {
			if out[len(out)-1] != '{' {
				out = append(out, ',')
			}
			key, _ := json.Marshal(name) // a string always encodes
			out = append(append(out, key...), ':')
			if below, hidden := step(paths, name); hidden {
				out = append(out, rest.Redacted...)
			} else {
				out = mask(out, member, below)
			}
		}
		return append(out, '}')
	case value[0] == '[':
		out = append(out, '[')
		for element := range rest.Elements(value) {
			if out[len(out)-1] != '[' {
				out = append(out, ',')
			}
			out = mask(out, element, paths)
		}
		return append(out, ']')
	}
	return append(out, value...)
}

// step goes into the member of a name: what the paths name below it, and
// whether they name the member itself.
func step(paths [][]string, name string) (below [][]string, hidden bool) {
	for _, path := range paths {
		switch {
		case path[0] != name:
		case len(path) == 1:
			return nil, true
		default:
			below = append(below, path[1:])
		}
	}
	return below, false
}
