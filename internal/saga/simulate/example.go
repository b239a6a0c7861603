package simulate

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// deepest is the maximum depth to which an example follows a schema, and largest is its maximum
// size in bytes.
const (
	deepest = 8
	largest = 64 << 10
)

// exampleOf returns a value that fits a JSON Schema, as far as one is easy to find: a value that the
// schema contains, or the smallest value of its type. It returns nil if there is none. The value
// need not be canonical JSON, because it is read as an answer.
func exampleOf(schema json.RawMessage) json.RawMessage {
	var doc any
	if schema == nil || json.Unmarshal(schema, &doc) != nil {
		return nil
	}
	value, ok := example(doc, 0)
	if !ok {
		return nil
	}
	out, err := json.Marshal(value)
	if err != nil || len(out) > largest {
		return nil
	}
	return out
}

func example(doc any, depth int) (value any, ok bool) {
	s, isObject := doc.(map[string]any)
	if !isObject || depth == deepest {
		return nil, doc == true
	}
	if all, _ := s["examples"].([]any); len(all) > 0 {
		return all[0], true
	}
	for _, member := range []string{"default", "const"} {
		if v, there := s[member]; there {
			return v, true
		}
	}
	if all, _ := s["enum"].([]any); len(all) > 0 {
		return all[0], true
	}
	for _, member := range []string{"anyOf", "oneOf"} {
		if all, _ := s[member].([]any); len(all) > 0 {
			return example(all[0], depth+1)
		}
	}
	kind, _ := s["type"].(string)
	if several, _ := s["type"].([]any); len(several) > 0 {
		kind, _ = several[0].(string)
	}
	switch kind {
	case "object":
		return object(s, depth), true
	case "array":
		return array(s, depth), true
	case "string":
		least, _ := s["minLength"].(float64)
		return "text" + strings.Repeat(".", int(min(max(least-4, 0), 1000))), true
	case "integer", "number":
		least, _ := s["minimum"].(float64)
		if above, there := s["exclusiveMinimum"].(float64); there {
			least = above + 1
		}
		return least, true
	case "boolean":
		return true, true
	}
	if s["properties"] != nil || s["required"] != nil {
		return object(s, depth), true
	}
	return nil, true
}

// object has the required members, or all members if none is required.
func object(s map[string]any, depth int) map[string]any {
	members, _ := s["properties"].(map[string]any)
	out := map[string]any{}
	var names []string
	required, _ := s["required"].([]any)
	for _, name := range required {
		text, _ := name.(string)
		names = append(names, text)
	}
	if names == nil {
		names = slices.Sorted(maps.Keys(members))
	}
	for _, name := range names {
		if v, ok := example(members[name], depth+1); ok || members[name] == nil {
			out[name] = v
		}
	}
	return out
}

func array(s map[string]any, depth int) []any {
	least, _ := s["minItems"].(float64)
	out := []any{}
	if depth > 0 { // nested lists would multiply
		least = 1
	}
	for range int(min(max(least, 1), 10)) {
		if v, ok := example(s["items"], depth+1); ok {
			out = append(out, v)
		}
	}
	return out
}
