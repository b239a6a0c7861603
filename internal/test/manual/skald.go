package manual

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// root returns the directory that contains go.mod.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for !exists(filepath.Join(dir, "go.mod")) {
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

var built struct {
	sync.Mutex
	programs map[string]string // maps a package to the path of its program
}

// Skald builds cmd/skald, once per test process, and returns its path.
func Skald(t testing.TB) string { return Program(t, "./cmd/skald") }

// Program builds a command of this module, once per test process, and returns its path. The program
// is in a directory of its own and named after the last element of the package.
func Program(t testing.TB, pkg string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if path := built.programs[pkg]; path != "" {
		return path
	}
	// This isn't a temporary directory of the test, because the next test uses it as well. Clean
	// removes it.
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("skald-manual-%d-%d", os.Getuid(), os.Getpid()), filepath.Base(pkg))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.Base(pkg))
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s", "-o", path, pkg)
	build.Dir = root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if built.programs == nil {
		built.programs = map[string]string{}
	}
	built.programs[pkg] = path
	return path
}

// Clean removes what Program has built. TestMain calls it after the tests.
func Clean() {
	_ = os.RemoveAll(filepath.Join(os.TempDir(), fmt.Sprintf("skald-manual-%d-%d", os.Getuid(), os.Getpid())))
}

// Serve starts `skald serve` on its own database and returns its address as host:port once the
// server is ready. env is added to the server's environment; if it sets SKALD_DATABASE_URL, that
// database is used instead. The server stops when the test ends.
func Serve(t testing.TB, env ...string) string {
	t.Helper()
	addr := testnet.FreeAddress(t)
	given := func(v string) bool { return strings.HasPrefix(v, "SKALD_DATABASE_URL=") }
	if !slices.ContainsFunc(env, given) {
		env = append(env, "SKALD_DATABASE_URL="+testdb.DSN(t))
	}
	ended := Background(t, Skald(t), []string{"serve"}, append(env, "SKALD_LISTEN_ADDR="+addr)...)
	patience.Until(t, "skald serve is ready", func() bool {
		select {
		case <-ended:
			t.Fatal("skald serve ended before it was ready")
		default:
		}
		return ready(t.Context(), http.DefaultClient, "http://"+addr+"/readyz")
	})
	return addr
}

func ready(ctx context.Context, by *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	res, err := by.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// Background starts a program in an empty directory. The program ends with the test, which prints
// the program's output if the test failed. The channel is closed when the program has ended.
func Background(t testing.TB, path string, args []string, env ...string) <-chan struct{} {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = t.TempDir() // so that no configuration file of the working directory is read
	cmd.Env = append(environment(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		hurry := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		<-ended
		hurry.Stop()
		if t.Failed() {
			t.Logf("%s %s said:%s", filepath.Base(path), strings.Join(args, " "), said(log.Name()))
		}
		_ = log.Close()
	})
	return ended
}
