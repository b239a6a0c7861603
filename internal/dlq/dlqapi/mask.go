package dlqapi

import (
	"encoding/json"
	"strings"

	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/strictjson"
)

// masked returns a JSON document in which the members that paths name are replaced by the string
// ***. A path consists of names separated by dots and is applied to each element of an array. A
// document that cannot be parsed is masked as a whole.
func masked(doc []byte, paths []string) json.RawMessage {
	if len(paths) == 0 {
		return doc
	}
	canonical, err := strictjson.Canonical(nil, doc, strictjson.Limits{})
	if err != nil {
		return httpkit.Redacted
	}
	split := make([][]string, len(paths))
	for i, path := range paths {
		split[i] = strings.Split(path, ".")
	}
	return mask(nil, canonical, split)
}

// mask appends a canonical value to out, without the members that paths name.
func mask(out, value []byte, paths [][]string) []byte {
	switch {
	case len(paths) == 0:
		return append(out, value...)
	case value[0] == '{':
		out = append(out, '{')
		for name, member := range httpkit.Members(value) {
			if out[len(out)-1] != '{' {
				out = append(out, ',')
			}
			key, _ := json.Marshal(name) // encoding a string cannot fail
			out = append(append(out, key...), ':')
			if below, hidden := step(paths, name); hidden {
				out = append(out, httpkit.Redacted...)
			} else {
				out = mask(out, member, below)
			}
		}
		return append(out, '}')
	case value[0] == '[':
		out = append(out, '[')
		for element := range httpkit.Elements(value) {
			if out[len(out)-1] != '[' {
				out = append(out, ',')
			}
			out = mask(out, element, paths)
		}
		return append(out, ']')
	}
	return append(out, value...)
}

// step descends into a member: below contains the paths that continue below it, and hidden reports
// whether a path names the member itself.
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
