package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
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
	"internal/fault":            {},
	"internal/retry":            {},
	"internal/strictjson":       {},
	"internal/saga/workflow":    {"internal/fault", "internal/retry", "internal/strictjson"},
	"internal/audit/operator":   {},
	"internal/jobrun/schedule":  {"internal/fault"},
	"internal/jobrun":           {"internal/dlq", "internal/fault", "internal/audit/operator", "internal/retry", "internal/jobrun/schedule", "internal/strictjson"},
	"internal/dlq":              {"internal/fault", "internal/audit/operator", "internal/retry", "internal/strictjson"},
	"internal/saga":             {"internal/dlq", "internal/fault", "internal/retry", "internal/strictjson", "internal/saga/workflow"},
	"internal/event/webhook":    {"internal/dlq", "internal/fault", "internal/retry", "internal/saga", "internal/saga/workflow"},
	"internal/event/cloudevent": {"internal/saga"},
	"internal/access":           {"internal/fault", "internal/saga"},
	// stores
	"db":                       {},
	"internal/memstore":        {"internal/access", "internal/fault", "internal/saga", "internal/strictjson", "internal/event/webhook", "internal/saga/workflow"},
	"internal/secret/envelope": {},
	"internal/audit/timeline":  {},
	"internal/postgres":        {"internal/secret/credentials", "internal/secret/envelope", "internal/fault", "internal/saga", "internal/strictjson"},
	"internal/dlq/dlqdb": {"internal/audit/auditdb", "internal/audit/operator", "internal/dlq", "internal/fault", "internal/postgres",
		"internal/secret/envelope"},
	"internal/dlq/redrivedb": {"internal/audit/auditdb", "internal/audit/operator", "internal/dlq", "internal/dlq/dlqdb", "internal/fault",
		"internal/postgres"},
	"internal/saga/sagadb": {"internal/audit/auditdb", "internal/audit/operator", "internal/dlq", "internal/dlq/dlqdb", "internal/fault",
		"internal/jobrun", "internal/jobrun/jobdb", "internal/postgres", "internal/retry", "internal/saga", "internal/saga/workflow",
		"internal/secret/envelope"},
	"internal/jobrun/jobdb": {"internal/audit/auditdb", "internal/audit/operator", "internal/dlq", "internal/dlq/dlqdb", "internal/fault",
		"internal/jobrun", "internal/jobrun/jobnotify", "internal/postgres", "internal/secret/envelope", "internal/strictjson"},
	"internal/jobrun/sweepdb": {"internal/audit/auditdb", "internal/audit/operator", "internal/fault", "internal/jobrun", "internal/jobrun/jobdb",
		"internal/jobrun/jobnotify", "internal/postgres", "internal/secret/envelope"},
	"internal/jobrun/jobnotify": {"internal/postgres"},
	"internal/event/eventdb": {"internal/audit/auditdb", "internal/audit/operator", "internal/dlq", "internal/dlq/dlqdb", "internal/event/webhook",
		"internal/fault", "internal/postgres", "internal/saga"},
	"internal/access/accessdb": {"internal/access", "internal/audit/auditdb", "internal/audit/operator", "internal/fault", "internal/postgres",
		"internal/saga"},
	"internal/audit/auditdb":    {"internal/audit/operator", "internal/postgres", "internal/saga"},
	"internal/audit/timelinedb": {"internal/audit/timeline", "internal/dlq/dlqdb", "internal/postgres", "internal/saga"},
	// loops
	"internal/audit":             {"internal/loop", "internal/saga"},
	"internal/event/delivery":    {"api/webhooks", "internal/event/cloudevent", "internal/egress", "internal/loop", "internal/saga", "internal/event/webhook"},
	"internal/event/publication": {"internal/event/cloudevent", "internal/loop", "internal/loop/lease", "internal/retry", "internal/saga"},
	"internal/kafka":             {"internal/dlq", "internal/failpoint", "internal/fault", "internal/loop", "internal/event/publication"},
	"internal/jobrun/redislease": {"internal/fault", "internal/jobrun"},
	"internal/jobrun/joblog":     {"internal/secret/envelope", "internal/failpoint", "internal/jobrun", "internal/jobrun/logstore"},
	"internal/jobrun/logstore":   {"internal/failpoint", "internal/fault"},
	"internal/dlq/targets":       {"internal/audit/operator", "internal/dlq", "internal/egress", "internal/event/webhook", "internal/fault", "internal/kafka", "internal/saga", "internal/saga/workflow"},
	"internal/dlq/redrive":       {"internal/dlq", "internal/failpoint", "internal/fault", "internal/groupcommit", "internal/loop", "internal/loop/lease"},
	"internal/jobrun/scheduler":  {"internal/failpoint", "internal/fault", "internal/jobrun", "internal/loop", "internal/loop/lease", "internal/jobrun/schedule"},
	"internal/jobrun/jobworker":  {"internal/fault", "internal/jobrun", "internal/loop"},
	"internal/failpoint":         {},
	"internal/groupcommit":       {},
	"internal/loop":              {},
	"internal/loop/lease":        {"internal/loop"},
	"internal/saga/engine":       {"internal/failpoint", "internal/fault", "internal/loop", "internal/loop/lease", "internal/retry", "internal/saga", "internal/saga/workflow"},
	"internal/janitor":           {"internal/fault", "internal/loop", "internal/saga"},
	"internal/saga/participant":  {"internal/egress", "internal/retry", "internal/saga", "internal/strictjson"},
	// the database's login
	"internal/secret/credentials":     {},
	"internal/secret/vault":           {"internal/secret/credentials"},
	"internal/secret/vault/vaulttest": {},
	// edges
	"api":                     {},
	"api/client":              {},
	"api/worker":              {},
	"api/webhooks":            {},
	"internal/config":         {"internal/access", "internal/secret/credentials", "internal/secret/envelope"},
	"internal/postgres/devpg": {"internal/loop"},
	"internal/egress":         {},
	"internal/httpapi": {"api", "api/webhooks", "internal/access", "internal/event/cloudevent", "internal/dlq", "internal/fault", "internal/jobrun", "internal/audit/operator", "internal/audit/timeline",
		"internal/retry", "internal/saga", "internal/jobrun/schedule", "internal/strictjson", "internal/event/webhook", "internal/saga/workflow"},
	"internal/access/identity": {"internal/access", "internal/fault", "internal/saga"},
	"internal/saga/cache":      {"internal/fault", "internal/memstore", "internal/saga", "internal/saga/workflow"},
	"internal/ops":             {"internal/dlq", "internal/jobrun", "internal/saga"},
	"internal/app": {"db", "internal/access", "internal/audit", "internal/saga/cache", "internal/config", "internal/secret/credentials",
		"internal/event/delivery", "internal/postgres/devpg", "internal/dlq", "internal/dlq/targets", "internal/egress", "internal/saga/engine",
		"internal/secret/envelope", "internal/failpoint", "internal/fault", "internal/groupcommit", "internal/httpapi", "internal/access/identity",
		"internal/janitor", "internal/jobrun/joblog", "internal/jobrun", "internal/jobrun/jobworker", "internal/kafka", "internal/jobrun/logstore",
		"internal/memstore", "internal/audit/operator", "internal/ops", "internal/saga/participant", "internal/postgres", "internal/event/publication",
		"internal/jobrun/redislease", "internal/dlq/redrive", "internal/retry", "internal/saga", "internal/jobrun/scheduler", "internal/audit/timeline",
		"internal/secret/vault", "internal/event/webhook", "internal/saga/workflow", "internal/access/accessdb", "internal/audit/auditdb",
		"internal/audit/timelinedb", "internal/dlq/dlqdb", "internal/dlq/redrivedb", "internal/event/eventdb", "internal/jobrun/jobdb",
		"internal/jobrun/sweepdb", "internal/saga/sagadb"},
	"internal/app/demo": {"api/client", "examples/order/ledger", "examples/order/shop", "internal/app", "internal/config", "internal/httpapi"},
	"cmd/skald": {"db", "internal/access", "internal/app", "internal/config", "internal/app/demo",
		"internal/failpoint", "internal/fault", "internal/httpapi", "internal/saga", "internal/saga/workflow"},
	// measuring and examples
	"cmd/skald-bench": {"internal/bench", "internal/postgres/devpg"},
	"internal/bench": {"db", "internal/dlq", "internal/fault", "internal/audit/operator", "internal/postgres", "internal/saga/workflow",
		"internal/dlq/dlqdb", "internal/saga/sagadb"},
	"examples/order":        {"examples/order/shop"},
	"examples/order/ledger": {},
	"scripts/kafka/topic":   {},
	"examples/stub":         {},
	"examples/worker":       {"api/worker"},
	"examples/order/shop":   {"examples/order/ledger"},
	// test support
	"docs":                   {},
	"internal/test/archtest": {},
	"internal/test/chaos":    {},
	"internal/test/pgtest": {"internal/access/accessdb", "internal/audit/auditdb", "internal/audit/operator", "internal/dlq", "internal/dlq/dlqdb",
		"internal/dlq/redrivedb", "internal/event/eventdb", "internal/jobrun", "internal/jobrun/jobdb", "internal/jobrun/schedule",
		"internal/jobrun/sweepdb", "internal/postgres", "internal/retry", "internal/saga", "internal/saga/sagadb", "internal/saga/workflow",
		"internal/secret/envelope", "internal/test/storetest", "internal/test/testdb"},
	"internal/test/storetest": {"internal/access", "internal/fault", "internal/retry", "internal/saga", "internal/strictjson", "internal/event/webhook", "internal/saga/workflow"},
	"internal/test/testdb":    {"db", "internal/postgres/devpg"},
	"internal/test/testnet":   {},
	"internal/test/manual":    {"internal/postgres/devpg", "internal/test/testdb"},
}

