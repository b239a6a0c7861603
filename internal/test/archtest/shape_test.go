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

// TestFewPackagesAreUnderInternal keeps short the list that a newcomer reads first (decision 0049).
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

// TestPackagesStaySmall limits the size of each package to what a person can read in a day.
func TestPackagesStaySmall(t *testing.T) {
	count, lines := map[string]int{}, map[string]int{}
	all := rooms(t)
	for _, f := range files(t) {
		if f.test || f.generated || kindOf(all, f.pkg) == "tests" {
			continue
		}
		count[f.pkg]++
		lines[f.pkg] += f.lines
	}
	for pkg, n := range count {
		if n > 45 || lines[pkg] > 6000 {
			t.Errorf("%s has %d files and %d lines; at most 45 and 6,000: split it by subject", pkg, n, lines[pkg])
		}
	}
}

func TestSQLIsNeverPutTogetherFromValues(t *testing.T) {
	stores := ofKind(t, "store")
	for _, f := range files(t) {
		if f.test || !slices.Contains(stores, f.pkg) {
			continue
		}
		for _, line := range strings.Split(f.text, "\n") {
			if strings.Contains(line, "Sprintf") && strings.Contains(line, "'%") || quotesAValue(line, f.syntax) {
				t.Errorf("%s puts a value into SQL: %s", f.path, strings.TrimSpace(line))
			}
		}
	}
}

// quoted matches the start of a quoted value in SQL.
var quoted = regexp.MustCompile("(?:^|[^'])'`\\+(?:string\\()?(\\w+)")

// quotesAValue reports whether a line puts something between SQL quotes other than a constant of
// another package.
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
