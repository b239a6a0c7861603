package archtest

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFewPackagesAreUnderInternal keeps the list that a newcomer reads first short (decision
// 0049).
func TestFewPackagesAreUnderInternal(t *testing.T) {
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > 30 {
		t.Errorf("%d names directly under internal/; at most 30", len(entries))
	}
}

func TestFilesStayShort(t *testing.T) {
	for _, f := range files(t) {
		if f.lines > 400 && !f.generated {
			t.Errorf("%s has %d lines; at most 400", f.path, f.lines)
		}
	}
}

// isStore reports whether a package contains SQL: the kit, and the store of each subject.
func isStore(pkg string) bool {
	return pkg == "internal/postgres" ||
		strings.HasPrefix(pkg, "internal/") && strings.HasSuffix(pkg, "db") && pkg != "internal/test/testdb"
}

func TestRulesKnowNoStore(t *testing.T) {
	for _, f := range files(t) {
		if f.test || !slices.Contains(rules, f.pkg) {
			continue
		}
		for _, imp := range f.imports {
			if to, own := strings.CutPrefix(imp, module); own && isStore(to) {
				t.Errorf("%s imports %s: stores know rules, never the other way", f.path, to)
			}
		}
	}
}

// isEdge reports whether a package serves HTTP: the kit, the edge of each subject, and the
// package that combines them.
func isEdge(pkg string) bool {
	return pkg == "internal/httpkit" || strings.HasPrefix(pkg, "internal/") && strings.HasSuffix(pkg, "api")
}

// TestEdgesPointOneWay: the package that combines the API imports the subjects' edges, these
// import the kit, and nothing imports backwards. They meet stores only in app.
func TestEdgesPointOneWay(t *testing.T) {
	for _, f := range files(t) {
		if f.test || !isEdge(f.pkg) {
			continue
		}
		for _, imp := range f.imports {
			to, own := strings.CutPrefix(imp, module)
			switch {
			case !own:
			case isStore(to):
				t.Errorf("%s imports %s: edges know the contracts of stores, not stores", f.path, to)
			case to == "internal/httpapi", f.pkg == "internal/httpkit" && isEdge(to):
				t.Errorf("%s imports %s: that arrow leads back", f.path, to)
			}
		}
	}
}

// TestStoresAndEdgesStaySmall limits each to what a person can read in a day.
func TestStoresAndEdgesStaySmall(t *testing.T) {
	count, lines := map[string]int{}, map[string]int{}
	stores, edges := 0, 0
	for _, f := range files(t) {
		if f.test || !isStore(f.pkg) && !isEdge(f.pkg) {
			continue
		}
		if count[f.pkg]++; count[f.pkg] == 1 && isStore(f.pkg) {
			stores++
		} else if count[f.pkg] == 1 {
			edges++
		}
		lines[f.pkg] += f.lines
	}
	for pkg, n := range count {
		if n > 45 || lines[pkg] > 6000 {
			t.Errorf("%s has %d files and %d lines; at most 45 and 6,000: split it by subject", pkg, n, lines[pkg])
		}
	}
	if stores < 9 || edges < 9 {
		t.Errorf("only %d stores and %d edges found: the rule is wrong", stores, edges)
	}
}

func TestSQLIsNeverPutTogetherFromValues(t *testing.T) {
	for _, f := range files(t) {
		if f.test || !isStore(f.pkg) {
			continue
		}
		for _, line := range strings.Split(f.text, "\n") {
			if strings.Contains(line, "Sprintf") && strings.Contains(line, "'%") || quotesAValue(line, f.syntax) {
				t.Errorf("%s puts a value into SQL: %s", f.path, strings.TrimSpace(line))
			}
		}
	}
}

// quoted matches the start of a quoted text in SQL.
var quoted = regexp.MustCompile("(?:^|[^'])'`\\+(?:string\\()?(\\w+)")

// quotesAValue reports whether a line puts something between quotes that is not a
// constant of another package.
func quotesAValue(line string, file *ast.File) bool {
	for _, m := range quoted.FindAllStringSubmatch(line, -1) {
		if !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
			return path.Base(strings.Trim(i.Path.Value, "\"")) == m[1]
		}) {
			return true
		}
	}
	return false
}
