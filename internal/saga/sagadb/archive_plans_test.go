package sagadb_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// fillArchive copies all sagas that may be archived. It does not matter for plans that the
// originals still exist.
const fillArchive = `
DO $$ BEGIN
	EXECUTE format('INSERT INTO saga.saga_states_archive (%1$s) SELECT %1$s FROM saga.saga_states WHERE completed_at IS NOT NULL AND NOT needs_attention',
		saga.column_list('saga.saga_states', true));
	EXECUTE format('INSERT INTO saga.saga_step_logs_archive (%1$s) SELECT %1$s FROM saga.saga_step_logs', saga.column_list('saga.saga_step_logs', true));
END $$`

// inArchive maps an index of the live table to the archive's index with the same purpose.
var inArchive = map[string]string{
	"idx_saga_states_created_at": "tenant",
	"idx_sagas_tenant":           "tenant", "idx_saga_states_workflow_name": "workflow_name", "idx_saga_states_correlation_id": "correlation_id",
	"idx_saga_trace_id": "trace_id", "idx_saga_business_key": "business_key", "idx_saga_metadata": "metadata",
	"idx_saga_state":            "state",
	"idx_saga_terminal_cleanup": "updated_at", "idx_saga_updated_at": "updated_at",
	"idx_saga_initiated_by": "initiated_by",
}

// testArchivePlans shows that the retention queries and every filter of the archive's list use an
// index, and that each index of the archive has a purpose.
func testArchivePlans(t *testing.T, l large) {
	for _, s := range []string{
		// A workflow whose sagas are kept forever must not be read again in every run.
		`UPDATE saga.workflows SET completed_retention_ms = -1 WHERE name = 'workflow-1'`,
		`VACUUM (ANALYZE) saga.workflows`,
	} {
		if _, err := l.db.SQL().ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	hour := saga.Expiry{Default: saga.Retention{Completed: time.Hour, Failed: time.Hour}}
	for name, e := range map[string]saga.Expiry{"of all tenants": hour,
		"of one tenant": {Tenant: pgtest.Big, Default: hour.Default},
		"by a time":     {Tenant: pgtest.Big, Before: l.since.Add(time.Hour)}} {
		t.Run("S2-106 expired sagas "+name, func(t *testing.T) {
			leaps := pgtest.Explain(t, l.db.SQL(), sagadb.Expiring(e), sagadb.ExpiryParameters(e)...)
			pgtest.WantIndexes(t, leaps, "idx_saga_states_workflow_name")
			if leaps.Has("Sort") || leaps.Has("Incremental Sort") {
				t.Errorf("looking for the next workflow sorts sagas:\n%s", leaps)
			}
			args := sagadb.ExpiryParameters(e, 500)
			pgtest.WantIndexes(t, pgtest.Explain(t, l.db.SQL(), sagadb.ArchiveFailed(e), args...), "idx_saga_state")
			pgtest.WantIndexes(t, pgtest.Explain(t, l.db.SQL(), sagadb.CountFailed(e), args...), "idx_saga_state")
		})
	}
	for _, name := range []string{"workflow-3", "workflow without sagas"} {
		t.Run("S2-106 expired sagas of "+name, func(t *testing.T) {
			for _, query := range []string{sagadb.ArchiveCompleted, sagadb.CountCompleted} {
				pgtest.WantIndexes(t, pgtest.Explain(t, l.db.SQL(), query, pgtest.Big, name, time.Now(), 500), "idx_saga_states_workflow_name")
			}
		})
	}
	seen := map[string]bool{}
	check := func(t *testing.T, p pgtest.Plan, want string) {
		t.Helper()
		for name := range strings.SplitSeq(want, "|") {
			seen[name] = true
		}
		pgtest.WantIndexes(t, p, want)
	}
	for _, tt := range listPurposes(l) {
		if f := tt.filter; !sagadb.Archivable(&f) || f.OfError() || f.Sort == saga.ByEnd {
			continue // unfinished sagas and those that need attention are never archived; other filters are refused
		}
		var names []string
		for name := range strings.SplitSeq(tt.indexes[0], "|") {
			if strings.HasPrefix(name, "idx_saga_notes") { // for notes on live and archived sagas
				names = append(names, name)
				continue
			}
			if inArchive[name] == "" {
				t.Fatalf("%s: no index of the archive corresponds to %s", tt.name, name)
			}
			names = append(names, "idx_saga_states_archive_"+inArchive[name])
		}
		if f := tt.filter; !f.UpdatedFrom.IsZero() || !f.UpdatedTo.IsZero() || !f.EndedFrom.IsZero() {
			names = append(names, "idx_saga_states_archive_updated_at")
		}
		index := strings.Join(names, "|")
		t.Run("archived: "+tt.name, func(t *testing.T) {
			tt.filter.Limit = 50
			sagadb.Archivable(&tt.filter)
			query, args := sagadb.ListArchived(pgtest.Big, tt.filter)
			check(t, pgtest.Explain(t, l.db.SQL(), query, args...), index)
			if tt.few {
				query, args = sagadb.CountArchived(pgtest.Big, tt.filter)
				check(t, pgtest.Explain(t, l.db.SQL(), query, args...), index)
			}
		})
	}
	t.Run("archived: a page after a cursor begins at the cursor", func(t *testing.T) {
		query, args := sagadb.ListArchived(pgtest.Big,
			saga.Filter{ByTime: page.ByTime{Limit: 50, After: &page.TimeID{At: l.since.Add(time.Hour), ID: completedSaga}}})
		p := pgtest.Explain(t, l.db.SQL(), query, args...)
		check(t, p, "idx_saga_states_archive_tenant")
		if p.Has("Sort") {
			t.Errorf("the plan reads all rows before the cursor:\n%s", p)
		}
	})
	t.Run("an archived saga and its logs", func(t *testing.T) {
		check(t, pgtest.Explain(t, l.db.SQL(), sagadb.GetArchived, completedSaga, pgtest.Big), "saga_states_archive_pkey")
		check(t, pgtest.Explain(t, l.db.SQL(), sagadb.ArchivedLogs, completedSaga, pgtest.Big), "idx_saga_step_logs_archive_saga_id")
	})
	t.Run("every index of the archive has a purpose", func(t *testing.T) {
		for _, name := range pgtest.Ask[pq.StringArray](t, l.db.SQL(), `SELECT array_agg(indexname ORDER BY indexname) FROM pg_indexes
			WHERE schemaname = 'saga' AND tablename IN ('saga_states_archive', 'saga_step_logs_archive')`) {
			if !seen[name] && name != "saga_step_logs_archive_pkey" {
				t.Errorf("no query needs %s", name)
			}
		}
	})
}
