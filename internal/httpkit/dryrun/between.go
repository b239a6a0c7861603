package dryrun

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// counted are members that every change affects, or that are derived from other members.
var counted = []string{"version", "updated_at", "updated_by", "links", "allowed_actions"}

// Between returns the members whose values differ between two states of a resource, both given as
// JSON, sorted by name. Members of objects are named by their path, as in "stop_on.failures".
func Between(before, after []byte) (all List, err error) {
	was, is := map[string]string{}, map[string]string{}
	if err := flatten("", before, was); err != nil {
		return nil, err
	}
	if err := flatten("", after, is); err != nil {
		return nil, err
	}
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !slices.Contains(counted, name) {
			all.Differs(name, was[name], is[name])
		}
	}
	return all, nil
}

// flatten puts the values of a document into a map by path: texts unchanged, other values as compact JSON.
func flatten(path string, document []byte, into map[string]string) error {
	if object := map[string]json.RawMessage{}; json.Unmarshal(document, &object) == nil && object != nil {
		for name, value := range object {
			if path != "" {
				name = path + "." + name
			}
			if !slices.Contains(counted, name) {
				if err := flatten(name, value, into); err != nil {
					return err
				}
			}
		}
		return nil
	}
	var text *string
	if json.Unmarshal(document, &text) == nil {
		if text != nil { // null counts as no value
			into[path] = *text
		}
		return nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, document); err != nil {
		return err
	}
	into[path] = compact.String()
	return nil
}
