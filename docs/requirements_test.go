package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rows is how many requirements each seed's checklist has.
var rows = map[string]int{"S1": 68, "S2": 132, "S4": 35, "D": 55, "J": 43, "A": 17}

func TestEveryRequirementHasItsRowAndEveryNamedTestExists(t *testing.T) {
	page, err := os.ReadFile("requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testFunctions(t)
	proof := map[string]string{}
	row := regexp.MustCompile(`(?m)^\| ((?:S\d|[DJA])-\d+) \|.*\| (\S+) \|$`)
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		if proof[m[1]] != "" {
			t.Errorf("%s has two rows", m[1])
		}
		proof[m[1]] = m[2]
	}
	for seed, n := range rows {
		for i := 1; i <= n; i++ {
			no := fmt.Sprintf("%s-%02d", seed, i)
			switch name := strings.Trim(proof[no], "`"); {
			case name == "":
				t.Errorf("%s has no row", no)
			case name != "*later*" && !tests[name]:
				t.Errorf("%s: there is no test %s", no, name)
			}
		}
	}
	gaps := regexp.MustCompile("(?m)^\\| gap (\\d+) \\|.*\\| `(\\S+)` \\|$").FindAllStringSubmatch(string(page), -1)
	if len(gaps) != 23 {
		t.Errorf("%d gaps of seed 5 have rows, want 23", len(gaps))
	}
	for i, m := range gaps {
		if m[1] != fmt.Sprint(i+1) || !tests[m[2]] {
			t.Errorf("gap %s, row %d: out of order, or there is no test %s", m[1], i+1, m[2])
		}
	}
}

func TestThreatsNameTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testFunctions(t)
	threats := regexp.MustCompile("(?m)^\\| (T\\d+) \\|.*\\| `(\\S+)` \\|$").FindAllStringSubmatch(string(page), -1)
	if len(threats) == 0 {
		t.Error("no threat has a row")
	}
	for _, m := range threats {
		if !tests[m[2]] {
			t.Errorf("%s: there is no test %s", m[1], m[2])
		}
	}
}

// testFunctions returns the tests of the module as package.Name.
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Test") {
				found[strings.TrimSuffix(f.Name.Name, "_test")+"."+fn.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
