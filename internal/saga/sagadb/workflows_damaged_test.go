package sagadb_test

import (
	"errors"
	"testing"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// TestADamagedDefinitionDoesNotTakeTheListAway: a bad restore has left rows that are not valid
// definitions. They are listed and marked, and cannot be used.
func TestADamagedDefinitionDoesNotTakeTheListAway(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t))
	tenant := pgtest.NewID()
	st := sagadb.NewWorkflows(db)
	if _, _, err := st.Register(t.Context(), tenant, pgtest.Order, false, pgtest.Now()); err != nil {
		t.Fatal(err)
	}
	damaged := map[string]string{
		"a": `{}`, "b": `[]`, "c": `null`, "d": `"text"`,
		"e": `{"steps":"none"}`, "f": `{"steps":[]}`, "g": `{"steps":[{"name":5}]}`,
	}
	for name, text := range damaged {
		for _, q := range []string{
			`INSERT INTO saga.workflows (tenant_id, name, latest_version, inline) VALUES ($1, $2, 1, $3 = '')`,
			`INSERT INTO saga.workflow_definitions (tenant_id, name, version, content_hash, definition) VALUES ($1, $2, 1, '', $3)`,
		} {
			if _, err := db.Read.ExecContext(t.Context(), q, tenant, name, text); err != nil {
				t.Fatal(err)
			}
		}
	}
	found, err := st.List(t.Context(), tenant, workflow.Filter{Request: page.Request[string]{Limit: 100, Total: true}})
	if err != nil || len(found.Items) != len(damaged)+1 {
		t.Fatalf("%d of %d workflows, %v", len(found.Items), len(damaged)+1, err)
	}
	for _, r := range found.Items {
		_, want := damaged[r.Name]
		if r.Unreadable != want || r.Definition == nil || want != (len(r.Definition.Steps) == 0) {
			t.Errorf("%s: %+v", r.Name, r)
		}
		_, err := st.Get(t.Context(), tenant, r.Name, 0)
		if errors.Is(err, workflow.ErrUnreadable) != want || want != (err != nil) {
			t.Errorf("%s is read: %v", r.Name, err)
		}
		if v, err := st.Versions(t.Context(), tenant, r.Name, page.Request[int]{Limit: 5}); err != nil || len(v.Items) != 1 {
			t.Errorf("the versions of %s: %+v, %v", r.Name, v, err)
		}
	}
}
