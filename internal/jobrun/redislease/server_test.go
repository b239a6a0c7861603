package redislease_test

import (
	"context"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/redislease"
)

// server is a real redis-server of a test, on loopback, without any files.
type server struct {
	addr     string
	conf     string // "": none
	flags    []string
	password string // "": none
	proc     *exec.Cmd
}

func newServer(t *testing.T, flags ...string) *server {
	t.Helper()
	s := &server{flags: flags}
	s.start(t)
	t.Cleanup(s.kill)
	return s
}

// start starts the server, on its previous port if it had one. It ends with this
// process in any case: its shell reads a pipe that only this process holds open.
func (s *server) start(t *testing.T) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatalf("%v: apt-get install redis-server, or make redis", err)
	}
	fixed := s.addr != ""
	for range 20 { // another test may be faster at taking the port
		if !fixed {
			s.addr = freePort(t)
		}
		_, port, _ := net.SplitHostPort(s.addr)
		args := []string{"-c", `"$@" </dev/null & child=$!; cat >/dev/null; kill -9 $child`, "sh", program}
		if s.conf != "" {
			args = append(args, s.conf) // must be first
		}
		args = append(args, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir",
			filepath.Clean(t.TempDir()), "--repl-diskless-sync-delay", "0")
		args = append(args, s.flags...)
		s.proc = exec.Command("sh", args...)
		s.proc.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if _, err := s.proc.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := s.proc.Start(); err != nil {
			t.Fatal(err)
		}
		if until(5*time.Second, func() bool { return reachable(s.addr) }) {
			return
		}
		s.kill()
	}
	t.Fatal("no redis-server would start")
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func reachable(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// until repeats ok until it holds, and tells whether it did in time.
func until(d time.Duration, ok func() bool) bool {
	for end := time.Now().Add(d); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

func (s *server) signal(sig syscall.Signal) { _ = syscall.Kill(-s.proc.Process.Pid, sig) }

func (s *server) kill() {
	if s.proc != nil {
		s.signal(syscall.SIGKILL)
		_ = s.proc.Wait()
		s.proc = nil
	}
}

// do runs a command on the server directly.
func (s *server) do(t *testing.T, command string, args ...any) any {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.addr, Password: s.password, Protocol: 2})
	defer client.Close()
	answer, err := client.Do(t.Context(), append([]any{command}, args...)...).Result()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return answer
}

// world is running hints.
type world struct {
	*redislease.Hints
	*server
	log strings.Builder
	mu  sync.Mutex
	// answered and lost count commands.
	answered, lost int
}

func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *world) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

func (w *world) counts() (answered, lost int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answered, w.lost
}

func newWorld(t *testing.T, s *server, url string) *world {
	t.Helper()
	w := &world{server: s}
	h, err := redislease.New(redislease.Config{URL: url, Prefix: "scheduler", Log: slog.New(slog.NewTextHandler(w, nil)),
		Done: func(commands int, lost bool, _ time.Duration) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if lost {
				w.lost += commands
			} else {
				w.answered += commands
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	w.Hints = h
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { h.Run(ctx); close(ended) }()
	t.Cleanup(func() { stop(); <-ended })
	return w
}

// newHints returns hints on a server of their own.
func newHints(t *testing.T) *world {
	t.Helper()
	s := newServer(t)
	return newWorld(t, s, "redis://"+s.addr)
}

// newRun is a run that a worker holds.
func newRun() jobrun.HeldRun {
	return jobrun.HeldRun{TTL: time.Minute, RunFence: jobrun.RunFence{
		RunID: uuid.New(), Fence: jobrun.Fence{WorkerID: uuid.New(), Attempt: 9, LeaseToken: uuid.New(), LeaderEpoch: 3}}}
}

func (w *world) alive(t *testing.T, runs ...jobrun.RunFence) []bool {
	t.Helper()
	return w.Alive(t.Context(), runs)
}

// settles waits until Alive says want of a run.
func (w *world) settles(t *testing.T, want bool, run jobrun.RunFence) {
	t.Helper()
	if !until(10*time.Second, func() bool { return w.alive(t, run)[0] == want }) {
		t.Errorf("run %s: alive is not %v", run.RunID, want)
	}
}
