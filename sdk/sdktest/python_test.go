package sdktest

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPythonWithoutInstalls runs the tests of the Python library that need only Python, such as all
// vectors with the stores in memory and in SQLite. make test-sdk tests PostgreSQL, hypothesis and
// the wheel.
func TestPythonWithoutInstalls(t *testing.T) {
	const version = "import sqlite3, sys; assert sys.version_info >= (3, 10), sys.version"
	if out, err := exec.CommandContext(t.Context(), "python3", "-c", version).CombinedOutput(); err != nil {
		t.Fatalf("this test needs Python 3.10 or newer with sqlite3 (make programs installs Debian's): %v\n%s", err, out)
	}
	for _, read := range []string{"../python", "../conformance", "../../docs/participants.md"} {
		reads(t, read)
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-m", "unittest", "discover", "-t", ".", "-s", "tests")
	cmd.Dir = filepath.Join("..", "python")
	cmd.Env = append(os.Environ(), "PYTHONPATH=src", "PYTHONDONTWRITEBYTECODE=1", "DATABASE_URL=", "SEQUENCES=300")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// reads opens files that another program reads, so that the cached test result depends on them.
func reads(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Each package contains the licence of the repository.
func TestPackagesContainTheLicense(t *testing.T) {
	for _, name := range []string{"LICENSE", "NOTICE"} {
		want, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, language := range []string{"python", "typescript"} {
			if got, err := os.ReadFile(filepath.Join("..", language, name)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("sdk/%s/%s is not that of the repository: %v", language, name, err)
			}
		}
	}
}
