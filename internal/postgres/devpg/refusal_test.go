package devpg

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDataOfAnotherVersionIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Start(t.Context(), Config{Dir: dir, Settings: volatile})
	if err != nil {
		t.Fatal(err)
	}
	execute(t, s, `CREATE TABLE kept (word text)`, `INSERT INTO kept VALUES ('saga')`)
	stop(t, s)
	versionFile := filepath.Join(dir, "pgdata", "PG_VERSION")
	version, err := os.ReadFile(versionFile)
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, versionFile, "9\n")

	before := snapshot(t, dir)
	_, err = Start(t.Context(), Config{Dir: dir})
	if !errors.Is(err, ErrVersionMismatch) || !strings.Contains(err.Error(), "version 9") ||
		!strings.Contains(err.Error(), dir) {
		t.Errorf("Start = %v, want ErrVersionMismatch with version and directory", err)
	}
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Errorf("the refused start changed files (-before +after):\n%s", diff)
	}

	rewrite(t, versionFile, string(version))
	if got := ask(t, start(t, dir), `SELECT word FROM kept`); got != "saga" {
		t.Errorf("the table holds %q, want %q", got, "saga")
	}
}

func TestDirectoryThatIsNoDataIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pgdata"), 0o700); err != nil {
		t.Fatal(err)
	}
	rewrite(t, filepath.Join(dir, "pgdata", "novel.txt"), "Call me Ishmael.")
	before := snapshot(t, filepath.Join(dir, "pgdata"))
	_, err := Start(t.Context(), Config{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "not a PostgreSQL data directory") {
		t.Errorf("Start = %v, want a refusal", err)
	}
	if diff := cmp.Diff(before, snapshot(t, filepath.Join(dir, "pgdata"))); diff != "" {
		t.Errorf("the refused start changed files (-before +after):\n%s", diff)
	}
}

func rewrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// snapshot returns the content of every file below dir.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
