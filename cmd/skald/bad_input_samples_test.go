package main

import (
	"maps"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
)

// sample returns a minimal value that a schema allows: it has only what is required.
func sample(s *openapi3.Schema, depth int) any {
	switch {
	case s == nil || depth > 8:
		return nil
	case s.Example != nil:
		return s.Example
	case s.Const != nil:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Default != nil:
		return s.Default
	case len(s.OneOf) > 0 && len(s.Properties) == 0:
		return sample(s.OneOf[0].Value, depth+1)
	case len(s.AnyOf) > 0 && len(s.Properties) == 0:
		return sample(s.AnyOf[0].Value, depth+1)
	case len(s.AllOf) > 0 && len(s.Properties) == 0:
		return sample(s.AllOf[0].Value, depth+1)
	case s.Type.Is("object") || len(s.Properties) > 0:
		o := map[string]any{}
		for _, name := range s.Required {
			if p := s.Properties[name]; p != nil {
				o[name] = sample(p.Value, depth+1)
			}
		}
		return o
	case s.Type.Is("array"):
		if s.MinItems == 0 || s.Items == nil {
			return []any{}
		}
		return []any{sample(s.Items.Value, depth+1)}
	case s.Type.Is("integer") || s.Type.Is("number"):
		if s.Min != nil {
			return *s.Min
		}
		return 1
	case s.Type.Is("boolean"):
		return true
	}
	switch s.Format {
	case "uuid":
		return "01234567-89ab-7def-8123-456789abcdef"
	case "date-time":
		return "2026-01-02T03:04:05Z"
	case "uri":
		return "http://127.0.0.1:9/x"
	}
	return "order"
}

// holes returns values of a schema in which one member is left open, at every depth that a client
// can fill. Otherwise the values contain only what is required.
func holes(s *openapi3.Schema, depth int) (all []any) {
	const open = "@hole@"
	all = append(all, open)
	if depth > 4 {
		return all
	}
	for _, of := range slices.Concat(s.OneOf, s.AnyOf, s.AllOf) {
		all = append(all, holes(of.Value, depth+1)[1:]...)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		for _, value := range holes(s.Properties[name].Value, depth+1) {
			o, ok := sample(s, 0).(map[string]any)
			if !ok {
				continue
			}
			o = maps.Clone(o)
			o[name] = value
			all = append(all, o)
		}
	}
	if s.Type.Is("array") && s.Items != nil {
		for _, value := range holes(s.Items.Value, depth+1) {
			all = append(all, []any{value})
		}
	}
	return all
}
