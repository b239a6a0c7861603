package app_test

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/test/patience"
)

// startServer starts a private server on the data in dir.
func startServer(t *testing.T, dir string, settings map[string]string) *devpg.Server {
	t.Helper()
	s, err := devpg.Start(t.Context(), devpg.Config{Dir: dir, Exclusive: true, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) }) // it may already be killed
	return s
}

// takeBase copies a running server with pg_basebackup into a new directory, for
// the account that the server runs as.
func takeBase(t *testing.T, from *devpg.Server) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) { // the other account must traverse them
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	pgdata := filepath.Join(dir, "pgdata")
	client(t, "pg_basebackup", "-D", pgdata, "-X", "stream", "-c", "fast", "--no-sync", "-d", from.DSN("postgres"))
	info, err := os.Stat(filepath.Join(from.Dir(), "pgdata"))
	if err != nil {
		t.Fatal(err)
	}
	account := info.Sys().(*syscall.Stat_t)
	err = filepath.WalkDir(pgdata, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, int(account.Uid), int(account.Gid))
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// touch creates one of the files that determine how PostgreSQL starts.
func touch(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "pgdata", name), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition of the server.
func until(t *testing.T, d *sql.DB, condition string) {
	t.Helper()
	patience.Until(t, condition, func() bool {
		var ok bool
		err := d.QueryRowContext(t.Context(), `SELECT coalesce((`+condition+`), false)`).Scan(&ok)
		return err == nil && ok
	})
}

// The primary dies under load and its synchronous standby is promoted, as Patroni does it. The
// node has both addresses.
func TestAFailoverToTheStandbyLosesNoSaga(t *testing.T) {
	t.Parallel()
	primary := startServer(t, t.TempDir(), map[string]string{"fsync": "off"})
	dir := takeBase(t, primary)
	touch(t, dir, "standby.signal")
	standby := startServer(
		t,
		dir,
		map[string]string{"fsync": "off", "primary_conninfo": primary.DSN("") + "&application_name=second"},
	)
	p, s := owner(t, primary.DSN("postgres")), owner(t, standby.DSN("postgres"))
	// Synchronous: acknowledged commits are on both. Otherwise the latest ones may be lost.
	run(t, p, `ALTER SYSTEM SET synchronous_standby_names = 'second'`, `SELECT pg_reload_conf()`)
	until(t, p, `SELECT bool_and(sync_state = 'sync') FROM pg_stat_replication`)

	both := config.Secret(
		fmt.Sprintf(
			"%s host=127.0.0.1,127.0.0.1 port=%d,%d password=%s",
			withoutLogin(t, primary.DSN(devpg.Database)),
			primary.Port(),
			standby.Port(),
			passwordOf(t, primary),
		),
	)
	n := start(t, string(both), "a")
	pair(t, n)
	o := &orders{t: t, url: n.url, ids: map[string]bool{}}
	const all = 300
	o.run(all, map[int]func(){
		150: func() {
			if err := syscall.Kill(primary.PID(), syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			<-primary.Done()
			run(t, s, `SELECT pg_promote()`)
		},
	})
	o.settled(all)
	t.Logf("%d orders accepted, %d asked to try again", o.accepted.Load(), o.again.Load())
	d := owner(t, standby.DSN(devpg.Database))
	until(t, d, `SELECT count(*) = 300 AND count(*) FILTER (WHERE status = 'COMPLETED') = 300 FROM saga.saga_states`)
}
