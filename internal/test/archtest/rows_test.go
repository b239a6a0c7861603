package archtest

import (
	"strings"
	"testing"
)

// TestStoresReadRowsInOneWay: EachRow, on which a Table's All is built, closes rows and checks
// their error. A hand-written loop forgets that, and the linter does not see it across
// packages. Results that are not rows of a table, such as counts, are read by sqlx into tagged
// structs (GetContext, SelectContext), which does the same.
func TestStoresReadRowsInOneWay(t *testing.T) {
	stores := 0
	for _, f := range files(t) {
		if f.test || !strings.HasPrefix(f.pkg, "internal/") || !strings.HasSuffix(f.pkg, "db") {
			continue
		}
		stores++
		if strings.Contains(f.text, ".Next()") {
			t.Errorf("%s reads rows by itself: use a Table, postgres.EachRow or sqlx", f.path)
		}
	}
	if stores < 80 {
		t.Errorf("only %d files of stores found: the pattern is wrong", stores)
	}
}
