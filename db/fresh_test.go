package db_test

import (
	"database/sql"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// rights returns, as text, who may do what with everything that migrations create.
func rights(t *testing.T, pool *sql.DB) []string {
	t.Helper()
	var all []string
	for _, query := range []string{
		`SELECT format('schema %s: %s %s', nspname, grantee::regrole, privilege_type) FROM pg_namespace, aclexplode(nspacl)
		  WHERE nspname IN ('saga', 'dlq', 'jobs', 'skald')`,
		`SELECT format('%s: %s %s', c.oid::regclass, grantee::regrole, privilege_type) FROM pg_class c, aclexplode(relacl)
		  WHERE relnamespace::regnamespace::text IN ('saga', 'dlq', 'jobs', 'skald')`,
		`SELECT format('%s: %s %s', p.oid::regprocedure, grantee::regrole, privilege_type) FROM pg_proc p, aclexplode(proacl)
		  WHERE pronamespace::regnamespace::text IN ('saga', 'dlq', 'jobs')`,
		`SELECT format('%s as its owner: %s', p.oid::regprocedure, prosecdef) FROM pg_proc p WHERE pronamespace::regnamespace::text IN ('saga', 'dlq', 'jobs')`,
		`SELECT format('tables made later in %s: %s %s', defaclnamespace::regnamespace, grantee::regrole, privilege_type) FROM pg_default_acl, aclexplode(defaclacl)`,
		`SELECT format('%s: %s %s, options %s', c.oid::regclass, relrowsecurity, relforcerowsecurity, reloptions) FROM pg_class c
		  WHERE relnamespace::regnamespace::text IN ('saga', 'dlq', 'jobs') AND relkind IN ('r', 'p', 'v')`,
		`SELECT format('policy %s on %s.%s for %s: %s %s, %s, %s', policyname, schemaname, tablename, roles, permissive, cmd, qual, with_check)
		   FROM pg_policies WHERE schemaname IN ('saga', 'dlq', 'jobs')`,
	} {
		found := texts(t, pool, query+` ORDER BY 1`)
		if len(found) == 0 {
			t.Errorf("nothing is found by %s", query)
		}
		all = append(all, found...)
	}
	return all
}

// A new database is secured once instead of after each migration. That leads to the same rights,
// and a database whose migration was interrupted gets them at the next one.
func TestANewDatabaseIsSecuredAsOneThatWasMigratedInParts(t *testing.T) {
	t.Parallel()
	migrated := func(begin func(dsn string) (int, error)) []string {
		t.Helper()
		dsn := testdb.Empty(t)
		if begin != nil {
			if n, err := begin(dsn); err != nil || n == 0 {
				t.Fatalf("%d migrations, %v", n, err)
			}
		}
		if _, err := db.Up(t.Context(), dsn); err != nil {
			t.Fatal(err)
		}
		return rights(t, open(t, dsn))
	}
	want := migrated(func(dsn string) (int, error) { return db.UpBy(t.Context(), dsn, 1) })
	for name, begin := range map[string]func(dsn string) (int, error){
		"at once":                      nil,
		"broken off":                   func(dsn string) (int, error) { return db.BrokenOff(t.Context(), dsn, 60) },
		"broken off before its rights": func(dsn string) (int, error) { return db.BrokenOff(t.Context(), dsn, 0) },
	} {
		if diff := cmp.Diff(want, migrated(begin)); diff != "" {
			t.Errorf("%s (-in parts +%s):\n%s", name, name, diff)
		}
	}
}
