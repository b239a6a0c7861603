package archtest

import (
	"strings"
	"testing"
)

// TestStoresReadRowsInOneWay: EachRow, which a Table's All is built on, closes rows and checks
// their error. A hand-written loop easily forgets this, and the linter doesn't notice it across
// packages. Results other than a table's rows, such as counts, are read by sqlx into tagged structs
// (GetContext, SelectContext), which closes rows and checks errors as well.
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
