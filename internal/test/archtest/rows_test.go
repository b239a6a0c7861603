package archtest

import (
	"strings"
	"testing"
)

// TestStoresReadRowsInOneWay: EachRow, which a Table's All is made of, closes rows and
// looks at their error, which a loop of one's own forgets and the linter does not see
// across packages. What is no row of a table, such as counts, sqlx reads into tagged
// structs (GetContext, SelectContext), and does the same.
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
