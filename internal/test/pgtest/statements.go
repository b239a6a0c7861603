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

// WantStatements compares statements with the ones stored in a directory. Hot statements are built
// from lists and tables, so changing one may change others. The plans of the stored statements have
// been measured; this check ensures that no change goes unnoticed. White space is ignored because
// it doesn't affect the plan.
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
				t.Errorf("if this change is intended, run with -update and check the plan (-measured +now):\n%s", diff)
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

// folded returns a statement with runs of white space replaced by single spaces.
func folded(statement string) string { return strings.Join(strings.Fields(statement), " ") }