// testArrows is what the tests of a package may import besides the package
// itself and what it may import: fakes, harnesses, and what they test together.
var testArrows = map[string][]string{
	"cmd/skald":           {"internal/test/testdb"},
	"db":                  {"internal/postgres", "internal/retry", "internal/saga", "internal/test/testdb", "internal/saga/workflow", "internal/saga/sagadb"},
	"docs":                {"internal/saga", "internal/test/testdb"},
	"examples/order":      {"examples/order/ledger"},
	"examples/worker":     {"internal/app", "internal/config", "internal/test/testdb"},
	"internal/app":        {"api/webhooks", "api/worker", "internal/test/testdb", "internal/secret/vault/vaulttest"},
	"internal/bench":      {"internal/postgres/devpg", "internal/saga"},
	"internal/saga/cache": {"internal/postgres", "internal/retry", "internal/test/testdb", "internal/saga/sagadb"},
	"internal/test/chaos": {"examples/order/ledger", "examples/order/shop", "internal/postgres/devpg", "internal/dlq", "internal/failpoint",
		"internal/postgres", "internal/saga", "internal/test/testdb", "internal/dlq/dlqdb"},
	"internal/app/demo":    {"internal/test/testdb"},
	"internal/saga/engine": {"internal/groupcommit", "internal/memstore"},
	"internal/audit": {"internal/access", "internal/memstore", "internal/audit/operator", "internal/postgres", "internal/test/testdb",
		"internal/saga/workflow", "internal/access/accessdb", "internal/audit/auditdb", "internal/saga/sagadb"},
	"internal/event/delivery": {"internal/memstore", "internal/saga/workflow"},
	"internal/kafka": {"internal/dlq/targets", "internal/memstore", "internal/audit/operator", "internal/postgres", "internal/test/testdb",
		"internal/test/testnet", "internal/saga", "internal/saga/workflow", "internal/dlq/dlqdb"},
	"internal/jobrun/joblog": {"internal/fault", "internal/postgres", "internal/test/testdb", "internal/jobrun/jobdb"},
	"internal/jobrun/redislease": {"internal/audit/operator", "internal/postgres", "internal/test/testdb", "internal/jobrun/jobdb",
		"internal/jobrun/sweepdb"},
	"internal/dlq/redrive": {"internal/audit/operator", "internal/dlq/targets", "internal/egress", "internal/postgres", "internal/retry",
		"internal/test/testdb", "internal/test/testnet", "internal/audit/auditdb", "internal/dlq/dlqdb", "internal/dlq/redrivedb"},
	"internal/httpapi": {"api/client", "internal/audit", "internal/egress", "internal/access/identity", "internal/memstore", "internal/postgres",
		"internal/dlq/redrive", "internal/dlq/targets", "internal/saga/engine", "internal/test/testdb", "internal/audit/auditdb", "internal/dlq/dlqdb",
		"internal/dlq/redrivedb", "internal/jobrun/jobdb", "internal/jobrun/sweepdb"},
	"internal/access/identity":  {"internal/memstore"},
	"internal/memstore":         {"internal/test/storetest"},
	"internal/saga/participant": {"internal/test/testnet", "internal/saga/workflow"},
	"internal/postgres": {"db", "internal/postgres/devpg", "internal/retry", "internal/test/storetest", "internal/test/testdb", "internal/test/testnet",
		"internal/saga/sagadb", "internal/test/pgtest"},
	"internal/secret/vault":     {"internal/secret/vault/vaulttest"},
	"internal/strictjson":       {"internal/test/testdb"},
	"internal/jobrun/scheduler": {"internal/postgres", "internal/test/testdb", "internal/jobrun/jobdb", "internal/jobrun/sweepdb"},
	"internal/access/accessdb":  {"internal/test/pgtest", "internal/test/testdb"},
	"internal/audit/auditdb":    {"internal/test/pgtest", "internal/test/testdb"},
	"internal/dlq/dlqdb":        {"internal/dlq/redrivedb", "internal/saga/sagadb", "internal/test/pgtest", "internal/test/testdb"},
	"internal/dlq/redrivedb":    {"internal/test/pgtest"},
	"internal/event/eventdb":    {"internal/test/pgtest", "internal/test/testdb"},
	"internal/jobrun/jobdb":     {"internal/retry", "internal/test/pgtest", "internal/test/testdb"},
	"internal/jobrun/jobnotify": {"internal/test/testdb"},
	"internal/jobrun/sweepdb":   {"internal/jobrun/schedule", "internal/retry", "internal/test/pgtest"},
	"internal/saga/sagadb":      {"internal/access", "internal/access/accessdb", "internal/test/pgtest", "internal/test/storetest", "internal/test/testdb"},
}

