package httpapi

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// TestEveryDryRunAnswersWithItsChanges checks that every action with dry_run lists the changes it
// would make, with old and new values, in the same schema.
func TestEveryDryRunAnswersWithItsChanges(t *testing.T) {
	c, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	property := func(s *openapi3.SchemaRef, name string) *openapi3.SchemaRef {
		if s == nil {
			return nil
		}
		for _, part := range append(openapi3.SchemaRefs{s}, s.Value.AllOf...) {
			if p := part.Value.Properties[name]; p != nil {
				return p
			}
		}
		return nil
	}
	found := 0
	for path, item := range c.doc.Paths.Map() {
		for method, op := range item.Operations() {
			dry := op.Parameters.GetByInAndName("query", "dry_run") != nil
			if op.RequestBody != nil {
				body := op.RequestBody.Value.Content["application/json"]
				dry = dry || body != nil && property(body.Schema, "dry_run") != nil
			}
			if !dry {
				continue
			}
			found++
			answer := op.Responses.Status(200).Value.Content["application/json"].Schema
			changes := property(answer, "changes")
			if changes == nil {
				changes = property(property(answer, "preview"), "changes")
			}
			if changes == nil || changes.Value.Items.Ref != "#/components/schemas/PlannedChange" {
				t.Errorf("%s %s has dry_run, and its answer has no changes", method, path)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d operations have dry_run", found)
	}
}
