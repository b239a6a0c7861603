package httpapi

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"
)

func TestUUIDMatcherAgreesWithThePattern(t *testing.T) {
	pattern := regexp.MustCompile(uuidPattern)
	id := uuid.NewString()
	texts := []string{"", id, strings.ToUpper(id), id + "\n", id[1:], id + "0", "{" + id + "}",
		strings.ReplaceAll(id, "-", "")}
	for i := range id {
		for _, c := range "-0fFgG/:@`é " {
			texts = append(texts, id[:i]+string(c)+id[i+1:])
		}
	}
	for _, text := range texts {
		if got, want := (uuidMatcher{}).MatchString(text), pattern.MatchString(text); got != want {
			t.Errorf("%q matches: %v, the pattern matches: %v", text, got, want)
		}
	}
	if m, err := matcherOf(uuidPattern); err != nil || m != (uuidMatcher{}) {
		t.Errorf("the pattern is matched by %T, %v", m, err)
	}
}

func TestTheContractHasThePatternOfIDs(t *testing.T) {
	c, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	if got := c.doc.Components.Schemas["UUID"].Value.Pattern; got != uuidPattern {
		t.Errorf("the pattern of ids is %s, which is not the one that uuidMatcher implements", got)
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
		if s.Value.Format == "uuid" && s.Value.Pattern != uuidPattern {
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