// support may be imported by tests only.
var support = []string{"internal/test/storetest", "internal/test/pgtest", "internal/test/testdb", "internal/test/testnet", "internal/test/archtest", "internal/test/chaos", "internal/bench", "internal/test/manual", "internal/secret/vault/vaulttest"}

// drivers may be imported by these packages only.
var drivers = map[string][]string{
	"github.com/adhocore/gronx":      {"internal/jobrun/schedule"},
	"github.com/jmoiron/sqlx":        {"internal/postgres", "internal/dlq/dlqdb", "internal/dlq/redrivedb", "internal/saga/sagadb", "internal/jobrun/jobdb", "internal/jobrun/sweepdb", "internal/event/eventdb", "internal/access/accessdb", "internal/audit/auditdb", "internal/audit/timelinedb"},
	"github.com/lib/pq":              {"internal/postgres", "internal/dlq/dlqdb", "internal/dlq/redrivedb", "internal/saga/sagadb", "internal/jobrun/jobdb", "internal/jobrun/jobnotify", "internal/event/eventdb", "internal/access/accessdb", "internal/audit/auditdb", "internal/test/pgtest", "db", "internal/postgres/devpg", "internal/test/testdb", "internal/bench"},
	"github.com/hashicorp/vault/api": {"internal/secret/vault"},
	"github.com/prometheus/":         {"internal/ops"},
	"github.com/twmb/franz-go/":      {"internal/kafka", "internal/dlq/targets", "internal/bench", "scripts/kafka/topic"},
	"github.com/minio/":              {"internal/jobrun/logstore"},
	"github.com/redis/go-redis/v9":   {"internal/jobrun/redislease"},
	"github.com/knadh/koanf":         {"internal/config"},
	"github.com/getkin/kin-openapi":  {"internal/httpapi", "api", "api/client"},
	"github.com/go-chi/chi/v5":       {"internal/httpapi", "api", "api/client"},
	"github.com/oapi-codegen/":       {"internal/httpapi", "api", "api/client"},
	"github.com/rubenv/sql-migrate":  {"db"},
	"github.com/alecthomas/kong":     {"cmd/skald"},
	"github.com/coreos/go-oidc":      {"internal/access/identity"},
	"github.com/go-jose/go-jose":     {"internal/access/identity"},
	"github.com/go-playground/":      {"internal/config"},
	"github.com/evanphx/json-patch":  {"internal/dlq"},
	"github.com/santhosh-tekuri/":    {"internal/jobrun"},
	"go.yaml.in/yaml/v3":             {"internal/saga/workflow", "internal/config"},
	"golang.org/x/net/http/httpguts": {"internal/saga/workflow", "internal/saga/participant"},
}

