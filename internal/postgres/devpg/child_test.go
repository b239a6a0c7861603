package devpg

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Some tests need another process that owns a server: this test binary, with a variable in its
// environment.
const (
	childDir = "DEVPG_TEST_CHILD_DIR"
	childBin = "DEVPG_TEST_CHILD_BIN"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		beChild(dir)
		return
	}
	os.Exit(m.Run())
}

// beChild starts the server of dir, executes commands from its standard input, and reports on
// its output, until the input ends.
func beChild(dir string) {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	go func() {
		for range interrupts {
			fmt.Println("interrupted")
		}
	}()
	s, err := Start(context.Background(), Config{Dir: dir, Bin: os.Getenv(childBin), Settings: volatile})
	if err != nil {
		fmt.Println("failed:", err)
		return
	}
	fmt.Println("started")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if err := s.Stop(context.Background()); err != nil {
			fmt.Println("failed:", err)
			return
		}
		fmt.Println("stopped")
	}
}

type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// newChild starts a child in its own process group, as a shell does.
func newChild(t *testing.T, dir, bin string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childDir+"="+dir, childBin+"="+bin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(c.kill)
	return c
}

// expect fails the test unless the child's next line is want.
func (c *child) expect(want string) {
	c.t.Helper()
	if !c.out.Scan() || c.out.Text() != want {
		c.t.Fatalf("child said %q, %v; want %q", c.out.Text(), c.out.Err(), want)
	}
}

func (c *child) stop() {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, "stop"); err != nil {
		c.t.Fatal(err)
	}
	c.expect("stopped")
}

// kill sends SIGKILL. It returns when the child is gone; its server may still run.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// volatile settings avoid slow disk writes in tests.
var volatile = map[string]string{"fsync": "off"}

// openDir returns a directory that every user can access. A t.TempDir, by contrast, has a
// parent that is closed to others.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "devpg-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "db")
}

// start starts the server of dir and stops it when the test ends.
func start(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := Start(t.Context(), Config{Dir: dir, Settings: volatile})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// execute runs statements on the server's own database.
func execute(t *testing.T, s *Server, statements ...string) {
	t.Helper()
	db, err := s.open(Database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, sql := range statements {
		if _, err := db.Exec(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// ask returns the single value of a query.
func ask(t *testing.T, s *Server, query string) string {
	t.Helper()
	db, err := s.open(Database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var answer string
	if err := db.QueryRow(query).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return answer
}

// logOf returns what the server of dir has logged so far.
func logOf(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(logPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}
