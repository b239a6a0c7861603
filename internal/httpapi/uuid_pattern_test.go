package httpapi

import (
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/skald-saga/skald/internal/httpkit"
)

func TestTheContractHasThePatternOfIDs(t *testing.T) {
	c, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	if got := c.doc.Components.Schemas["UUID"].Value.Pattern; got != httpkit.UUIDPattern {
		t.Errorf("the pattern of ids is %s, which is not the one that is matched without a regular expression", got)
	}
}

// The decoder reads them as UUIDs, and an id that is none would be an error of the server.
func TestIDsInBodiesHaveThePattern(t *testing.T) {
	c, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[*openapi3.Schema]bool{}
	var look func(where string, s *openapi3.SchemaRef)
	look = func(where string, s *openapi3.SchemaRef) {
		if s == nil || seen[s.Value] {
			return
		}
		seen[s.Value] = true
		if s.Value.Format == "uuid" && s.Value.Pattern != httpkit.UUIDPattern {
			t.Errorf("%s has the format uuid and not its pattern", where)
		}
		look(where+"[]", s.Value.Items)
		for name, property := range s.Value.Properties {
			look(where+"."+name, property)
		}
		for _, part := range slices.Concat(s.Value.AllOf, s.Value.AnyOf, s.Value.OneOf) {
			look(where, part)
		}
	}
	for _, item := range c.doc.Paths.Map() {
		for _, op := range item.Operations() {
			if op.RequestBody != nil {
				for _, media := range op.RequestBody.Value.Content {
					look(op.OperationID, media.Schema)
				}
			}
		}
	}
	if len(seen) < 100 {
		t.Errorf("%d schemas of bodies", len(seen))
	}
}
