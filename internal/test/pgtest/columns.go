package pgtest

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// WantColumns compares the columns that a store reads from a table, and whether the store accepts
// NULL for them, with the columns in the database. unread lists the columns that the store doesn't
// read: derived ones, those of future features, and those read separately.
func WantColumns(t *testing.T, db *sql.DB, table string, read map[string]bool, unread ...string) {
	t.Helper()
	schema, name, _ := strings.Cut(table, ".")
	rows, err := db.QueryContext(t.Context(), `SELECT column_name, is_nullable = 'YES' FROM information_schema.columns
		WHERE table_schema = $1 AND table_name = $2`, schema, name)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	stored := map[string]bool{}
	for rows.Next() {
		var column string
		var null bool
		if err := rows.Scan(&column, &null); err != nil {
			t.Fatal(err)
		}
		stored[column] = null
	}
	if err := rows.Err(); err != nil || len(stored) == 0 {
		t.Fatalf("table %s: %d columns, %v", table, len(stored), err)
	}
	for _, column := range unread {
		if _, ok := stored[column]; !ok {
			t.Errorf("table %s has no column %s", table, column)
		}
		delete(stored, column)
	}
	if diff := cmp.Diff(stored, read); diff != "" {
		t.Errorf("columns of %s and whether they may be NULL (-in the database +read):\n%s", table, diff)
	}
}
