package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binDir is the directory in which the binaries under test are built, for all tests of a process.
var binDir string

func TestMain(m *testing.M) {
	if worker := os.Getenv(workerEnv); worker != "" {
		os.Exit(serveAsWorker(worker))
	}
	dir, err := os.MkdirTemp("", "skald-chaos-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binDir = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

var (
	buildPlain      = sync.OnceValues(func() (string, error) { return build("skald") })
	buildFailpoints = sync.OnceValues(func() (string, error) { return build("skald-failpoints", "-tags", "failpoints") })
)

func build(name string, flags ...string) (string, error) {
	path := filepath.Join(binDir, name)
	args := append([]string{"build", "-ldflags=-s", "-o", path}, flags...) // without debugging information
	cmd := exec.Command("go", append(args, "./cmd/skald")...)
	cmd.Dir = filepath.Join("..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build skald: %w\n%s", err, out)
	}
	return path, nil
}

// binary returns the path of the program under test.
func binary(t *testing.T, build func() (string, error)) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// process is a child of this test.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read after done
}

// launch starts cmd. If this test is killed, the kernel kills the child where possible: it does so
// when the thread that started the child ends, so that thread waits for the child.
func launch(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that Ctrl-C reaches only the test
	dieWithParent(cmd.SysProcAttr)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, <-started
}

// signal fails only if the process has already ended.
func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// killed reports whether a process that has ended died of SIGKILL.
func (p *process) killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// environment returns this process's environment without Skald's settings, followed by extra.
func environment(extra ...string) []string {
	var kept []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "SKALD_") {
			kept = append(kept, pair)
		}
	}
	return append(kept, extra...)
}

// nodeLog collects a node's stderr across its restarts and recognizes forbidden lines.
type nodeLog struct {
	mu      sync.Mutex
	file    *os.File
	line    []byte          // incomplete
	reached map[string]bool // failpoints that were passed
	bad     []string        // forbidden lines
}

func openNodeLog(path string) (*nodeLog, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &nodeLog{file: f, reached: map[string]bool{}}, err
}

// Write takes a part of the output, which may end within a line.
func (l *nodeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line = append(l.line, p...)
	for {
		line, rest, whole := bytes.Cut(l.line, []byte{'\n'})
		if !whole {
			break
		}
		l.inspect(string(line))
		l.line = append(l.line[:0:0], rest...)
	}
	return l.file.Write(p)
}

// forbidden lists beginnings of lines, or messages in them, that reveal a defect.
var forbidden = []string{
	"panic:", "fatal error:", "WARNING: DATA RACE", "request handler panicked",
	"sagas are stuck", "an outcome no longer matches its saga",
}

func (l *nodeLog) inspect(line string) {
	if name, ok := strings.CutPrefix(line, "failpoint reached: "); ok {
		l.reached[name] = true
	}
	for _, f := range forbidden {
		if strings.Contains(line, f) {
			l.bad = append(l.bad, line)
		}
	}
}

// newLife drops a line that a kill cut short and marks the restart.
func (l *nodeLog) newLife() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line = nil
	fmt.Fprintf(l.file, "\n--- %s started\n", time.Now().UTC().Format(clockFormat))
}

func (l *nodeLog) passed(failpoint string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reached[failpoint]
}

func (l *nodeLog) complaints() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.bad...)
}

// pause waits for d or until ctx ends, and reports whether d has passed.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
