package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// fillArchive copies what may be archived: for plans it does not matter that it
// is still live.
const fillArchive = `
DO $$ BEGIN
	EXECUTE format('INSERT INTO saga.saga_states_archive (%1$s) SELECT %1$s FROM saga.saga_states WHERE completed_at IS NOT NULL AND NOT needs_attention',
		saga.column_list('saga.saga_states', true));
	EXECUTE format('INSERT INTO saga.saga_step_logs_archive (%1$s) SELECT %1$s FROM saga.saga_step_logs', saga.column_list('saga.saga_step_logs', true));
END $$`

// inArchive tells which index of the archive serves what that of the live table does.
var inArchive = map[string]string{
	"idx_sagas_tenant": "tenant", "idx_saga_states_workflow_name": "workflow_name", "idx_saga_states_correlation_id": "correlation_id",
	"idx_saga_trace_id": "trace_id", "idx_saga_business_key": "business_key", "idx_saga_metadata": "metadata", "idx_saga_state": "state",
	"idx_saga_terminal_cleanup": "updated_at", "idx_saga_updated_at": "updated_at", "idx_saga_initiated_by": "initiated_by",
}

// testArchivePlans shows that what retention looks for, and every filter of the
// archive's list, is found by an index, and that each index of the archive has
// a purpose.
func testArchivePlans(t *testing.T, l large) {
	for _, s := range []string{
		// A workflow that is kept for ever must not be read again and again.
		`UPDATE saga.workflows SET completed_retention_ms = -1 WHERE name = 'workflow-1'`,
		`VACUUM (ANALYZE) saga.workflows`,
	} {
		if _, err := l.db.SQL().ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	hour := saga.Expiry{Default: saga.Retention{Completed: time.Hour, Failed: time.Hour}}
	for name, e := range map[string]saga.Expiry{"of all tenants": hour, "of one tenant": {Tenant: big, Default: hour.Default}, "by a time": {Tenant: big, Before: l.since.Add(time.Hour)}} {
		t.Run("S2-106 expired sagas "+name, func(t *testing.T) {
			leaps := explain(t, l.db.SQL(), postgres.Expiring(e), postgres.ExpiryParameters(e)...)
			wantIndexes(t, leaps, "idx_saga_states_workflow_name")
			if leaps.has("Sort") || leaps.has("Incremental Sort") {
				t.Errorf("looking for the next workflow sorts sagas:\n%s", leaps)
			}
			args := postgres.ExpiryParameters(e, 500)
			wantIndexes(t, explain(t, l.db.SQL(), postgres.ArchiveFailed(e), args...), "idx_saga_state")
			wantIndexes(t, explain(t, l.db.SQL(), postgres.CountFailed(e), args...), "idx_saga_state")
		})
	}
	for _, name := range []string{"workflow-3", "workflow without sagas"} {
		t.Run("S2-106 expired sagas of "+name, func(t *testing.T) {
			for _, query := range []string{postgres.ArchiveCompleted, postgres.CountCompleted} {
				wantIndexes(t, explain(t, l.db.SQL(), query, big, name, time.Now(), 500), "idx_saga_states_workflow_name")
			}
		})
	}
	seen := map[string]bool{}
	check := func(t *testing.T, p plan, want string) {
		t.Helper()
		for name := range strings.SplitSeq(want, "|") {
			seen[name] = true
		}
		wantIndexes(t, p, want)
	}
	for _, tt := range listPurposes(l) {
		if f := tt.filter; !postgres.Archivable(&f) {
			continue // the unfinished, and those that need attention: asked of nobody
		}
		var names []string
		for name := range strings.SplitSeq(tt.indexes[0], "|") {
			if inArchive[name] == "" {
				t.Fatalf("%s: which index of the archive stands for %s?", tt.name, name)
			}
			names = append(names, "idx_saga_states_archive_"+inArchive[name])
		}
		if !tt.filter.UpdatedFrom.IsZero() || !tt.filter.UpdatedTo.IsZero() {
			names = append(names, "idx_saga_states_archive_updated_at")
		}
		index := strings.Join(names, "|")
		t.Run("archived: "+tt.name, func(t *testing.T) {
			tt.filter.Limit = 50
			postgres.Archivable(&tt.filter)
			query, args := postgres.ListArchived(big, tt.filter)
			check(t, explain(t, l.db.SQL(), query, args...), index)
			if tt.few {
				query, args = postgres.CountArchived(big, tt.filter)
				check(t, explain(t, l.db.SQL(), query, args...), index)
			}
		})
	}
	t.Run("archived: a page after a cursor begins at the cursor", func(t *testing.T) {
		query, args := postgres.ListArchived(big, saga.Filter{Limit: 50, After: &saga.Cursor{CreatedAt: l.since.Add(time.Hour), ID: somebody}})
		p := explain(t, l.db.SQL(), query, args...)
		check(t, p, "idx_saga_states_archive_tenant")
		if p.has("Sort") {
			t.Errorf("the plan reads its way to the cursor:\n%s", p)
		}
	})
	t.Run("an archived saga and its logs", func(t *testing.T) {
		check(t, explain(t, l.db.SQL(), postgres.GetArchived, somebody, big), "saga_states_archive_pkey")
		check(t, explain(t, l.db.SQL(), postgres.ArchivedLogs, somebody, big), "idx_saga_step_logs_archive_saga_id")
	})
	t.Run("every index of the archive has a purpose", func(t *testing.T) {
		for _, name := range ask[pq.StringArray](t, l.db.SQL(), `SELECT array_agg(indexname ORDER BY indexname) FROM pg_indexes
			WHERE schemaname = 'saga' AND tablename IN ('saga_states_archive', 'saga_step_logs_archive')`) {
			if !seen[name] && name != "saga_step_logs_archive_pkey" {
				t.Errorf("no query needs %s", name)
			}
		}
	})
}
