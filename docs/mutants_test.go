package docs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/mutants"
)

const root = "../"

func TestEveryRowHasAMutantThatFitsTheCode(t *testing.T) {
	rows, err := mutants.Rows(root)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{}
	for _, r := range rows {
		if tests[r.No] != "" {
			t.Errorf("two rows are numbered %s", r.No)
		}
		tests[r.No] = r.Test
	}
	broken := map[string]bool{}
	for _, m := range mutants.All {
		text, err := os.ReadFile(root + m.File)
		if info, missing := os.Stat(root + m.File); err != nil && (missing != nil || !info.IsDir()) {
			t.Error(err)
		}
		if _, err := m.Break(string(text)); err != nil {
			t.Error(err)
		}
		for no := range strings.SplitSeq(m.Rows, ", ") {
			switch {
			case broken[no]:
				t.Errorf("%s has two mutants", no)
			case tests[no] == "" || mutants.Unbroken[no] != "":
				t.Errorf("%s has a mutant and is not a row that needs one", no)
			}
			broken[no] = true
		}
	}
	for _, r := range rows {
		if r.Test != "*planned*" && !broken[r.No] && mutants.Unbroken[r.No] == "" {
			t.Errorf("row %s has no mutant: break what it says in internal/test/mutants, where %s has to notice it", r.No, r.Test)
		}
	}
}