// file is one Go file of the module. Opened by the test itself, so that the
// test cache knows of it.
type file struct {
	path, pkg string
	test      bool
	generated bool
	lines     int
	text      string
	syntax    *ast.File
	imports   []string
}

func files(t *testing.T) []file {
	t.Helper()
	var out []file
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
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
		parsed, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(path, filepath.Join("..", "..", "..")+string(filepath.Separator)))
		f := file{
			path: rel, pkg: filepath.ToSlash(filepath.Dir(rel)), test: strings.HasSuffix(rel, "_test.go"),
			generated: ast.IsGenerated(parsed), lines: strings.Count(string(src), "\n"), text: string(src), syntax: parsed,
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
			allowed = slices.Concat(allowed, testArrows[f.pkg], []string{f.pkg})
		}
		for _, imp := range f.imports {
			if to, own := strings.CutPrefix(imp, module); own && !slices.Contains(allowed, to) {
				t.Errorf("%s imports %s: there is no such arrow", f.path, to)
			} else if own && !f.test && slices.Contains(support, to) && !slices.Contains(support, f.pkg) && f.pkg != "cmd/skald-bench" {
				t.Errorf("%s imports %s, which is for tests", f.path, to)
			}
			if !f.test {
				checkDriver(t, f, imp)
			}
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

func TestTheTablesHaveNoArrowsThatNobodyUses(t *testing.T) {
	all := files(t)
	for table, arrows := range map[string]map[string][]string{"arrows": arrows, "testArrows": testArrows} {
		used := map[string]bool{}
		for _, f := range all {
			used[f.pkg] = true
			for _, imp := range f.imports {
				if to, own := strings.CutPrefix(imp, module); own && f.test == (table == "testArrows") {
					used[f.pkg+" → "+to] = true
				}
			}
		}
		for pkg, allowed := range arrows {
			if !used[pkg] {
				t.Errorf("%s names %s, which does not exist", table, pkg)
			}
			for _, to := range allowed {
				if !used[pkg+" → "+to] {
					t.Errorf("%s: %s → %s is not used", table, pkg, to)
				}
			}
		}
	}
}

func TestTheTreeInTheDocsNamesEveryPackage(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range arrows {
		name, ok := strings.CutPrefix(pkg, "internal/")
		if indent := strings.Repeat("  ", strings.Count(pkg, "/")); ok && !strings.Contains(string(doc), "\n"+indent+path.Base(name)+"/ ") {
			t.Errorf("docs/architecture.md does not say what %s is", pkg)
		}
	}
}

// TestFewNamesStandInTheHall keeps what a stranger reads first short (decision 0049).
func TestFewNamesStandInTheHall(t *testing.T) {
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > 25 {
		t.Errorf("%d names directly under internal/; at most 25", len(entries))
	}
}

func TestFilesStayShort(t *testing.T) {
	for _, f := range files(t) {
		if f.lines > 400 && !f.generated {
			t.Errorf("%s has %d lines; at most 400", f.path, f.lines)
		}
	}
}

// isStore tells whether a package speaks SQL: the kit, and the store of each subject.
func isStore(pkg string) bool {
	return pkg == "internal/postgres" || strings.HasPrefix(pkg, "internal/") && strings.HasSuffix(pkg, "db") && pkg != "internal/test/testdb"
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

// TestStoresStaySmall keeps each store to what a person can read in a day.
func TestStoresStaySmall(t *testing.T) {
	count, lines := map[string]int{}, map[string]int{}
	for _, f := range files(t) {
		if !f.test && isStore(f.pkg) {
			count[f.pkg]++
			lines[f.pkg] += f.lines
		}
	}
	for pkg, n := range count {
		if n > 45 || lines[pkg] > 6000 {
			t.Errorf("%s has %d files and %d lines; at most 45 and 6,000: split it by subject", pkg, n, lines[pkg])
		}
	}
	if len(count) < 9 {
		t.Errorf("only %d stores found: the rule is wrong", len(count))
	}
}

func TestSQLIsNeverPutTogetherFromValues(t *testing.T) {
	for _, f := range files(t) {
		if f.test || !isStore(f.pkg) {
			continue
		}
		for _, line := range strings.Split(f.text, "\n") {
			if strings.Contains(line, "Sprintf") && strings.Contains(line, "'%") {
				t.Errorf("%s puts a value into SQL: %s", f.path, strings.TrimSpace(line))
			}
		}
	}
}
