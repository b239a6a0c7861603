package sagadb_test

import (
	"database/sql"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// nullable tells of the columns of a table which of them may be NULL.
func nullable(t *testing.T, db *sql.DB, table string) map[string]bool {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT column_name, is_nullable = 'YES' FROM information_schema.columns
		WHERE table_schema = 'saga' AND table_name = $1`, table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	out := map[string]bool{}
	for rows.Next() {
		var name string
		var null bool
		if err := rows.Scan(&name, &null); err != nil {
			t.Fatal(err)
		}
		out[name] = null
	}
	if err := rows.Err(); err != nil || len(out) == 0 {
		t.Fatalf("table %s: %d columns, %v", table, len(out), err)
	}
	return out
}

func TestTablesAreThoseOfTheDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t)).SQL()
	for _, tt := range []struct {
		table string
		read  map[string]bool
		// The database's own: derived by it, or of features to come.
		unread []string
	}{
		{"saga_states", sagadb.SagaTable.Nullable(), []string{
			"status", "error_message", "lifecycle", "ended_state", "parent_saga_id", "reverses_saga_id", "restored_at",
		}},
		{"saga_step_logs", sagadb.LogTable.Nullable(), []string{"error_message"}},
	} {
		t.Run(tt.table, func(t *testing.T) {
			stored := nullable(t, db, tt.table)
			for _, column := range tt.unread {
				if _, ok := stored[column]; !ok {
					t.Errorf("the database has no column %s", column)
				}
				delete(stored, column)
			}
			if diff := cmp.Diff(stored, tt.read); diff != "" {
				t.Errorf("columns, and whether they may be NULL (-of the database +of the table):\n%s", diff)
			}
		})
	}
}
