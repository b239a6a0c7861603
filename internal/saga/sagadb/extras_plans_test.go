package sagadb_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// seedsQueries are queries as the seed documents wrote them. No statement of Skald needs an index
// for them; the indexes of `skald migrate extras` serve them.
var seedsQueries = []pgtest.Purpose{
	{Name: "S1-21, S1-58 recovery by status, oldest first", Query: `SELECT * FROM saga.saga_states WHERE status IN ('STARTED', 'RUNNING', 'COMPENSATING') ORDER BY created_at`, Indexes: []string{"idx_saga_states_status_all"}},
	{Name: "S1-40 by step name", Query: `SELECT * FROM saga.saga_step_logs WHERE step_name = 'step-7'`, Indexes: []string{"idx_saga_step_logs_step_name_all"}},
	{Name: "S2-08, S2-38 by definition", Query: `SELECT * FROM saga.saga_instances WHERE definition_id = 'workflow-3@2'`, Indexes: []string{"idx_saga_definition_state"}},
	{Name: "S2-44 by definition and state", Query: `SELECT * FROM saga.saga_instances WHERE definition_id = 'workflow-3@1' AND state = 8`, Indexes: []string{"idx_saga_definition_state"}},
	{Name: "S2-37 by state", Query: `SELECT * FROM saga.saga_instances WHERE state = 6`, Indexes: []string{"idx_saga_state_created"}},
	{Name: "S2-42, S2-108 active, oldest first", Query: `SELECT * FROM saga.saga_instances WHERE state IN (1, 2, 4) ORDER BY created_at`, Indexes: []string{"idx_saga_state_created"}},
	{Name: "S2-48, S2-109 active for longer than an hour", Query: `SELECT * FROM saga.saga_instances WHERE state IN (1, 2, 4) AND created_at < now() - interval '1 hour'`, Indexes: []string{"idx_saga_state_created"}},
	{Name: "S2-39 newest first, of all tenants", Query: `SELECT * FROM saga.saga_instances ORDER BY created_at DESC LIMIT 50`, Indexes: []string{"idx_saga_created_at"}},
	{Name: "S2-40 changed lately", Query: `SELECT * FROM saga.saga_instances WHERE updated_at > now() - interval '1 minute'`, Indexes: []string{"idx_saga_updated_at_all"}},
	{Name: "S2-47 ended lately, without an extra", Query: `SELECT * FROM saga.saga_instances WHERE completed_at > now() - interval '1 minute'`, Indexes: []string{"idx_saga_terminal_cleanup"}},
	{Name: "S4-17 by the status of seed 4", Query: `SELECT * FROM saga.sagas WHERE status = 'compensating'`, Indexes: []string{"idx_sagas_status_all"}},
	{Name: "S2-99, S2-100 events of a type that every saga has, latest first", Query: `SELECT * FROM saga.saga_events WHERE event_type = 'saga.completed' ORDER BY timestamp DESC LIMIT 50`, Indexes: []string{"idx_event_type"}},
	{Name: "S2-100 events of a saga and a type, without an extra", Query: `SELECT * FROM saga.saga_events WHERE saga_id = '` + completedSaga.String() + `' AND event_type = 'saga.completed'`, Indexes: []string{"idx_event_saga_timestamp"}},
	{Name: "S2-101 events of a step", Query: `SELECT * FROM saga.saga_events WHERE step_id = '` + completedSaga.String() + `:1'`, Indexes: []string{"idx_event_step_id"}},
}

// testExtras creates the extra indexes and checks the plans of the seeds' queries as people would
// run them, in the read-only role. Skald's own statements must keep their plans.
func testExtras(t *testing.T, l large) {
	made, err := db.MakeExtras(t.Context(), l.dsn)
	if err != nil {
		t.Fatal(err)
	}
	people := pgtest.Observer(t, l.dsn)
	for _, s := range []string{`ANALYZE saga.saga_states, saga.saga_step_logs, saga.audit_events`, `SET ROLE ` + db.ReadonlyRole} {
		if _, err := people.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	// firstKey returns the expression that an index is ordered by, as a plan prints it, without
	// brackets and the table's name.
	plain := strings.NewReplacer("(", "", ")", "", "s.", "", "audit_events.", "", "saga_step_logs.", "").Replace
	firstKey := func(index string) string {
		return plain(pgtest.Ask[string](t, people, `SELECT pg_get_indexdef('saga.`+index+`'::regclass, 1, true)`))
	}
	used := map[string]bool{}
	for _, tt := range seedsQueries {
		t.Run(tt.Name, func(t *testing.T) {
			p := pgtest.Explain(t, people, tt.Query)
			pgtest.WantIndexes(t, p, tt.Indexes...)
			for _, name := range p.Indexes() {
				used[name] = true
			}
			p.Each(func(n pgtest.Plan) {
				if n.Cond != "" && slices.Contains(made, n.Index) && !strings.Contains(plain(n.Cond), firstKey(n.Index)) {
					t.Errorf("the plan reads all of %s, which begins with %s: %s", n.Index, firstKey(n.Index), n.Cond)
				}
			})
		})
	}
	for _, name := range made {
		if !used[name] && name != "idx_job_runs_state_all" && name != "idx_job_runs_assigned_worker_id_all" {
			t.Errorf("no query of the seeds needs %s", name)
		}
	}
	own := pgtest.Connect(t, l.dsn)
	writers := pgtest.Connection(t, own.Write.DB)
	for _, tt := range writePurposes(t) {
		pgtest.WantIndexes(t, pgtest.Explain(t, writers, tt.Query, tt.Args...), tt.Indexes...)
		pgtest.WantIndexes(t, pgtest.ExplainGeneric(t, writers, tt.Query, tt.Args...), tt.Indexes...)
	}
	readers := pgtest.Connection(t, own.Points())
	for _, tt := range tenantPurposes {
		pgtest.WantIndexes(t, pgtest.ExplainGeneric(t, readers, tt.Query, tt.Args...), tt.Indexes...)
	}
}
