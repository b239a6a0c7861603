package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/skald-saga/skald/"

// arrows is the table: which packages of the module a package may import. A
// package that is not in it is an error, so adding one is a visible decision.
var arrows = map[string][]string{
	// rules
	"internal/fault":      {},
	"internal/retry":      {},
	"internal/strictjson": {},
	"internal/workflow":   {"internal/fault", "internal/retry", "internal/strictjson"},
	"internal/saga":       {"internal/fault", "internal/retry", "internal/workflow"},
	// stores
	"db":                {},
	"internal/memstore": {"internal/fault", "internal/saga", "internal/strictjson", "internal/workflow"},
	"internal/postgres": {"internal/fault", "internal/saga", "internal/strictjson", "internal/workflow"},
	// loops
	"internal/failpoint":   {},
	"internal/groupcommit": {},
	"internal/engine":      {"internal/failpoint", "internal/fault", "internal/retry", "internal/saga", "internal/workflow"},
	"internal/janitor":     {"internal/saga"},
	"internal/participant": {"internal/egress", "internal/retry", "internal/saga", "internal/strictjson"},
	// edges
	"api":              {},
	"api/client":       {},
	"internal/config":  {},
	"internal/devpg":   {},
	"internal/egress":  {},
	"internal/httpapi": {"api", "internal/fault", "internal/saga", "internal/strictjson", "internal/workflow"},
	"internal/ops":     {"internal/saga"},
	"internal/app": {"db", "internal/config", "internal/devpg", "internal/egress", "internal/engine", "internal/failpoint", "internal/groupcommit",
		"internal/httpapi", "internal/janitor", "internal/ops", "internal/participant", "internal/postgres", "internal/saga", "internal/workflow"},
	"internal/demo": {"api/client", "examples/order/ledger", "examples/order/shop", "internal/app", "internal/config", "internal/httpapi"},
	"cmd/skald": {"db", "internal/app", "internal/config", "internal/demo", "internal/failpoint", "internal/fault", "internal/httpapi",
		"internal/workflow"},
	// measuring and examples
	"cmd/skald-bench":       {"internal/bench", "internal/devpg"},
	"internal/bench":        {},
	"examples/order":        {"examples/order/shop"},
	"examples/order/ledger": {},
	"examples/order/shop":   {"examples/order/ledger"},
	// test support
	"docs":               {},
	"internal/archtest":  {},
	"internal/chaos":     {},
	"internal/storetest": {"internal/fault", "internal/retry", "internal/saga", "internal/strictjson", "internal/workflow"},
	"internal/testdb":    {"db", "internal/devpg"},
}

// support may be imported by tests only.
var support = []string{"internal/storetest", "internal/testdb", "internal/memstore", "internal/archtest", "internal/chaos", "internal/bench"}

// drivers may be imported by these packages only.
var drivers = map[string][]string{
	"github.com/jmoiron/sqlx":        {"internal/postgres"},
	"github.com/lib/pq":              {"internal/postgres", "db", "internal/devpg", "internal/testdb", "internal/bench"},
	"github.com/prometheus/":         {"internal/ops"},
	"github.com/knadh/koanf":         {"internal/config"},
	"github.com/getkin/kin-openapi":  {"internal/httpapi", "api", "api/client"},
	"github.com/go-chi/chi/v5":       {"internal/httpapi", "api", "api/client"},
	"github.com/oapi-codegen/":       {"internal/httpapi", "api", "api/client"},
	"github.com/rubenv/sql-migrate":  {"db"},
	"github.com/alecthomas/kong":     {"cmd/skald"},
	"github.com/go-playground/":      {"internal/config"},
	"go.yaml.in/yaml/v3":             {"internal/workflow", "internal/config"},
	"golang.org/x/net/http/httpguts": {"internal/workflow", "internal/participant"},
}

// rules must decide without effects: they may not import these.
var (
	rules  = []string{"internal/fault", "internal/retry", "internal/strictjson", "internal/workflow", "internal/saga"}
	impure = []string{"os", "io/fs", "net", "net/http", "sync", "sync/atomic", "log", "log/slog", "database/sql", "math/rand", "math/rand/v2", "crypto/rand", "runtime", "syscall"}
)

