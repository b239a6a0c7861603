package devpg

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/skald-saga/skald/internal/test/testprogram"
)

func TestOwnersDeathStopsTheServerCleanly(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{
		"of a server that root gave to another user": openDir(t),
		"of a server that runs as ourselves":         t.TempDir(),
	} {
		t.Run(name, func(t *testing.T) { ownersDeath(t, dir) })
	}
}

func ownersDeath(t *testing.T, dir string) {
	owner := newChild(t, dir, "")
	owner.expect("started")
	attached := start(t, dir)
	execute(t, attached, `CREATE TABLE kept (word text)`, `INSERT INTO kept VALUES ('saga')`)

	ended := sleepOn(t, attached)
	owner.kill()
	if err := <-ended; err == nil { // it can only end with the server
		t.Error("the attached one's query outlived the owner")
	}
	if log := logOf(t, dir); strings.Count(log, "received fast shutdown request") != 1 {
		t.Errorf("want one shutdown request, from the kernel; the log says:\n%s", log)
	}

	next := start(t, dir) // waits for the previous server to end
	if next.Attached() || next.PID() == attached.PID() {
		t.Fatalf("the next start attached to process %d, whose owner is dead", next.PID())
	}
	if got := ask(t, next, `SELECT word FROM kept`); got != "saga" {
		t.Errorf("the table holds %q, want %q", got, "saga")
	}
	if log := logOf(t, dir); strings.Contains(log, "not properly shut down") {
		t.Errorf("the server did not shut down cleanly:\n%s", log)
	}
}

func TestInterruptAtTheTerminalSparesTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner := newChild(t, dir, "")
	owner.expect("started")
	attached := start(t, dir)

	if err := syscall.Kill(-owner.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	owner.expect("interrupted")
	if got := ask(t, attached, `SELECT 'still here'`); got != "still here" {
		t.Errorf("after the interrupt the server answers %q", got)
	}
	owner.stop()
	if log := logOf(t, dir); strings.Count(log, "received fast shutdown request") != 1 {
		t.Errorf("want one shutdown request, from Stop; the log says:\n%s", log)
	}
}

func TestInterruptedInitdbIsNotTakenForData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// This initdb creates half of a data directory, reports it, and never ends.
	bin, said := t.TempDir(), filepath.Join(t.TempDir(), "said")
	if err := syscall.Mkfifo(said, 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := FindBinaries(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(found, "postgres"), filepath.Join(bin, "postgres")); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nmkdir -p \"$2\" && echo 1 > \"$2\"/PG_VERSION && echo half > %s && exec sleep 3600\n", said)
	testprogram.Write(t, bin, "initdb", []byte(script), 0o755)

	owner := newChild(t, dir, bin)
	if _, err := os.ReadFile(said); err != nil { // blocks until it is written
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, halfMade, "pgdata", "PG_VERSION")); len(left) != 1 {
		t.Fatalf("the test's initdb did not work as intended: %v", left)
	}
	owner.kill()

	s := start(t, dir)
	if got := ask(t, s, `SELECT current_database()`); got != Database {
		t.Errorf("current_database() = %q, want %q", got, Database)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, halfMade)); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestStalePidFileDoesNotPreventAStart(t *testing.T) {
	t.Parallel()
	// A program of the same user that now has the pid of the previous server. PostgreSQL would
	// trust the file.
	other := exec.Command("cat")
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	s, err := Start(t.Context(), Config{Dir: dir, Settings: volatile})
	if err != nil {
		t.Fatal(err)
	}
	pgdata := filepath.Join(dir, "pgdata")
	genuine, err := os.ReadFile(pidFilePath(pgdata))
	if err != nil {
		t.Fatal(err)
	}
	stop(t, s)

	for _, tt := range []struct{ name, content string }{
		{"of a process that is gone", withPid(genuine, gone.Process.Pid)},
		{"of a process that is another program now", withPid(genuine, other.Process.Pid)},
		{"that is empty", ""},
		{"that is garbled", "\x00\x00\x00"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(pidFilePath(pgdata), []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if s := start(t, dir); s.Attached() {
				t.Error("attached to a server that does not exist")
			}
		})
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other program was harmed: %v", err)
	}
}

func TestServerKilledUnderItsChildrenIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Start(t.Context(), Config{Dir: dir, Settings: volatile})
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := strconv.Atoi(ask(t, s, `SELECT pid::text FROM pg_stat_activity WHERE backend_type = 'checkpointer'`))
	if err != nil {
		t.Fatal(err)
	}
	// A child that does not notice the end of its server, because it is stopped.
	for _, kill := range []struct {
		pid int
		sig syscall.Signal
	}{{orphan, syscall.SIGSTOP}, {s.PID(), syscall.SIGKILL}} {
		if err := syscall.Kill(kill.pid, kill.sig); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = syscall.Kill(orphan, syscall.SIGCONT) })
	<-s.Done() // so the directory can be used again

	started := make(chan *Server, 1)
	go func() {
		next, err := Start(t.Context(), Config{Dir: dir, Settings: volatile})
		if err != nil {
			t.Error(err)
		}
		started <- next
	}()
	for !strings.Contains(logOf(t, dir), "pre-existing shared memory block") {
		select {
		case <-started:
			t.Fatal("the start did not wait for the former server's children")
		default:
			runtime.Gosched()
		}
	}
	if err := syscall.Kill(orphan, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if next := <-started; next != nil {
		stop(t, next)
	}
	if err := s.Stop(t.Context()); err == nil {
		t.Error("Stop does not tell that the server had been killed")
	}
}

// sleepOn starts a query that would last forever, and returns the error with which it ends.
func sleepOn(t *testing.T, s *Server) <-chan error {
	t.Helper()
	db, err := s.open(Database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := conn.ExecContext(t.Context(), `SELECT pg_sleep('infinity'::float)`)
		ended <- err
	}()
	return ended
}

// withPid returns a postmaster.pid with another process id.
func withPid(content []byte, pid int) string {
	_, rest, _ := strings.Cut(string(content), "\n")
	return fmt.Sprintf("%d\n%s", pid, rest)
}
