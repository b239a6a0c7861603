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
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testnet"
)

const (
	bucket = "logs"
	prefix = "jobs/skald"
)

var keys = logstore.Options{AccessKey: "skald", SecretKey: "not a secret", IOTimeout: 20 * time.Second}

// s3 is a real S3 server (versitygw) for tests, on loopback. It stores objects as files, which the
// tests damage.
type s3 struct {
	addr string
	dir  string
	proc *exec.Cmd
}

// gateway is the server's program, pinned in tools/s3/go.mod. It is built on first use on a
// machine, which takes minutes.
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

// sharedS3 returns the server for all tests that do not stop or damage it.
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

// newS3 returns a server for this test only.
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
	patience.Until(t, "an S3 server starts", func() bool { // another test may take the port first
		if s.addr == "" || s.proc == nil {
			s.addr = testnet.FreeAddress(t)
		}
		return s.try(t, program, meta)
	})
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

// try reports whether the server answers; if it does not, it has stopped. The server ends with this
// process in any case: a helper shell reads a pipe that only this process holds open.
func (s *s3) try(t *testing.T, program, meta string) bool {
	t.Helper()
	cmd := exec.Command("sh", "-c",
		`exec 3<&0; "$@" </dev/null & child=$!; (cat <&3; kill -9 $child) >/dev/null 2>&1 & wait $child`, "sh",
		program, "--quiet", "--port", s.addr, "--access", keys.AccessKey, "--secret", keys.SecretKey, "posix",
		"--sidecar", meta, s.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	err = cmd.Start()
	_ = in.Close()
	if err != nil {
		t.Fatal(err)
	}
	s.proc = cmd
	said, ended := make(chan struct{}), make(chan struct{})
	go func() { // it prints its banner just before it listens
		defer close(ended)
		defer out.Close()
		if lines := bufio.NewScanner(out); lines.Scan() {
			close(said)
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	select {
	case <-said:
	case <-ended:
		s.kill()
		return false
	}
	listens := false
	patience.Until(t, "the S3 server listens, or ends", func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		conn, err := net.DialTimeout("tcp", s.addr, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		listens = err == nil
		return listens
	})
	if !listens {
		s.kill()
	}
	return listens
}

func (s *s3) signal(sig syscall.Signal) { _ = syscall.Kill(-s.proc.Process.Pid, sig) }

// stop sends SIGSTOP to the server and returns once the server no longer answers, because the
// signal stops the threads one after another after kill has returned.
func (s *s3) stop(t *testing.T) {
	t.Helper()
	s.signal(syscall.SIGSTOP)
	patience.Until(t, "the server is stopped by SIGSTOP", func() bool { return s.stopped(t) })
}

// stopped reports whether every thread of the server's process group is stopped.
func (s *s3) stopped(t *testing.T) bool {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	group, threads := strconv.Itoa(s.proc.Process.Pid), 0
	for _, name := range stats {
		stat, _ := os.ReadFile(name)                                // the file is missing if the thread has ended
		_, rest, _ := strings.Cut(string(stat), ") ")               // the name before it may contain any character
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

// url returns the URL of the store on the server at addr, which may be the address of a proxy.
func (s *s3) url(addr string) string {
	return "s3://" + bucket + "/" + prefix + "?path_style=true&endpoint=" + url.QueryEscape("http://"+addr)
}
