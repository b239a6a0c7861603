package sagadb_test

import (
	"database/sql"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// field is what a struct or a table says of one column.
type field struct {
	column string
	null   bool
}

// fieldsOf reads the db tags of a struct; "-" is no column. What may be nil may be NULL.
func fieldsOf(of reflect.Type) []field {
	var out []field
	for i := range of.NumField() {
		f := of.Field(i)
		switch tag := f.Tag.Get("db"); {
		case f.Anonymous:
			out = append(out, fieldsOf(f.Type)...)
		case tag != "-":
			out = append(out, field{tag, f.Type.Kind() == reflect.Pointer || f.Type.Kind() == reflect.Slice})
		}
	}
	return out
}

// columnsOf reads the columns of a table.
func columnsOf(t *testing.T, db *sql.DB, table string) []field {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT column_name, is_nullable = 'YES' FROM information_schema.columns
		WHERE table_schema = 'saga' AND table_name = $1 ORDER BY ordinal_position`, table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out []field
	for rows.Next() {
		var f field
		if err := rows.Scan(&f.column, &f.null); err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	if err := rows.Err(); err != nil || len(out) == 0 {
		t.Fatalf("table %s: %d columns, %v", table, len(out), err)
	}
	return out
}

func TestStructsSelectListsAndTablesHaveTheSameColumns(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t)).SQL()
	// A step log has its saga's tenant, which is no part of what a reader of the log is told.
	ofSaga := regexp.MustCompile(`\bl\.tenant_id, `)
	for _, tt := range []struct {
		table    string
		of       reflect.Type
		selected string
		// The table's own: derived by it, or of features to come.
		unread []string
	}{
		{"saga_states", reflect.TypeFor[saga.Saga](), sagadb.SagaColumns, []string{
			"status", "error_message", "lifecycle", "ended_state", "parent_saga_id", "reverses_saga_id", "restored_at",
		}},
		{"saga_step_logs", reflect.TypeFor[saga.StepLog](), ofSaga.ReplaceAllString(sagadb.LogColumns, ""), []string{"error_message", "tenant_id"}},
	} {
		t.Run(tt.table, func(t *testing.T) {
			fields := fieldsOf(tt.of)
			var tagged, selected []string
			for _, f := range fields {
				tagged = append(tagged, f.column)
			}
			for _, m := range regexp.MustCompile(`\b[sl]\.(\w+)`).FindAllStringSubmatch(tt.selected, -1) {
				selected = append(selected, m[1])
			}
			slices.Sort(selected)
			if diff := cmp.Diff(slices.Sorted(slices.Values(tagged)), selected); diff != "" {
				t.Errorf("columns (-of the struct +of the select list):\n%s", diff)
			}
			var read []field
			for _, c := range columnsOf(t, db, tt.table) {
				if !slices.Contains(tt.unread, c.column) {
					read = append(read, c)
				}
			}
			byName := func(a, b field) int { return strings.Compare(a.column, b.column) }
			slices.SortFunc(fields, byName)
			slices.SortFunc(read, byName)
			if diff := cmp.Diff(fields, read, cmp.AllowUnexported(field{})); diff != "" {
				t.Errorf("columns (-of the struct +of the table):\n%s", diff)
			}
		})
	}
}
