package docs_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/lib/pq"

	"github.com/skald-saga/skald/internal/test/testdb"
)

func read(t *testing.T, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: no such file, %v", pattern, err)
	}
	var all strings.Builder
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

// found is what a pattern matches in text, its first group if it has one.
func found(t *testing.T, pattern, text string, atLeast int) []string {
	t.Helper()
	var out []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		out = append(out, m[len(m)-1])
	}
	if len(out) < atLeast {
		t.Fatalf("%s matches %d times, want %d at least: the page has changed its form", pattern, len(out), atLeast)
	}
	return slices.Compact(slices.Sorted(slices.Values(out)))
}

// The operations manual is written by hand; whatever of it a program can check
// is checked here.
func TestTheOperationsManualIsTrue(t *testing.T) {
	manual := read(t, "operations.md")
	settings := read(t, "configuration.md")
	for _, name := range found(t, `SKALD_[A-Z_]+`, manual, 5) {
		if !strings.Contains(settings, "`"+name+"`") {
			t.Errorf("there is no variable %s", name)
		}
	}
	for _, key := range found(t, "`((?:database|vault|engine|server|egress)\\.[a-z_]+)", manual, 8) {
		if !strings.Contains(settings, "`"+key+"`") {
			t.Errorf("there is no setting %s", key)
		}
	}
	metrics := read(t, "../internal/ops/metrics/*.go")
	for _, name := range found(t, `\bskald_(?:sagas?|step|engine|http|loop|database)_[a-z_]+`, manual+read(t, "alerts.md"), 8) {
		if !strings.Contains(metrics, `"`+strings.TrimSuffix(name, "_bucket")+`"`) {
			t.Errorf("there is no metric %s", name)
		}
	}
	tests := testFunctions(t)
	for _, name := range found(t, "`(Test[A-Za-z0-9]+)`", manual, 2) {
		if !tests["app."+name] {
			t.Errorf("there is no test %s", name)
		}
	}
	contract := read(t, "../openapi.yaml")
	for _, path := range found(t, "`(?:GET |POST )?(/(?:metrics|healthz|readyz|api/v1/[a-z]+))", manual, 4) {
		if !strings.Contains(contract, "\n  "+path+":") {
			t.Errorf("there is no operation at %s", path)
		}
	}
	for _, verb := range found(t, "…/([a-z-]+)`", manual, 3) {
		if !strings.Contains(contract, "/{saga_id}/"+verb+":") {
			t.Errorf("sagas have no operation %s", verb)
		}
	}
}

func TestTheOperationsManualsSQLFitsTheSchema(t *testing.T) {
	manual := read(t, "operations.md")
	db, err := sql.Open("postgres", testdb.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `CREATE EXTENSION pg_stat_statements`); err != nil {
		t.Fatalf("PostgreSQL's contrib modules are missing: %v", err)
	}
	var statements []string
	for _, block := range found(t, "(?s)```sql\n(.*?)```", manual, 2) {
		for statement := range strings.SplitSeq(regexp.MustCompile(`--.*`).ReplaceAllString(block, ""), ";") {
			if statement = strings.TrimSpace(statement); statement != "" {
				statements = append(statements, statement)
			}
		}
	}
	for _, s := range statements {
		// Planned, not run: pg_stat_statements answers only where it was preloaded.
		if _, err := db.ExecContext(t.Context(), "EXPLAIN "+s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}
