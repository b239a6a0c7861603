package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/mutants"
)

const root = "../"

// rowOf is a row of a page of requirements: its number and its test.
var rowOf = regexp.MustCompile("(?m)^\\| ([^|]+) \\| .* \\| `(\\S+)` \\|$")

func TestEveryMutantBreaksWhatItsRowsRestOn(t *testing.T) {
	proofs := map[string]string{}
	pages, err := filepath.Glob(root + "docs/requirements/*.md")
	if err != nil || len(pages) < 3 {
		t.Fatalf("%v, %v", pages, err)
	}
	for _, page := range append(pages, root+"docs/requirements.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range rowOf.FindAllStringSubmatch(string(text), -1) {
			row := m[1]
			if strings.HasSuffix(page, "one-product.md") {
				row = "one-product " + row
			}
			proofs[row] = m[2]
		}
	}
	seen := map[string]bool{}
	for _, m := range mutants.All {
		text, err := os.ReadFile(root + m.File)
		if err != nil {
			t.Error(err)
		}
		if n := strings.Count(string(text), m.Old); n != 1 || m.Old == m.New {
			t.Errorf("%v: %s has the text %d times:\n%s\nwrite what breaks it today", m.Rows, m.File, n, m.Old)
		}
		for _, row := range m.Rows {
			if seen[row] {
				t.Errorf("%s has two mutants", row)
			}
			if seen[row] = true; proofs[row] != m.Test {
				t.Errorf("%s rests on %q, its mutant is for %s", row, proofs[row], m.Test)
			}
		}
	}
	// The number grows with the table.
	if len(seen) < 104 {
		t.Errorf("%d rows have a mutant, want 104", len(seen))
	}
}
