package archtest

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/skald-saga/skald/"

// TestPackagesImportOnlyWhatTheirKindAllows compares the imports of the code with the tree in
// docs/architecture.md.
func TestPackagesImportOnlyWhatTheirKindAllows(t *testing.T) {
	all := rooms(t)
	there := map[string]bool{}
	for _, f := range files(t) {
		there[f.pkg] = true
		kind := kindOf(all, f.pkg)
		if kind == "" {
			t.Errorf("%s: docs/architecture.md does not say what %s is", f.path, f.pkg)
			continue
		}
		if f.test {
			continue
		}
		for _, imp := range f.imports {
			checkDriver(t, f, kind, imp)
			if to, own := strings.CutPrefix(imp, module); own && !slices.Contains(mayImport[kind], kindOf(all, to)) {
				t.Errorf("%s imports %s: %s may import %s, and this is %s",
					f.path, to, kind, strings.Join(mayImport[kind], ", "), kindOf(all, to))
			}
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(all)) {
		if all[pkg].kind != "" && !there[pkg] {
			t.Errorf("docs/architecture.md names %s, which does not exist", pkg)
		}
	}
}

// TestWhatAllShareKnowsNoSubject: packages that all subjects depend on must not depend on any of
// the subjects. Every handler records operators' actions, so the package for these records counts
// as shared.
func TestWhatAllShareKnowsNoSubject(t *testing.T) {
	all := rooms(t)
	for _, f := range files(t) {
		if r := all[f.pkg]; f.test || r == nil || r.section != "SHARED BY ALL" || r.kind == "tests" {
			continue
		}
		for _, imp := range f.imports {
			to := all[strings.TrimPrefix(imp, module)]
			if to != nil && to.section != "SHARED BY ALL" && to.pkg != "internal/audit/operator" {
				t.Errorf("%s imports %s, which not all subjects share", f.path, to.pkg)
			}
		}
	}
}

// subjects lists, for each subject, the other subjects that its packages import. Assemblies and
// edges are left out.
var subjects = map[string][]string{
	"saga":    {"access", "audit", "bulk", "dlq", "erasure", "event", "jobrun"}, // access and event: for memstore
	"bulk":    {"audit", "jobrun", "saga"},
	"dlq":     {"audit", "bulk", "event", "kafka", "saga"},
	"jobrun":  {"audit", "bulk", "dlq"},
	"event":   {"audit", "dlq", "jobrun", "saga"},
	"audit":   {"dlq", "saga"},
	"access":  {"audit"},
	"erasure": {"audit", "dlq", "jobrun", "saga"},
	"kafka":   {"dlq", "event", "jobrun"},
}

// TestSubjectsKnowEachOtherAsTheTableSays makes a new dependency between subjects a visible
// decision, and reports dependencies in the table that no longer exist.
func TestSubjectsKnowEachOtherAsTheTableSays(t *testing.T) {
	all := rooms(t)
	used := map[string]map[string]bool{}
	for _, f := range files(t) {
		from := all[f.pkg]
		if f.test || from == nil || from.section != "SUBJECTS" || from.kind == "edge" || from.kind == "assembly" {
			continue
		}
		for _, imp := range f.imports {
			to := all[strings.TrimPrefix(imp, module)]
			if to == nil || to.section != "SUBJECTS" || to.subject() == from.subject() {
				continue
			}
			if used[from.subject()] == nil {
				used[from.subject()] = map[string]bool{}
			}
			used[from.subject()][to.subject()] = true
			if !slices.Contains(subjects[from.subject()], to.subject()) {
				t.Errorf("%s imports %s: %s does not know %s", f.path, to.pkg, from.subject(), to.subject())
			}
		}
	}
	for from, known := range subjects {
		for _, to := range known {
			if !used[from][to] {
				t.Errorf("%s no longer knows %s: take it from the table", from, to)
			}
		}
	}
}

// TestPagesUseOnlyTheContract: the pages get their data from the API, with the permissions of the
// visitor.
func TestPagesUseOnlyTheContract(t *testing.T) {
	for _, f := range files(t) {
		if f.test || !strings.HasPrefix(f.pkg, "internal/ui") {
			continue
		}
		for _, imp := range f.imports {
			to, own := strings.CutPrefix(imp, module)
			if own && to != "api/client" && to != "docs" && !strings.HasPrefix(to, "internal/ui") {
				t.Errorf("%s imports %s: pages have the client of the contract, and nothing else", f.path, to)
			}
		}
	}
}

// drivers lists, for each driver, the packages or kinds of packages that may import it.
var drivers = map[string][]string{
	"cel.dev/cel-go/":                {"internal/saga/expression"},
	"github.com/jmoiron/sqlx":        {"store"},
	"github.com/lib/pq":              {"store", "db", "internal/postgres/devpg", "internal/test/testdb", "internal/test/pgtest"},
	"github.com/hashicorp/vault/api": {"internal/secret/vault"},
	"github.com/prometheus/":         {"internal/ops/metrics"},
	"github.com/twmb/franz-go/":      {"internal/kafka", "internal/dlq/targets", "scripts/kafka/topic"},
	"github.com/minio/":              {"internal/jobrun/logstore"},
	"github.com/gomodule/redigo":     {"internal/jobrun/redislease"},
	"github.com/getkin/kin-openapi":  {"internal/dlq/dlqapi", "internal/httpapi", "internal/jobrun/workerapi", "internal/httpkit", "internal/test/apitest", "api", "api/client"},
	"github.com/go-chi/chi/v5":       {"internal/httpapi", "api", "api/client"},
	"github.com/oapi-codegen/":       {"internal/httpapi", "api", "api/client"},
	"github.com/rubenv/sql-migrate":  {"db"},
	"github.com/alecthomas/kong":     {"cmd/skald"},
	"github.com/coreos/go-oidc":      {"internal/access/identity"},
	"github.com/go-jose/go-jose":     {"internal/access/identity"},
	"golang.org/x/oauth2":            {"internal/access/identity"},
	"github.com/go-playground/":      {"internal/config", "internal/httpkit"},
	"github.com/evanphx/json-patch":  {"internal/dlq", "internal/ui/letterpages"},
	"github.com/santhosh-tekuri/":    {"internal/strictjson/schema"},
	"go.yaml.in/yaml/v3":             {"internal/saga/workflow", "internal/config", "internal/ui/workflowpages", "internal/httpapi/openapi", "api"},
	"golang.org/x/time/rate":         {"internal/httpkit/ratelimit"},
	"github.com/klauspost/compress":  {"internal/httpkit/compress"},
	"golang.org/x/net/html":          {"internal/ui/web"},
	"golang.org/x/net/http/httpguts": {"internal/saga/workflow", "internal/saga/participant", "internal/saga/registry"},
}

func checkDriver(t *testing.T, f file, kind, imp string) {
	t.Helper()
	for prefix, by := range drivers {
		if strings.HasPrefix(imp+"$", prefix) && !slices.Contains(by, f.pkg) && !slices.Contains(by, kind) {
			t.Errorf("%s imports %s, which is for %v", f.path, imp, by)
		}
	}
}
