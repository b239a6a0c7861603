package openapi

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// object is a JSON object in the document.
type object map[string]any

// object returns a member that is an object. If there is none, it returns an empty object that is
// not part of o.
func (o object) object(name string) object {
	if member, ok := o[name].(object); ok {
		return member
	}
	return object{}
}

func (o object) list(name string) []any { all, _ := o[name].([]any); return all }

func (o object) text(name string) string { s, _ := o[name].(string); return s }

func (o object) names() []string { return slices.Sorted(maps.Keys(o)) }

// resolved returns the object that v refers to, or v if it is not a reference.
func resolved(doc object, v any) object {
	o, _ := v.(object)
	ref, ok := o["$ref"].(string)
	if !ok {
		return o
	}
	found := doc
	for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		found = found.object(strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
	}
	return found
}

// place is an operation and its location in the document.
type place struct {
	path, method string
	item, op     object
}

var methods = []string{"get", "post", "put", "patch", "delete"}

// operations returns the operations of the document, ordered by path.
func operations(doc object) iter.Seq[place] {
	return func(yield func(place) bool) {
		paths := doc.object("paths")
		for _, path := range paths.names() {
			item := paths.object(path)
			for _, method := range methods {
				if op, ok := item[method].(object); ok && !yield(place{path, method, item, op}) {
					return
				}
			}
		}
	}
}
