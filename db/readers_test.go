package db_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skald-saga/skald/db"
)

// readerOf maps a schema to the role that can read only that schema.
var readerOf = map[string]string{"dlq": db.LettersRole, "jobs": db.JobsRole}

// A reader of one schema sees the rows of all tenants there, and nothing in the other schemas.
func TestAReaderOfOneSchemaSeesNoOther(t *testing.T) {
	t.Parallel()
	dsn, _ := seeded(t)
	pool := open(t, dsn)
	for schema := range readerOf {
		execute(t, pool, `CREATE TABLE `+schema+`.later (n int)`)
		execute(t, pool, `CREATE TABLE `+schema+`.later_secrets (n int)`)
		execute(t, pool, `CREATE TABLE `+schema+`.later_of_tenants (tenant_id uuid)`)
	}
	later := map[string]bool{}
	for table := range tables(t, pool) {
		later[table] = strings.Contains(table, ".later")
	}
	for schema, role := range readerOf {
		for _, other := range []string{"saga", "dlq", "jobs", "skald"} {
			for _, right := range []string{"USAGE", "CREATE"} {
				has := ask[bool](t, pool, `SELECT has_schema_privilege($1, $2, $3)`, role, other, right)
				if want := other == schema && right == "USAGE"; has != want {
					t.Errorf("%s has %s on the schema %s: %v", role, right, other, has)
				}
			}
		}
	}
	for _, when := range []string{"before", "after"} { // the next `skald migrate up`
		for schema, role := range readerOf {
			conn := as(t, dsn, role)
			for table, isLater := range later {
				var n int
				err := conn.QueryRowContext(t.Context(), `SELECT count(*) FROM `+table).Scan(&n)
				switch {
				case !strings.HasPrefix(table, schema+".") || when == "after" && secret(table):
					if !denied(err) {
						t.Errorf("%s reads %s %s it is secured: %v, want it denied", role, table, when, err)
					}
				case err != nil:
					t.Errorf("%s reads %s %s it is secured: %v", role, table, when, err)
				case !isLater && n == 0 && ask[int](t, pool, `SELECT count(*) FROM `+table) > 0:
					t.Errorf("%s sees no row of %s", role, table)
				}
				if when == "before" || isLater {
					continue
				}
				for _, statement := range []string{"INSERT INTO %s DEFAULT VALUES", "DELETE FROM %s", "TRUNCATE %s"} {
					if _, err := conn.ExecContext(t.Context(), fmt.Sprintf(statement, table)); !denied(err) {
						t.Errorf("%s: "+statement+": %v, want it denied", role, table, err)
					}
				}
			}
			for _, view := range texts(t, pool, `SELECT schemaname || '.' || viewname FROM pg_views WHERE schemaname = $1 AND viewname <> 'invariants'`, schema) {
				if _, err := conn.ExecContext(t.Context(), `SELECT * FROM `+view); err != nil {
					t.Errorf("%s reads the view %s: %v", role, view, err)
				}
			}
		}
		if _, err := db.Up(t.Context(), dsn); err != nil {
			t.Fatal(err)
		}
	}
}
