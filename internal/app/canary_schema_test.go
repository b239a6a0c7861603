package app_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// apiDoc is the contract as the server tells it.
type apiDoc struct {
	t   *testing.T
	doc map[string]any
}

// apiOperation is one operation of the contract.
type apiOperation struct {
	method, path string
	body         any // an answer to its request schema, as small as can be; nil: it takes none
}

func contractOf(t *testing.T, n *node) apiDoc {
	t.Helper()
	status, doc := call(t, "GET", n.url+"/openapi.json", "")
	if status != 200 {
		t.Fatalf("the contract: %d", status)
	}
	return apiDoc{t, doc}
}

// operations are those under /api/v1, in the order of their paths.
func (d apiDoc) operations() (all []apiOperation) {
	for path, item := range d.doc["paths"].(map[string]any) {
		if !strings.HasPrefix(path, "/api/v1/") {
			continue
		}
		for method, op := range item.(map[string]any) {
			if !slices.Contains([]string{"get", "post", "put", "patch", "delete"}, method) {
				continue
			}
			o := apiOperation{method: strings.ToUpper(method), path: path}
			if body, has := op.(map[string]any)["requestBody"].(map[string]any); has {
				content := d.resolve(body)["content"].(map[string]any)
				if media, has := content["application/json"].(map[string]any); has {
					o.body = d.example(media["schema"].(map[string]any), 0)
				}
			}
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b apiOperation) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return all
}

// resolve follows references and puts the parts of allOf together.
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
	whole := map[string]any{}
	for _, part := range append(parts, any(map[string]any{})) {
		for k, v := range d.resolve(part.(map[string]any)) {
			whole[k] = v
		}
	}
	return whole
}

// example makes a value that fits a schema: what is required, and a reason
// wherever one may be given.
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
	switch s["type"] {
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
		if depth <= 8 && (name == "reason" || slices.Contains(required, any(name))) {
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
