package redislease_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/redislease"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// server is a real redis-server for a test, on loopback, without any files.
type server struct {
	addr     string
	conf     string // "": none
	cluster  bool
	bus      string // the port for communication between the nodes of a cluster
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

// start starts the server, on its previous port if it had one. If another process takes the port in
// the meantime, the server exits and is started again, on other ports or until its own port is
// free.
func (s *server) start(t *testing.T) {
	t.Helper()
	fixed := s.addr != ""
	patience.Until(t, "a redis-server starts", func() bool {
		if !fixed {
			s.addr = testnet.FreeAddress(t)
		}
		if s.cluster {
			_, s.bus, _ = net.SplitHostPort(testnet.FreeAddress(t))
		}
		return s.launch(t)
	})
}

// launch reports whether the server listens; if it does not, it has exited. The server ends with
// this process in any case: a helper shell reads a pipe that only this process holds open.
func (s *server) launch(t *testing.T) bool {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatalf("%v: apt-get install redis-server, or make redis", err)
	}
	_, port, _ := net.SplitHostPort(s.addr)
	args := []string{"-c", `exec 3<&0; "$@" </dev/null & child=$!; (cat <&3; kill -9 $child) >/dev/null 2>&1 & wait $child`,
		"sh", program}
	if s.conf != "" {
		args = append(args, s.conf) // must be first
	}
	args = append(args, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir",
		filepath.Clean(t.TempDir()), "--repl-diskless-sync-delay", "0")
	if s.cluster {
		args = append(args, "--cluster-enabled", "yes", "--cluster-port", s.bus, "--cluster-node-timeout", "2000")
	}
	s.proc = exec.Command("sh", append(args, s.flags...)...)
	s.proc.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err := s.proc.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.proc.Stdout = in
	err = s.proc.Start()
	_ = in.Close()
	if err != nil {
		t.Fatal(err)
	}
	listens := make(chan bool, 1)
	go func() {
		defer out.Close()
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if line := lines.Text(); strings.Contains(line, "Ready to accept connections") ||
				strings.Contains(line, "Sentinel ID is") {
				listens <- true
				_, _ = io.Copy(io.Discard, out)
				return
			}
		}
		listens <- false
	}()
	if !patience.Receive(t, "the redis-server says that it listens, or exits", listens) {
		s.kill()
		return false
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

// do runs a command directly on the server.
func (s *server) do(t *testing.T, command string, args ...any) any {
	t.Helper()
	conn, err := redis.DialContext(t.Context(), "tcp", s.addr, redis.DialPassword(s.password))
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	defer conn.Close()
	answer, err := conn.Do(command, args...)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return readable(answer)
}

// readable returns an answer with texts in place of bytes.
func readable(answer any) any {
	switch a := answer.(type) {
	case []byte:
		return string(a)
	case []any:
		for i := range a {
			a[i] = readable(a[i])
		}
	}
	return answer
}

// world contains running hints.
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

// patient is the timeout of hints whose server either answers or no longer exists. However busy the
// machine is, no answer counts as lost because it came late.
const patient = time.Minute

// newWorld returns hints that use the servers of a URL.
func newWorld(t *testing.T, s *server, url string) *world {
	t.Helper()
	return newWorldWithin(t, s, url, patient)
}

func newWorldWithin(t *testing.T, s *server, url string, timeout time.Duration) *world {
	t.Helper()
	w := &world{server: s}
	h, err := redislease.New(redislease.Config{URL: url, Prefix: "scheduler", Timeout: timeout,
		Log: slog.New(slog.NewTextHandler(w, nil)),
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

// newHints returns hints with a server of their own.
func newHints(t *testing.T) *world {
	t.Helper()
	s := newServer(t)
	return newWorld(t, s, "redis://"+s.addr)
}

// newRun returns a run that a worker holds.
func newRun() jobrun.HeldRun {
	return jobrun.HeldRun{TTL: time.Minute, RunFence: jobrun.RunFence{
		RunID: uuid.New(), Fence: jobrun.Fence{WorkerID: uuid.New(), Attempt: 9, LeaseToken: uuid.New(), LeaderEpoch: 3}}}
}

func (w *world) alive(t *testing.T, runs ...jobrun.RunFence) []bool {
	t.Helper()
	return w.Alive(t.Context(), runs)
}

// settles waits until Alive returns want for a run.
func (w *world) settles(t *testing.T, want bool, run jobrun.RunFence) {
	t.Helper()
	what := fmt.Sprintf("alive is %v of run %s", want, run.RunID)
	patience.Until(t, what, func() bool { return w.alive(t, run)[0] == want })
}

// heals holds a run repeatedly and waits until it is alive.
func (w *world) heals(t *testing.T, run jobrun.HeldRun) {
	t.Helper()
	patience.Until(t, "Redis is used again", func() bool { w.Hold(run); return w.alive(t, run.RunFence)[0] })
}

// says waits until the log contains a text.
func (w *world) says(t *testing.T, text string) {
	t.Helper()
	patience.Until(t, "the log says "+text, func() bool { return strings.Contains(w.said(), text) })
}
