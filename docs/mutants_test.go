package docs_test

import (
	"os"
	"slices"
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
				t.Errorf("%s has a mutant and is no row that needs one", no)
			}
			broken[no] = true
		}
	}
	var lack []string
	for _, r := range rows {
		if r.Test != "*planned*" && !broken[r.No] && mutants.Unbroken[r.No] == "" {
			lack = append(lack, r.No)
		}
	}
	if !slices.Equal(lack, mutants.Lacking) {
		t.Errorf("%d of %d rows have no mutant, break what they say in internal/test/mutants: %q\nlisted are %d: %q",
			len(lack), len(rows), lack, len(mutants.Lacking), mutants.Lacking)
	}
}
