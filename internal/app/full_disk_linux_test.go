package app_test

import (
	"errors"
	"io"
	"net/http"
	"os"
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

	filler, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(filler, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk does not fill up: %v", err)
	}
	is(http.StatusServiceUnavailable, "it has run out of disk", "skald_database_writable 0")

	if err := filler.Truncate(0); err != nil {
		t.Fatal(err)
	}
	_ = filler.Close()
	is(http.StatusOK, "ok", "skald_database_writable 1")
	code, doc := call(t, "POST", n.url+"/api/v1/sagas", `{"workflow_name": "w", "steps": [{"name": "a",
		"action": {"http": {"url": "http://127.0.0.1:9"}}, "compensation": "none"}]}`)
	if code != http.StatusCreated {
		t.Errorf("once there is room again: %d %v", code, doc)
	}
}

// smallDisk mounts a file system in memory until the end of the test. Where a process may not do
// that, as in most containers, there is no disk that a test may fill.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	at := t.TempDir()
	for d := at; d != os.TempDir() && d != "/"; d = filepath.Dir(d) { // PostgreSQL has another account
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	switch err := syscall.Mount("tmpfs", at, "tmpfs", 0, "size="+size+",mode=0777"); {
	case errors.Is(err, syscall.EPERM):
		t.Skip("this process may not mount a file system")
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return at
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
