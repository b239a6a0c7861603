package db_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// open opens a pool that is closed at the end of the test.
func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	connector, err := pq.NewConnector(dsn)
	if err != nil {
		t.Fatal(err)
	}
	pool := sql.OpenDB(connector)
	t.Cleanup(func() { pool.Close() })
	return pool
}

func execute(t *testing.T, pool *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := pool.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// ask returns the single value of a query.
func ask[T any](t *testing.T, pool *sql.DB, query string, args ...any) (v T) {
	t.Helper()
	if err := pool.QueryRowContext(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// texts returns the first column of a query's rows.
func texts(t *testing.T, pool *sql.DB, query string, args ...any) []string {
	t.Helper()
	rows, err := pool.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// shape is everything that migrations create, as text.
func shape(t *testing.T, pool *sql.DB) []string {
	t.Helper()
	var all []string
	for _, query := range []string{
		// The order of columns counts: a column that was dropped and added again has a new number.
		`SELECT format('column %s.%s %s %s null=%s default=%s generated=%s', a.attrelid::regclass, a.attname,
		               row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum), format_type(a.atttypid, a.atttypmod),
		               NOT a.attnotnull, pg_get_expr(d.adbin, d.adrelid), a.attgenerated::text || a.attidentity::text)
		   FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		       LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		  WHERE c.relnamespace::regnamespace::text IN ('saga', 'dlq', 'jobs') AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
		    AND a.attnum > 0 AND NOT a.attisdropped`,
		`SELECT format('constraint %s on %s: %s', conname, conrelid::regclass, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace::regnamespace::text IN ('saga', 'dlq', 'jobs')`,
		`SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname IN ('saga', 'dlq', 'jobs')`,
		`SELECT 'trigger ' || pg_get_triggerdef(g.oid) FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid WHERE c.relnamespace::regnamespace::text IN ('saga', 'dlq', 'jobs') AND NOT g.tgisinternal`,
		`SELECT 'function ' || pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace::regnamespace::text IN ('saga', 'dlq', 'jobs')`,
		`SELECT format('view %s: %s', viewname, definition) FROM pg_views WHERE schemaname IN ('saga', 'dlq', 'jobs')`,
		`SELECT format('options of %s: %s', relname, reloptions) FROM pg_class WHERE relnamespace::regnamespace::text IN ('saga', 'dlq', 'jobs') AND relkind = 'r'`,
		`SELECT format('version %s: %s', version, description) FROM saga.saga_schema_version`,
	} {
		all = append(all, texts(t, pool, query+` ORDER BY 1`)...)
	}
	return all
}

// ours counts the objects of Skald in a database, except its own record of migrations.
func ours(t *testing.T, pool *sql.DB) int {
	t.Helper()
	return ask[int](t, pool, `SELECT (SELECT count(*) FROM pg_namespace WHERE nspname IN ('saga', 'dlq', 'jobs'))
		+ (SELECT count(*) FROM pg_class WHERE relnamespace::regnamespace::text IN ('saga', 'dlq', 'jobs')) + (SELECT count(*) FROM pg_proc WHERE pronamespace::regnamespace::text IN ('saga', 'dlq', 'jobs'))`)
}

func TestUpDownUpLeadsToTheSameSchema(t *testing.T) {
	t.Parallel()
	dsn := testdb.Empty(t)
	pool := open(t, dsn)
	execute(t, pool, `CREATE TABLE somebody_elses (id int)`)
	n, err := db.Up(t.Context(), dsn)
	if err != nil || n == 0 {
		t.Fatalf("up: %d migrations, %v", n, err)
	}
	first := shape(t, pool)
	if again, err := db.Up(t.Context(), dsn); err != nil || again != 0 {
		t.Errorf("up again: %d migrations, %v; want none", again, err)
	}
	if down, err := db.Down(t.Context(), dsn, 0); err != nil || down != n {
		t.Fatalf("down: %d migrations, %v; want %d", down, err, n)
	}
	if left := ours(t, pool); left > 0 {
		t.Errorf("down leaves %d things behind", left)
	}
	ask[int](t, pool, `SELECT count(*) FROM somebody_elses`)
	if again, err := db.Up(t.Context(), dsn); err != nil || again != n {
		t.Fatalf("up: %d migrations, %v; want %d", again, err, n)
	}
	if diff := cmp.Diff(first, shape(t, pool)); diff != "" {
		t.Errorf("the schema (-first time +second time):\n%s", diff)
	}
}

// Reverted to any migration, the schema can be migrated up again to the same result. The result of
// the remaining migrations is known from the first pass, so each pass applies only one: applying
// all of them each time would take quadratic time.
func TestEachMigrationCanBeTakenBackAlone(t *testing.T) {
	t.Parallel()
	dsn := testdb.Empty(t)
	pool := open(t, dsn)
	was := [][]string{nil} // the schema after each number of migrations
	up := func() (n int) {
		t.Helper()
		n, err := db.UpBy(t.Context(), dsn, 1)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for up() > 0 {
		was = append(was, shape(t, pool))
	}
	n := len(was) - 1
	at := n // how many are applied
	// Migrations that have been applied anywhere never change. Older ones were each reverted when
	// they were the newest, so here they are reverted together. Without any migration, there is no
	// schema to inspect.
	const newest = 12
	for left := n - 1; left >= n-newest; left-- {
		// The migration applied by the previous pass is reverted again, together with one more.
		if down, err := db.Down(t.Context(), dsn, at-left); err != nil || down != at-left {
			t.Fatalf("down from %d to %d of %d: %d migrations, %v", at, left, n, down, err)
		}
		if versions := ask[int](t, pool, `SELECT count(*) FROM saga.saga_schema_version`); versions != left {
			t.Errorf("after %d of %d migrations the schema says version %d", left, n, versions)
		}
		diff := "not tried"
		for at = left; at < n && diff != ""; {
			at += up()
			diff = cmp.Diff(was[at], shape(t, pool))
		}
		if diff != "" {
			t.Fatalf("after taking %d back and forth (-before +after):\n%s", n-left, diff)
		}
	}
	if down, err := db.Down(t.Context(), dsn, at-1); err != nil || down != at-1 {
		t.Fatalf("down from %d to the first: %d migrations, %v", at, down, err)
	}
	if diff := cmp.Diff(was[1], shape(t, pool)); diff != "" {
		t.Errorf("after taking all but the first back (-before +after):\n%s", diff)
	}
	if again, err := db.Up(t.Context(), dsn); err != nil || again != n-1 {
		t.Fatalf("up from the first: %d migrations, %v", again, err)
	}
	if diff := cmp.Diff(was[n], shape(t, pool)); diff != "" {
		t.Errorf("after taking all but the first back and forth (-before +after):\n%s", diff)
	}
}

func TestNodesThatStartTogetherOnAnEmptyDatabaseAllComeUp(t *testing.T) {
	t.Parallel()
	dsn := testdb.Empty(t)
	var wg sync.WaitGroup
	applied := make([]int, 8)
	for i := range applied {
		wg.Go(func() {
			var err error
			if applied[i], err = db.Up(t.Context(), dsn); err != nil {
				t.Errorf("node %d: %v", i, err)
				return
			}
			if err := db.Check(t.Context(), open(t, dsn)); err != nil {
				t.Errorf("node %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range applied {
		total += n
	}
	if known := len(status(t, open(t, dsn))); total != known {
		t.Errorf("%v migrations were applied, want %d in all", applied, known)
	}
}

func TestMigrateWaitsForItsTurnAsLongAsItsContext(t *testing.T) {
	t.Parallel()
	dsn := testdb.Empty(t)
	holder, err := open(t, dsn).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	if _, err := holder.ExecContext(t.Context(), `SELECT pg_advisory_lock($1)`, 0x736b616c64); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- db.Migrate(ctx, dsn) }()
	for watch := open(t, dsn); ask[int](t, watch, `SELECT count(*) FROM pg_stat_activity, pg_sleep(0.01)
		WHERE datname = current_database() AND query LIKE '%pg_try_advisory_lock%' AND pid <> pg_backend_pid()`) == 0; {
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("migrated while somebody else does")
	}
	if n := ours(t, open(t, dsn)); n > 0 {
		t.Errorf("%d things were made without the lock", n)
	}
}

func TestMigrateDoesNotCiteAPassword(t *testing.T) {
	t.Parallel()
	err := db.Migrate(t.Context(), "postgres://u:secret@h:port/x")
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error = %v; want one without the password", err)
	}
}

func status(t *testing.T, pool *sql.DB) []db.Applied {
	t.Helper()
	s, err := db.Status(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCheckSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Parallel()
	dsn := testdb.Empty(t)
	pool := open(t, dsn)
	wantCheck := func(when string, want ...string) {
		t.Helper()
		err := db.Check(t.Context(), pool)
		if len(want) == 0 && err != nil {
			t.Errorf("%s: %v", when, err)
		}
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v; want %q", when, err, w)
			}
		}
	}
	first := status(t, pool)
	wantCheck("an empty database", "lacks migration "+first[0].ID, "skald migrate up")
	for _, m := range first {
		if !m.At.IsZero() {
			t.Errorf("migration %s was applied at %v to an empty database", m.ID, m.At)
		}
	}
	if err := db.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	wantCheck("a migrated database")
	for _, m := range status(t, pool) {
		if m.At.IsZero() || m.At.Location().String() != "UTC" {
			t.Errorf("migration %s was applied at %v", m.ID, m.At)
		}
	}
	if _, err := db.Down(t.Context(), dsn, 1); err != nil {
		t.Fatal(err)
	}
	last := first[len(first)-1].ID
	wantCheck("an older database", "lacks migration "+last, "skald migrate up")
	if err := db.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	execute(t, pool, `INSERT INTO skald.schema_migrations (id, applied_at) VALUES ('9999_future.sql', now())`)
	wantCheck("a newer database with everything that this binary uses")
	if n, err := db.Up(t.Context(), dsn); n != 0 || err != nil {
		t.Errorf("migrating up a newer database that can be used: %d, %v", n, err)
	}
	execute(t, pool, `UPDATE skald.schema_floor SET version = 9999`)
	wantCheck("a newer database that removed something", "9999_future.sql", "newer release of Skald", "removed")
	if got := status(t, pool); len(got) != len(first)+1 || !strings.Contains(fmt.Sprint(got), "9999_future.sql (unknown to this binary)") {
		t.Errorf("status of a newer database: %v", got)
	}
	_, up := db.Up(t.Context(), dsn)
	_, down := db.Down(t.Context(), dsn, 1)
	for _, err := range []error{up, down} {
		if err == nil || !strings.Contains(err.Error(), "9999_future.sql") || !strings.Contains(err.Error(), "newer release of Skald, and only that release can migrate it") {
			t.Errorf("migrating a newer database: %v", err)
		}
	}
	execute(t, pool, `DROP TABLE skald.schema_floor`)
	wantCheck("a newer database that does not say what it removed", "9999_future.sql", "newer release of Skald")
	execute(t, pool, `UPDATE skald.schema_migrations SET id = '0001_other.sql' WHERE id = '9999_future.sql'`)
	if err := db.Check(t.Context(), pool); err == nil {
		t.Error("a database of another line of development was accepted")
	}
}

func TestHashIsStable(t *testing.T) {
	if a, b := db.Hash(), db.Hash(); a != b || len(a) != 16 {
		t.Errorf("hashes %q and %q; want the same 16 digits", a, b)
	}
}
