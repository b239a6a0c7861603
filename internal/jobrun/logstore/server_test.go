package logstore_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/skald-saga/skald/internal/jobrun/logstore"
)

const (
	bucket = "logs"
	prefix = "jobs/skald"
)

var keys = logstore.Options{AccessKey: "skald", SecretKey: "not a secret", IOTimeout: 20 * time.Second}

// s3 is a real S3 server (versitygw) for tests, on loopback. It stores objects as
// files, which tests damage.
type s3 struct {
	addr string
	dir  string
	proc *exec.Cmd
}

// gateway is the server's program, pinned in tools/s3/go.mod. It is built the first
// time on a machine, which takes minutes.
var gateway = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "tool", "-n", "-modfile=tools/s3/go.mod", "versitygw")
	cmd.Dir = filepath.Join("..", "..", "..")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	path, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build the S3 server (make object-store): %w\n%s", err, stderr.String())
	}
	return strings.TrimSpace(string(path)), nil
})

var (
	scratch  string // shared by all tests of this process
	sharedMu sync.Mutex
	shared   *s3
)

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "skald-logstore-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if shared != nil {
		shared.kill()
	}
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// sharedS3 is the server of all tests that do not stop or damage it.
func sharedS3(t *testing.T) *s3 {
	t.Helper()
	sharedMu.Lock()
	defer sharedMu.Unlock()
	if shared == nil {
		s := &s3{dir: filepath.Join(scratch, "s3", "data")}
		s.start(t)
		shared = s
	}
	return shared
}

// newS3 is a server for this test only.
func newS3(t *testing.T) *s3 {
	t.Helper()
	s := &s3{dir: filepath.Join(t.TempDir(), "data")}
	s.start(t)
	t.Cleanup(s.kill)
	return s
}

// start starts the server, on its previous address if it had one.
func (s *s3) start(t *testing.T) {
	t.Helper()
	program, err := gateway()
	if err != nil {
		t.Fatal(err)
	}
	meta := filepath.Join(filepath.Dir(s.dir), "meta") // separate, because not every file system has extended attributes
	for _, dir := range []string{s.dir, meta} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 { // another test may be faster at taking the port
		if s.addr == "" || s.proc == nil {
			s.addr = freePort(t)
		}
		if s.try(t, program, meta) {
			break
		}
	}
	if s.proc == nil {
		t.Fatal("no S3 server would start")
	}
	client, err := minio.New(s.addr, &minio.Options{Creds: credentials.NewStaticV4(keys.AccessKey, keys.SecretKey, ""),
		Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.MakeBucket(t.Context(), bucket, minio.MakeBucketOptions{}); err != nil &&
		minio.ToErrorResponse(err).Code != minio.BucketAlreadyOwnedByYou {
		t.Fatalf("make the bucket: %v", err)
	}
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

// try tells whether the server answers. The server ends with this process in any case:
// its shell reads a pipe that only this process holds open.
func (s *s3) try(t *testing.T, program, meta string) bool {
	t.Helper()
	cmd := exec.Command("sh", "-c", `"$@" </dev/null & child=$!; cat >/dev/null; kill -9 $child`, "sh",
		program, "--quiet", "--port", s.addr, "--access", keys.AccessKey, "--secret", keys.SecretKey, "posix",
		"--sidecar", meta, s.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.proc = cmd
	said := make(chan struct{})
	go func() { // it prints its banner just before it listens
		lines := bufio.NewScanner(out)
		if lines.Scan() {
			close(said)
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	select {
	case <-said:
	case <-time.After(time.Minute):
		t.Error("the S3 server says nothing")
	}
	for range 600 {
		if conn, err := net.DialTimeout("tcp", s.addr, time.Second); err == nil {
			_ = conn.Close()
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.kill()
	return false
}

func (s *s3) signal(sig syscall.Signal) { _ = syscall.Kill(-s.proc.Process.Pid, sig) }

// stop sends SIGSTOP to the server, and returns once it no longer answers: the signal
// stops the threads one after another, after kill has returned.
func (s *s3) stop(t *testing.T) {
	t.Helper()
	s.signal(syscall.SIGSTOP)
	for range 3000 {
		if s.stopped(t) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the server runs on after SIGSTOP")
}

// stopped tells whether every thread of the server's process group is stopped.
func (s *s3) stopped(t *testing.T) bool {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	group, threads := strconv.Itoa(s.proc.Process.Pid), 0
	for _, name := range stats {
		stat, _ := os.ReadFile(name)                                // nothing is left of a thread that has ended
		_, rest, _ := strings.Cut(string(stat), ") ")               // the name before it may hold anything
		if f := strings.Fields(rest); len(f) > 2 && f[2] == group { // state, parent, group
			threads++
			if f[0] != "T" {
				return false
			}
		}
	}
	return threads > 1
}

func (s *s3) kill() {
	if s.proc != nil {
		s.signal(syscall.SIGKILL)
		_ = s.proc.Wait()
		s.proc = nil
	}
}

// url is of the store on the server at addr, which may be a proxy's.
func (s *s3) url(addr string) string {
	return "s3://" + bucket + "/" + prefix + "?path_style=true&endpoint=" + url.QueryEscape("http://"+addr)
}
