package pgtest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the statements in testdata")

// WantStatements compares statements with those in a folder. Hot statements are built from
// lists and tables, so a change of one may change others. Their plans are measured, so that no
// change goes unnoticed. White space does not count: it has no part in a plan.
func WantStatements(t *testing.T, dir string, statements map[string]string) {
	t.Helper()
	for name, got := range statements {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name+".sql")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(folded(string(want)), folded(got)); diff != "" {
				t.Errorf("run with -update if this is meant, and look at its plan (-measured +now):\n%s", diff)
			}
		})
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(statements) {
		t.Errorf("%d files for %d statements", len(files), len(statements))
	}
}

// folded is a statement with single spaces.
func folded(statement string) string { return strings.Join(strings.Fields(statement), " ") }
