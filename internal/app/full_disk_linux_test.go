package app_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/test/patience"
)

// A full disk leaves PostgreSQL room in the WAL that it has allocated, so that it answers and commits
// as long as no table grows. Nothing can be created then, and readiness and the metric say so.
func TestAFullDataDiskIsNotReady(t *testing.T) {
	t.Parallel()
	if inNamespace(t) {
		return
	}
	disk := smallDisk(t, "192m")
	server := startServer(t, filepath.Join(disk, "pg"), map[string]string{
		"fsync": "off", "shared_buffers": "16MB", "max_wal_size": "32MB", "min_wal_size": "32MB",
	})
	n := start(t, server.DSN(devpg.Database), "full")
	reads := func(path string) (int, string) {
		res, err := http.Get(n.url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	is := func(status int, words, metric string) {
		t.Helper()
		patience.Until(t, words, func() bool {
			code, doc := reads("/readyz")
			return code == status && strings.Contains(doc, words)
		})
		if _, metrics := reads("/metrics"); !strings.Contains(metrics, metric) {
			t.Errorf("the metrics lack %s", metric)
		}
	}
	is(http.StatusOK, "ok", "skald_database_writable 1")

	filler := fill(t, disk)
	is(http.StatusServiceUnavailable, "it has run out of disk", "skald_database_writable 0")

	if err := os.Truncate(filler, 0); err != nil {
		t.Fatal(err)
	}
	is(http.StatusOK, "ok", "skald_database_writable 1")
	code, doc := call(t, "POST", n.url+"/api/v1/sagas", `{"workflow_name": "w", "steps": [{"name": "a",
		"action": {"http": {"url": "http://127.0.0.1:9"}}, "compensation": "none"}]}`)
	if code != http.StatusCreated {
		t.Errorf("once there is room again: %d %v", code, doc)
	}
}

// fill writes a file until the disk is full, and returns its path.
func fill(t *testing.T, disk string) (path string) {
	t.Helper()
	filler, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	if _, err := io.Copy(filler, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk does not fill up: %v", err)
	}
	return filler.Name()
}

// smallDisk mounts a file system in memory until the end of the test.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	at := t.TempDir()
	for d := at; d != os.TempDir() && d != "/"; d = filepath.Dir(d) { // PostgreSQL has another account
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount("tmpfs", at, "tmpfs", 0, "size="+size+",mode=0777"); err != nil {
		t.Fatalf("without a file system that it may fill, this test proves nothing: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return at
}

// inNamespace runs the test once more where it may mount file systems, if it may not do so here: in a user namespace.
// It reports whether it has. Containers that refuse that as well have no disk that a test may fill.
func inNamespace(t *testing.T) bool {
	t.Helper()
	const there = "TEST_IN_NAMESPACE"
	at := t.TempDir()
	if os.Getenv(there) != "" || syscall.Mount("tmpfs", at, "tmpfs", 0, "") == nil {
		_ = syscall.Unmount(at, syscall.MNT_DETACH)
		return false
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), there+"=1")
	const mounting = 21 // CAP_SYS_ADMIN
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{mounting},
	}
	out, err := cmd.CombinedOutput()
	switch {
	case cmd.Process == nil:
		t.Skipf("this process may neither mount a file system nor have a namespace of its own: %v", err)
	case err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Errorf("%v\n%s", err, out)
	}
	return true
}

// zeros is a reader that never ends.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
