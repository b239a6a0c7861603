package devpg

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/lib/pq"
)

func TestFirstStartMakesADatabaseOnlyWeCanReach(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	s := start(t, dir)

	db, err := sql.Open("postgres", s.DSN(Database)) // the DSN as users use it
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var owner, encoding string
	err = db.QueryRow(`SELECT pg_get_userbyid(datdba), pg_encoding_to_char(encoding)
		FROM pg_database WHERE datname = current_database()`).Scan(&owner, &encoding)
	if err != nil || owner != User || encoding != "UTF8" {
		t.Errorf("the database belongs to %q in %q, %v; want %q in UTF8", owner, encoding, err, User)
	}
	for setting, want := range map[string]string{
		"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "password_encryption": "scram-sha-256",
		"fsync": "off",
	} {
		if got := ask(t, s, "SELECT current_setting('"+setting+"')"); got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
	if other, err := sql.Open("postgres", strings.Replace(s.DSN(Database), s.password, "guess", 1)); err != nil {
		t.Error(err)
	} else if err := other.Ping(); err == nil {
		t.Error("a wrong password was let in")
	}
	for name, want := range map[string]fs.FileMode{
		"postgres.log": 0o600, "postgres.lock": 0o600, "pgdata": 0o700, "pgdata/" + passwordFile: 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", name, info.Mode().Perm(), err, want)
		}
	}
}

func TestRestartKeepsData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Start(t.Context(), Config{Dir: dir}) // durable, as users run it
	if err != nil {
		t.Fatal(err)
	}
	execute(t, s, `CREATE TABLE kept (word text)`, `INSERT INTO kept VALUES ('saga')`)
	stop(t, s)
	stop(t, s)
	select {
	case <-s.Done():
	default:
		t.Error("the server is stopped and not done")
	}

	if got := ask(t, start(t, dir), `SELECT word FROM kept`); got != "saga" {
		t.Errorf("after the restart the table holds %q, want %q", got, "saga")
	}
	if log := logOf(t, dir); strings.Contains(log, "not properly shut down") {
		t.Errorf("the first server was not stopped cleanly:\n%s", log)
	}
}

func TestSecondStartAttaches(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	owner := newChild(t, dir, "")
	owner.expect("started")

	second := start(t, link)
	if !second.Attached() || second.Done() != nil {
		t.Fatalf("the second start owns the server")
	}
	execute(t, second, `CREATE TABLE shared (word text)`)
	stop(t, second)
	if got := ask(t, second, `SELECT to_regclass('shared')`); got != "shared" {
		t.Errorf("to_regclass = %q after the attached one stopped, want %q", got, "shared")
	}
	if _, err := Start(t.Context(), Config{Dir: dir, Exclusive: true}); !errors.Is(err, ErrInUse) {
		t.Errorf("an exclusive start gave %v, want ErrInUse", err)
	}

	owner.stop()
	third := start(t, dir)
	if third.Attached() || third.PID() == second.PID() {
		t.Errorf("after the owner stopped, a start attached to process %d", third.PID())
	}
}

func TestManyStartsTogetherShareOneServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const starts = 8
	servers, errs := make(chan *Server, starts), make(chan error, starts)
	for range starts {
		go func() {
			s, err := Start(t.Context(), Config{Dir: dir, Settings: volatile})
			servers <- s
			errs <- err
		}()
	}
	owners, pids := 0, map[int]bool{}
	for range starts {
		s, err := <-servers, <-errs
		if err != nil {
			t.Error(err)
			continue
		}
		defer stop(t, s)
		if !s.Attached() {
			owners++
		}
		pids[s.PID()] = true
	}
	if owners != 1 || len(pids) != 1 {
		t.Errorf("%d starts made %d owners and %d servers, want one of each", starts, owners, len(pids))
	}
}

func TestStartThatIsCancelledLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Config{Dir: dir, Settings: volatile}); !errors.Is(err, context.Canceled) {
		t.Fatalf("Start = %v, want context.Canceled", err)
	}
	for _, pattern := range []string{"pgdata", halfMade} {
		if left, _ := filepath.Glob(filepath.Join(dir, pattern)); left != nil {
			t.Errorf("left behind: %v", left)
		}
	}
	if s := start(t, dir); s.Attached() {
		t.Error("the cancelled start still holds the directory")
	}
}

func TestStopWithoutTimeLosesNothingCommitted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Start(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	execute(t, s, `CREATE TABLE kept (word text)`, `INSERT INTO kept VALUES ('saga')`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Stop = %v, want context.Canceled", err)
	}
	if got := ask(t, start(t, dir), `SELECT word FROM kept`); got != "saga" {
		t.Errorf("after the hard stop the table holds %q, want %q", got, "saga")
	}
}

func TestServerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := Start(t.Context(), Config{Dir: dir, Settings: map[string]string{"fsync": "off", "shared_buffers": "none"}})
	if err == nil || !strings.Contains(err.Error(), "shared_buffers") || !strings.Contains(err.Error(), dir) {
		t.Errorf("Start = %v, want an error with the directory and the server's own words", err)
	}
	start(t, dir) // the data is intact
}
