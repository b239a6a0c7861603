package app_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// apiDoc is the contract as the server publishes it.
type apiDoc struct {
	t     *testing.T
	doc   map[string]any
	given map[string]any // values of members, by name, in any schema
}

// apiOperation is one operation of the contract.
type apiOperation struct {
	method, path, id string
	body             any                       // the smallest example of its request schema; nil: no body
	bodies           map[string]map[string]any // media type → schema
	parameters       []map[string]any
	sessionless      bool // it takes no session, and no other credential in a header
}

func contractOf(t *testing.T, url string) apiDoc {
	t.Helper()
	status, doc := call(t, "GET", url+"/openapi.json", "")
	if status != 200 {
		t.Fatalf("the contract: %d", status)
	}
	return apiDoc{t: t, doc: doc}
}

// operations returns the operations under /api/v1, ordered by path.
func (d apiDoc) operations() (all []apiOperation) {
	for path, item := range d.doc["paths"].(map[string]any) {
		if !strings.HasPrefix(path, "/api/v1/") {
			continue
		}
		item := item.(map[string]any)
		for method, op := range item {
			if !slices.Contains([]string{"get", "post", "put", "patch", "delete"}, method) {
				continue
			}
			op := op.(map[string]any)
			o := apiOperation{
				method: strings.ToUpper(method),
				path:   path,
				id:     op["operationId"].(string),
				bodies: map[string]map[string]any{},
			}
			security, has := op["security"].([]any)
			o.sessionless = has && len(security) == 0
			for _, from := range []any{item["parameters"], op["parameters"]} {
				some, _ := from.([]any)
				for _, p := range some {
					o.parameters = append(o.parameters, d.resolve(p.(map[string]any)))
				}
			}
			if body, has := op["requestBody"].(map[string]any); has {
				for media, of := range d.resolve(body)["content"].(map[string]any) {
					o.bodies[media] = of.(map[string]any)["schema"].(map[string]any)
				}
				if schema, has := o.bodies["application/json"]; has {
					o.body = d.example(schema, 0)
				}
			}
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b apiOperation) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return all
}

// resolve follows references and merges the parts of allOf.
func (d apiDoc) resolve(s map[string]any) map[string]any {
	if ref, is := s["$ref"].(string); is {
		at := any(d.doc)
		for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			at = at.(map[string]any)[part]
		}
		return d.resolve(at.(map[string]any))
	}
	parts, is := s["allOf"].([]any)
	if !is {
		return s
	}
	whole, own := map[string]any{}, maps.Clone(s)
	delete(own, "allOf")
	for _, part := range append(slices.Clone(parts), any(own)) {
		for k, v := range d.resolve(part.(map[string]any)) {
			switch before := whole[k].(type) {
			case map[string]any: // properties
				both := maps.Clone(before)
				maps.Copy(both, v.(map[string]any))
				whole[k] = both
			case []any: // required
				whole[k] = append(slices.Clone(before), v.([]any)...)
			default:
				whole[k] = v
			}
		}
	}
	return whole
}

// example builds a value that matches a schema: with the required and given members, and a
// reason wherever there may be one.
func (d apiDoc) example(schema map[string]any, depth int) any {
	s := d.resolve(schema)
	if words, is := s["enum"].([]any); is {
		return words[0]
	}
	for _, of := range []string{"oneOf", "anyOf"} {
		if choices, is := s[of].([]any); is && s["properties"] == nil {
			return d.example(choices[0].(map[string]any), depth)
		}
	}
	kind := s["type"]
	if kinds, is := kind.([]any); is { // or null
		kind = kinds[0]
	}
	switch kind {
	case "object":
		return d.object(s, depth)
	case "array":
		if least, _ := s["minItems"].(float64); least == 0 || depth > 8 {
			return []any{}
		}
		return []any{d.example(s["items"].(map[string]any), depth+1)}
	case "integer", "number":
		if least, is := s["minimum"].(float64); is {
			return max(least, 1)
		}
		return 1
	case "boolean":
		return true
	}
	switch s["format"] {
	case "uuid":
		return "01234567-89ab-7def-8123-456789abcdef"
	case "date-time":
		return "2030-01-02T03:04:05Z"
	}
	return "word"
}

func (d apiDoc) object(s map[string]any, depth int) any {
	out := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for name, p := range properties {
		if value, is := d.given[name]; is {
			out[name] = value
		} else if depth <= 8 && (name == "reason" || slices.Contains(required, any(name))) {
			out[name] = d.example(p.(map[string]any), depth+1)
		}
	}
	return out
}

func encoded(v any) string {
	if v == nil {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
