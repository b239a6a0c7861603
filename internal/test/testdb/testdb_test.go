package testdb

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/lib/pq"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/postgres/devpg"
)

func TestDSNIsMigratedAndEmptyIsNot(t *testing.T) {
	t.Parallel()
	full, empty := open(t, DSN(t)), open(t, Empty(t))
	if err := db.Check(t.Context(), full); err != nil {
		t.Errorf("the migrated database: %v", err)
	}
	if got := ask[int](t, empty, `SELECT count(*) FROM pg_namespace WHERE nspname IN ('saga', 'skald')`); got != 0 {
		t.Errorf("the empty database has %d of our schemas", got)
	}
}

func TestTestsInParallelDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	for n := range 16 {
		t.Run(fmt.Sprint("test ", n), func(t *testing.T) {
			t.Parallel()
			own := open(t, DSN(t))
			execute(t, own, `CREATE TABLE mine (n int)`) // this fails if the table exists
		})
	}
}

func TestDatabaseIsDroppedWithItsTestEvenWhenInUse(t *testing.T) {
	t.Parallel()
	watcher := open(t, Empty(t))
	var name string
	t.Run("a test that forgets to close", func(t *testing.T) {
		forgotten, err := sql.Open("postgres", DSN(t))
		if err != nil {
			t.Fatal(err)
		}
		name = ask[string](t, forgotten, `SELECT current_database()`)
	})
	if got := ask[int](t, watcher, `SELECT count(*) FROM pg_database WHERE datname = $1`, name); got != 0 {
		t.Errorf("%s is still there", name)
	}
}

func TestTemplateTakesNoConnections(t *testing.T) {
	t.Parallel()
	DSN(t)
	a, err := server(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := open(t, a.dsn(templatePrefix+db.Hash())).Ping(); err == nil {
		t.Error("somebody can connect to the template, which prevents copies")
	}
}

// TestNextProcessFindsServerDirectoryAndTemplate sets TMPDIR for its child processes, so that it
// sees no other test runs.
func TestNextProcessFindsServerDirectoryAndTemplate(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	first, err := child(t, "TMPDIR="+tmp)
	if err != nil {
		t.Fatal(err)
	}
	second, err := child(t, "TMPDIR="+tmp)
	if err != nil {
		t.Fatal(err)
	}
	if first.template != second.template {
		t.Errorf("the template was made twice: %+v and %+v", first, second)
	}
	if second.leftovers != "1" { // only its own; the first process's database is gone
		t.Errorf("the second process sees %s test databases, want 1", second.leftovers)
	}
	dirs, err := filepath.Glob(filepath.Join(tmp, "skald-testdb-*", "*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("two processes in turn left the directories %v, %v; want one", dirs, err)
	}
	// Wait until the second process's server has stopped before removing its directory.
	s, err := devpg.Start(t.Context(), devpg.Config{Dir: dirs[0], Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestProcessesShareAnExternalServer(t *testing.T) {
	t.Parallel()
	s, err := devpg.Start(t.Context(), devpg.Config{Dir: t.TempDir(), Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	keywords := fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=%s dbname=postgres sslmode=disable",
		s.Port(), devpg.User, password)
	reports, errs := make([]report, 2), make(chan error)
	for n, dsn := range []string{s.DSN("postgres"), keywords} {
		go func() {
			var err error
			reports[n], err = child(t, urlEnv+"="+dsn, "TMPDIR=/nonexistent")
			errs <- err
		}()
	}
	for range reports {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if reports[0].port != fmt.Sprint(s.Port()) || reports[0].template != reports[1].template {
		t.Errorf("reports %+v; want port %d and one template", reports, s.Port())
	}
}

func TestMissingPostgreSQLIsAFailure(t *testing.T) {
	t.Parallel()
	_, err := child(t, devpg.BinEnv+"="+t.TempDir(), "TMPDIR="+t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "tests need PostgreSQL") ||
		!strings.Contains(err.Error(), devpg.BinEnv) {
		t.Errorf("without PostgreSQL: %v; want a failure that says so", err)
	}
}

func TestForeignBaseDirectoryIsRefused(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	base, err := baseDir()
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(base) != tmp {
		t.Errorf("the servers are in %s in spite of TMPDIR=%s", base, tmp)
	}
	if err := os.Chmod(base, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := baseDir(); err == nil {
		t.Error("a directory that others can write to was accepted")
	}
}

// report contains what a child process reports about its databases.
type report struct{ port, template, leftovers string }

const childEnv = "TESTDB_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(beChild())
	}
	os.Exit(m.Run())
}

// beChild creates a database, leaves it behind and prints a report.
func beChild() int {
	ctx := context.Background()
	err := func() error {
		name, err := migrated(ctx)
		if err != nil {
			return err
		}
		a, err := server(ctx)
		if err != nil {
			return err
		}
		if err := copyDatabase(ctx, a, fmt.Sprint(testPrefix, os.Getpid()), name); err != nil {
			return err
		}
		return connected(ctx, a, func(conn *sql.Conn) error {
			var r report
			err := conn.QueryRowContext(ctx, `SELECT current_setting('port'),
				(SELECT oid::text FROM pg_database WHERE datname = $1),
				(SELECT count(*)::text FROM pg_database WHERE starts_with(datname, $2))`,
				name, testPrefix).Scan(&r.port, &r.template, &r.leftovers)
			fmt.Println(r.port, r.template, r.leftovers)
			return err
		})
	}()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// child runs this test binary as a child process until it ends, with env added to its environment.
func child(t *testing.T, env ...string) (r report, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(append(os.Environ(), childEnv+"=yes", urlEnv+"="), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return r, fmt.Errorf("%w: %s", err, out)
	}
	_, err = fmt.Sscan(string(out), &r.port, &r.template, &r.leftovers)
	return r, err
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	pool, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

func execute(t *testing.T, pool *sql.DB, statement string) {
	t.Helper()
	if _, err := pool.Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func ask[T any](t *testing.T, pool *sql.DB, query string, args ...any) (answer T) {
	t.Helper()
	if err := pool.QueryRow(query, args...).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return answer
}
