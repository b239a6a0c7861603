//go:build dialects

package databases

import (
	"bytes"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
)

// SQLite returns the DSN of an empty database.
func SQLite(t testing.TB) (dsn string) {
	t.Helper()
	return "file:" + filepath.Join(t.TempDir(), "participant.db") +
		"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"
}

// MySQL starts a MariaDB server with an empty database and stops it when the test ends. It listens
// on a socket in its directory.
func MySQL(t testing.TB) (dsn string) {
	t.Helper()
	server, err := exec.LookPath("mariadbd")
	if err != nil {
		server = "/usr/sbin/mariadbd" // Debian's path, which is not in every PATH
	}
	install, err := exec.LookPath("mariadb-install-db")
	if err != nil {
		t.Fatal("this test needs a MariaDB: sudo apt-get install mariadb-server")
	}
	dir, err := os.MkdirTemp("", "maria") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	data, socket := filepath.Join(dir, "data"), filepath.Join(dir, "s")
	options := []string{"--no-defaults", "--datadir=" + data}
	if os.Getuid() == 0 {
		options = append(options, "--user=root")
	}
	out, err := exec.CommandContext(t.Context(), install, append(options,
		"--auth-root-authentication-method=normal", "--skip-test-db")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var log bytes.Buffer
	cmd := exec.Command(server, append(options, "--socket="+socket, "--skip-networking", //nolint:noctx // stopped below
		"--pid-file="+filepath.Join(dir, "pid"), "--innodb-flush-log-at-trx-commit=0")...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // its data is no longer needed
		_ = cmd.Wait()
	})
	db, err := sql.Open("mysql", "root@unix("+socket+")/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	patience.Until(t, "MariaDB", func() bool { return db.PingContext(t.Context()) == nil })
	if _, err := db.ExecContext(t.Context(), `CREATE DATABASE participant`); err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
	return "root@unix(" + socket + ")/participant"
}