// file is one Go file of the module. Opened by the test itself, so that the
// test cache knows of it.
type file struct {
	path, pkg string
	test      bool
	generated bool
	lines     int
	text      string
	imports   []string
}

func files(t *testing.T) []file {
	t.Helper()
	var out []file
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", ".skald", "bin", "node_modules", "tools", "testdata"}, d.Name()) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(path, filepath.Join("..", "..")+string(filepath.Separator)))
		f := file{
			path: rel, pkg: filepath.ToSlash(filepath.Dir(rel)), test: strings.HasSuffix(rel, "_test.go"),
			generated: strings.Contains(string(src[:min(len(src), 300)]), "DO NOT EDIT"),
			lines:     strings.Count(string(src), "\n"), text: string(src),
		}
		for _, imp := range parsed.Imports {
			name, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, name)
		}
		out = append(out, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 100 {
		t.Fatalf("only %d Go files found: the walk is wrong", len(out))
	}
	return out
}

func TestPackagesImportOnlyWhatTheTableAllows(t *testing.T) {
	for _, f := range files(t) {
		allowed, listed := arrows[f.pkg]
		if !listed {
			t.Errorf("%s: package %s is not in the table of arrows", f.path, f.pkg)
			continue
		}
		if f.test {
			continue // tests may reach for anything; what they import is not shipped
		}
		for _, imp := range f.imports {
			if to, own := strings.CutPrefix(imp, module); own && !slices.Contains(allowed, to) {
				t.Errorf("%s imports %s: there is no such arrow", f.path, to)
			} else if own && slices.Contains(support, to) && !slices.Contains(support, f.pkg) && f.pkg != "cmd/skald-bench" {
				t.Errorf("%s imports %s, which is for tests", f.path, to)
			}
			checkDriver(t, f, imp)
		}
	}
}

func checkDriver(t *testing.T, f file, imp string) {
	t.Helper()
	for prefix, by := range drivers {
		if strings.HasPrefix(imp+"$", prefix) && !slices.Contains(by, f.pkg) {
			t.Errorf("%s imports %s, which is for %v", f.path, imp, by)
		}
	}
}

func TestTheTableHasNoArrowsThatNobodyUses(t *testing.T) {
	used := map[string]bool{}
	for _, f := range files(t) {
		used[f.pkg] = true
		for _, imp := range f.imports {
			if to, own := strings.CutPrefix(imp, module); own && !f.test {
				used[f.pkg+" → "+to] = true
			}
		}
	}
	for pkg, allowed := range arrows {
		if !used[pkg] {
			t.Errorf("the table names %s, which does not exist", pkg)
		}
		for _, to := range allowed {
			if !used[pkg+" → "+to] {
				t.Errorf("the arrow %s → %s is not used", pkg, to)
			}
		}
	}
}

func TestRulesHaveNoEffects(t *testing.T) {
	for _, f := range files(t) {
		if f.test || !slices.Contains(rules, f.pkg) {
			continue
		}
		for _, imp := range f.imports {
			if slices.Contains(impure, imp) {
				t.Errorf("%s imports %s: rules take values and return values", f.path, imp)
			}
		}
		for _, call := range []string{"time.Now(", "time.Since(", "time.Sleep(", "uuid.New", "go func"} {
			if strings.Contains(f.text, call) {
				t.Errorf("%s has %q: time, ids and chance come in as arguments", f.path, call)
			}
		}
	}
}

func TestFilesStayShort(t *testing.T) {
	for _, f := range files(t) {
		if f.lines > 400 && !f.generated {
			t.Errorf("%s has %d lines; at most 400", f.path, f.lines)
		}
	}
}

func TestSQLIsNeverPutTogetherFromValues(t *testing.T) {
	for _, f := range files(t) {
		if f.test || f.pkg != "internal/postgres" {
			continue
		}
		for _, line := range strings.Split(f.text, "\n") {
			if strings.Contains(line, "Sprintf") && strings.Contains(line, "'%") {
				t.Errorf("%s puts a value into SQL: %s", f.path, strings.TrimSpace(line))
			}
		}
	}
}
