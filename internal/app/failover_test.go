package app_test

import (
	"context"
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

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
