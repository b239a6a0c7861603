package archtest

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/skald-saga/skald/"

// arrows lists which packages of the module each package may import. A package that is not
// listed is an error, so adding one is a visible decision.
var arrows = map[string][]string{
	// rules
	"internal/fault":                {},
	"internal/tenant":               {},
	"internal/retry":                {},
	"internal/strictjson/plaintext": {},
	"internal/strictjson":           {},
	"internal/page":                 {},
	"internal/idempotency":          {"internal/fault"},
	"internal/saga/workflow":        {"internal/fault", "internal/retry", "internal/strictjson", "internal/page"},
	"internal/audit/operator":       {"internal/page"},
	"internal/jobrun/schedule":      {"internal/fault"},
	"internal/jobrun":               {"internal/strictjson/plaintext", "internal/dlq", "internal/fault", "internal/audit/operator", "internal/retry", "internal/jobrun/schedule", "internal/strictjson", "internal/page"},
	"internal/dlq/errortext":        {},
	"internal/dlq":                  {"internal/strictjson/plaintext", "internal/dlq/errortext", "internal/fault", "internal/audit/operator", "internal/retry", "internal/strictjson", "internal/page"},
	"internal/saga":                 {"internal/tenant", "internal/dlq", "internal/fault", "internal/retry", "internal/strictjson", "internal/saga/workflow", "internal/page"},
	"internal/saga/sagabulk":        {"internal/audit/operator", "internal/fault", "internal/jobrun", "internal/saga", "internal/page"},
	"internal/event/webhook":        {"internal/dlq", "internal/fault", "internal/retry", "internal/saga", "internal/saga/workflow", "internal/page"},
	"internal/event/cloudevent":     {"internal/jobrun", "internal/saga"},
	"internal/access":               {"internal/tenant", "internal/fault", "internal/page"},
	// stores
	"db":                       {},
	"internal/saga/memstore":   {"internal/access", "internal/fault", "internal/saga", "internal/strictjson", "internal/event/webhook", "internal/saga/workflow", "internal/page", "internal/idempotency"},
	"internal/secret/envelope": {},
	"internal/audit/timeline":  {"internal/page"},
	"internal/ops/overview":    {"internal/access", "internal/fault", "internal/page", "internal/saga"},
	"internal/postgres":        {"internal/secret/credentials", "internal/secret/envelope", "internal/fault", "internal/strictjson", "internal/page", "internal/idempotency"},
	"internal/dlq/dlqdb": {"internal/audit/auditdb", "internal/audit/operator", "internal/dlq", "internal/fault",
		"internal/postgres", "internal/retry",
		"internal/secret/envelope", "internal/page"},
	"internal/dlq/redrivedb": {"internal/audit/auditdb", "internal/audit/operator", "internal/dlq", "internal/dlq/dlqdb",
		"internal/fault",
		"internal/postgres", "internal/page"},
	"internal/saga/sagadb": {"internal/audit/auditdb", "internal/audit/operator", "internal/dlq", "internal/dlq/dlqdb",
		"internal/fault",
		"internal/jobrun", "internal/jobrun/jobdb", "internal/postgres", "internal/retry", "internal/saga",
		"internal/saga/workflow",
		"internal/secret/envelope", "internal/page"},
	"internal/jobrun/jobdb": {"internal/audit/auditdb", "internal/audit/operator", "internal/dlq", "internal/dlq/dlqdb",
		"internal/fault",
		"internal/jobrun", "internal/jobrun/jobnotify", "internal/postgres", "internal/postgres/notify",
		"internal/secret/envelope",
		"internal/strictjson", "internal/page"},
	"internal/jobrun/sweepdb": {"internal/audit/auditdb", "internal/audit/operator", "internal/fault", "internal/jobrun",
		"internal/jobrun/jobdb",
		"internal/jobrun/jobnotify", "internal/postgres", "internal/saga", "internal/saga/sagabulk", "internal/saga/sagadb",
		"internal/secret/envelope", "internal/page"},
	"internal/jobrun/jobnotify": {"internal/postgres/notify"},
	"internal/postgres/notify":  {"internal/postgres"},
	"internal/event/eventdb": {"internal/audit/auditdb", "internal/audit/operator", "internal/dlq", "internal/dlq/dlqdb",
		"internal/event/webhook",
		"internal/fault", "internal/postgres", "internal/saga", "internal/page"},
	"internal/access/accessdb": {"internal/tenant", "internal/access", "internal/audit/auditdb",
		"internal/audit/operator", "internal/fault",
		"internal/postgres",
		"internal/page"},
	"internal/audit/auditdb":    {"internal/audit/operator", "internal/postgres", "internal/saga", "internal/page"},
	"internal/ops/overviewdb":   {"internal/dlq", "internal/dlq/dlqdb", "internal/ops/overview", "internal/postgres", "internal/page", "internal/saga"},
	"internal/audit/timelinedb": {"internal/audit/timeline", "internal/dlq/dlqdb", "internal/postgres", "internal/saga", "internal/page"},
	// loops
	"internal/audit":             {"internal/loop", "internal/saga"},
	"internal/event/delivery":    {"api/webhooks", "internal/event/cloudevent", "internal/egress", "internal/loop", "internal/retry", "internal/saga", "internal/event/webhook"},
	"internal/event/publication": {"internal/dlq", "internal/event/cloudevent", "internal/jobrun", "internal/loop", "internal/loop/lease", "internal/retry", "internal/saga"},
	"internal/kafka":             {"internal/dlq", "internal/failpoint", "internal/fault", "internal/jobrun", "internal/loop", "internal/event/publication"},
	"internal/jobrun/redislease": {"internal/fault", "internal/jobrun"},
	"internal/jobrun/joblog":     {"internal/secret/envelope", "internal/failpoint", "internal/jobrun", "internal/jobrun/logstore"},
	"internal/jobrun/logstore":   {"internal/failpoint", "internal/fault"},
	"internal/dlq/targets":       {"internal/audit/operator", "internal/dlq", "internal/egress", "internal/event/webhook", "internal/fault", "internal/kafka", "internal/retry", "internal/saga", "internal/saga/workflow"},
	"internal/dlq/redrive":       {"internal/dlq", "internal/failpoint", "internal/fault", "internal/groupcommit", "internal/loop", "internal/loop/lease"},
	"internal/jobrun/scheduler":  {"internal/failpoint", "internal/fault", "internal/jobrun", "internal/loop", "internal/loop/lease", "internal/jobrun/schedule"},
	"internal/jobrun/jobworker":  {"internal/strictjson/plaintext", "internal/fault", "internal/jobrun", "internal/loop"},
	"internal/failpoint":         {},
	"internal/waiting":           {},
	"internal/groupcommit":       {},
	"internal/loop":              {},
	"internal/loop/lease":        {"internal/loop"},
	"internal/saga/engine":       {"internal/failpoint", "internal/fault", "internal/loop", "internal/loop/lease", "internal/retry", "internal/saga", "internal/saga/workflow"},
	"internal/janitor":           {"internal/fault", "internal/loop", "internal/saga"},
	"internal/saga/participant":  {"internal/strictjson/plaintext", "api/webhooks", "internal/egress", "internal/failpoint", "internal/retry", "internal/saga", "internal/strictjson"},
	// the database login
	"internal/secret/files":           {},
	"internal/secret/credentials":     {"internal/secret/files"},
	"internal/secret/vault":           {"internal/secret/credentials"},
	"internal/secret/vault/vaulttest": {},
	// edges
	"api":                        {},
	"api/client":                 {},
	"api/worker":                 {"internal/strictjson/plaintext", "internal/strictjson"},
	"api/webhooks":               {},
	"internal/config":            {"api/webhooks", "internal/access", "internal/secret/credentials", "internal/secret/envelope"},
	"internal/postgres/devpg":    {"internal/loop"},
	"internal/egress":            {"internal/secret/files"},
	"internal/httpkit/listen":    {"internal/secret/files"},
	"internal/httpkit/ratelimit": {},
	"internal/httpkit":           {"internal/tenant", "internal/waiting", "api", "internal/access", "internal/audit/operator", "internal/fault", "internal/saga", "internal/strictjson", "internal/page", "internal/idempotency"},
	"internal/saga/sagaapi":      {"internal/tenant", "internal/waiting", "api", "internal/access", "internal/audit/operator", "internal/fault", "internal/jobrun", "internal/httpkit", "internal/retry", "internal/saga", "internal/saga/sagabulk", "internal/saga/workflow", "internal/strictjson", "internal/page"},
	"internal/dlq/dlqapi":        {"internal/strictjson/plaintext", "internal/waiting", "api", "internal/access", "internal/audit/operator", "internal/dlq", "internal/fault", "internal/httpkit", "internal/retry", "internal/saga", "internal/strictjson", "internal/page"},
	"internal/jobrun/jobapi":     {"internal/waiting", "api", "internal/access", "internal/audit/operator", "internal/fault", "internal/jobrun", "internal/jobrun/schedule", "internal/httpkit", "internal/saga", "internal/page"},
	"internal/jobrun/workerapi":  {"internal/strictjson/plaintext", "api", "internal/access", "internal/audit/operator", "internal/fault", "internal/jobrun", "internal/jobrun/jobqueue", "internal/httpkit"},
	"internal/jobrun/jobqueue":   {"internal/jobrun"},
	"internal/event/eventapi":    {"api", "api/webhooks", "internal/event/cloudevent", "internal/event/webhook", "internal/fault", "internal/httpkit", "internal/saga/workflow"},
	"internal/access/accessapi":  {"internal/tenant", "api", "internal/access", "internal/fault", "internal/httpkit"},
	"internal/ops/overviewapi":   {"api", "internal/access", "internal/dlq", "internal/fault", "internal/jobrun", "internal/ops/overview", "internal/httpkit"},
	"internal/audit/auditapi":    {"api", "internal/access", "internal/audit/operator", "internal/audit/timeline", "internal/dlq", "internal/fault", "internal/jobrun", "internal/httpkit", "internal/saga", "internal/saga/sagaapi"},
	"internal/httpapi":           {"internal/tenant", "internal/waiting", "api", "internal/access", "internal/access/accessapi", "internal/audit/auditapi", "internal/audit/timeline", "internal/dlq", "internal/dlq/dlqapi", "internal/event/eventapi", "internal/event/webhook", "internal/fault", "internal/jobrun", "internal/jobrun/jobapi", "internal/jobrun/workerapi", "internal/httpkit", "internal/httpkit/listen", "internal/httpkit/ratelimit", "internal/saga", "internal/saga/sagaapi", "internal/saga/sagabulk", "internal/saga/workflow", "internal/strictjson", "internal/idempotency", "internal/ops/overview", "internal/ops/overviewapi"},
	"internal/access/identity":   {"internal/tenant", "internal/access", "internal/fault"},
	"internal/saga/cache":        {"internal/tenant", "internal/fault", "internal/saga/memstore", "internal/saga", "internal/saga/workflow", "internal/page"},
	"internal/ops":               {"internal/dlq", "internal/jobrun", "internal/saga"},
	"internal/app":               {"internal/tenant", "internal/postgres/notify", "internal/waiting", "db", "internal/access", "internal/access/accessdb", "internal/access/identity", "internal/audit", "internal/audit/auditdb", "internal/audit/operator", "internal/audit/timeline", "internal/audit/timelinedb", "internal/config", "internal/dlq", "internal/dlq/dlqapi", "internal/dlq/dlqdb", "internal/dlq/redrive", "internal/dlq/redrivedb", "internal/dlq/targets", "internal/egress", "internal/event/delivery", "internal/event/eventdb", "internal/event/publication", "internal/event/webhook", "internal/failpoint", "internal/fault", "internal/groupcommit", "internal/httpapi", "internal/janitor", "internal/jobrun", "internal/jobrun/jobdb", "internal/jobrun/joblog", "internal/jobrun/jobworker", "internal/jobrun/logstore", "internal/jobrun/redislease", "internal/jobrun/scheduler", "internal/jobrun/sweepdb", "internal/kafka", "internal/loop", "internal/saga/memstore", "internal/ops", "internal/postgres", "internal/postgres/devpg", "internal/httpkit", "internal/httpkit/listen", "internal/httpkit/ratelimit", "internal/retry", "internal/saga", "internal/ui", "internal/saga/cache", "internal/saga/engine", "internal/saga/participant", "internal/saga/sagaapi", "internal/saga/sagabulk", "internal/saga/sagadb", "internal/saga/workflow", "internal/secret/credentials", "internal/secret/envelope", "internal/secret/files", "internal/secret/vault", "internal/page", "internal/idempotency", "internal/ops/overview", "internal/ops/overviewdb"},
	"internal/ui/manual":         {"docs", "internal/ui/web"},
	"internal/ui/web":            {"api/client"},
	"internal/ui/sagapages":      {"api/client", "internal/ui/web"},
	"internal/ui/systempages":    {"api/client", "internal/ui/web"},
	"internal/ui/workflowpages":  {"api/client", "internal/ui/web"},
	"internal/ui/letterpages":    {"api/client", "internal/ui/web"},
	"internal/ui/jobpages":       {"api/client", "internal/ui/web"},
	"internal/ui/accesspages":    {"api/client", "internal/ui/web"},
	"internal/ui": {"internal/ui/accesspages", "internal/ui/jobpages", "internal/ui/letterpages", "internal/ui/manual",
		"internal/ui/sagapages", "internal/ui/systempages", "internal/ui/web", "internal/ui/workflowpages"},
	"internal/app/demo": {"api/client", "api/worker", "examples/order/ledger", "examples/order/shop", "internal/app", "internal/config", "internal/httpapi"},
	"cmd/skald":         {"internal/tenant", "db", "internal/access", "internal/app", "internal/app/demo", "internal/config", "internal/failpoint", "internal/fault", "internal/httpapi", "internal/postgres/devpg", "internal/saga", "internal/saga/workflow", "internal/page"},
	// benchmarks and examples
	"cmd/skald-bench": {"internal/bench", "internal/postgres/devpg"},
	"internal/bench": {"db", "internal/dlq", "internal/fault", "internal/audit/operator", "internal/postgres",
		"internal/saga/workflow",
		"internal/dlq/dlqdb", "internal/saga/sagadb"},
	"examples/order":        {"examples/order/shop"},
	"examples/order/ledger": {},
	"scripts/kafka/topic":   {},
	"examples/stub":         {},
	"examples/worker":       {"api/worker"},
	"examples/order/shop":   {"examples/order/ledger"},
	// test support
	"docs":                         {},
	"internal/test/archtest":       {},
	"internal/test/patience":       {},
	"internal/test/mutants":        {},
	"internal/test/mutants/mutate": {"internal/test/mutants"},
	"internal/test/chaos":          {},
	"internal/test/pgtest": {"internal/tenant", "internal/access/accessdb", "internal/audit/auditdb",
		"internal/audit/operator",
		"internal/dlq", "internal/dlq/dlqdb",
		"internal/dlq/redrivedb", "internal/event/eventdb", "internal/jobrun", "internal/jobrun/jobdb",
		"internal/jobrun/schedule",
		"internal/jobrun/sweepdb", "internal/postgres", "internal/retry", "internal/saga", "internal/saga/sagadb",
		"internal/saga/workflow",
		"internal/secret/envelope", "internal/test/storetest", "internal/test/testdb"},
	"internal/test/storetest":   {"internal/tenant", "internal/access", "internal/fault", "internal/retry", "internal/saga", "internal/strictjson", "internal/event/webhook", "internal/saga/workflow", "internal/page"},
	"internal/test/eventtest":   {"internal/event/webhook", "internal/fault", "internal/saga", "internal/test/storetest", "internal/page"},
	"internal/test/browser":     {},
	"internal/test/uitest":      {"internal/app", "internal/config", "internal/test/testdb"},
	"internal/test/testdb":      {"db", "internal/postgres/devpg"},
	"internal/test/testnet":     {},
	"internal/test/testprogram": {},
	"internal/test/apitest": {"internal/tenant", "api/client", "internal/access", "internal/audit",
		"internal/event/webhook",
		"internal/waiting", "internal/fault", "internal/httpapi", "internal/saga/memstore", "internal/httpkit",
		"internal/retry", "internal/saga",
		"internal/saga/sagaapi", "internal/saga/engine", "internal/saga/workflow"},
	"internal/test/manual": {"internal/postgres/devpg", "internal/test/testdb"},
}

// testArrows lists what a package's tests may import in addition: fakes, harnesses, and
// packages that they test together.
var testArrows = map[string][]string{
	"cmd/skald":             {"internal/test/apitest", "internal/test/testdb", "internal/test/testprogram"},
	"db":                    {"internal/tenant", "internal/postgres", "internal/retry", "internal/saga", "internal/test/testdb", "internal/saga/workflow", "internal/saga/sagadb"},
	"docs":                  {"internal/saga", "internal/test/mutants", "internal/test/testdb"},
	"examples/order":        {"examples/order/ledger"},
	"examples/worker":       {"internal/app", "internal/config", "internal/test/testdb"},
	"internal/app":          {"internal/tenant", "api/webhooks", "api/worker", "internal/secret/vault/vaulttest", "internal/test/browser", "internal/test/testdb", "internal/ui/web"},
	"internal/bench":        {"internal/postgres/devpg", "internal/saga", "internal/page"},
	"internal/saga/cache":   {"internal/tenant", "internal/postgres", "internal/retry", "internal/test/testdb", "internal/saga/sagadb"},
	"internal/test/browser": {"api/worker", "internal/app/demo", "internal/config", "internal/test/testdb", "internal/test/uitest"},
	"internal/test/chaos": {"examples/order/ledger", "examples/order/shop", "internal/postgres/devpg", "internal/dlq",
		"internal/failpoint",
		"internal/postgres", "internal/saga", "internal/test/testdb", "internal/dlq/dlqdb"},
	"internal/app/demo":        {"internal/test/testdb"},
	"internal/ui/sagapages":    {"internal/config", "internal/test/uitest"},
	"internal/ui/jobpages":     {"internal/test/uitest"},
	"internal/ui/letterpages":  {"internal/config", "internal/test/pgtest", "internal/test/uitest"},
	"internal/saga/engine":     {"internal/tenant", "internal/waiting", "internal/groupcommit", "internal/saga/memstore"},
	"internal/ui/systempages":  {"internal/test/uitest"},
	"internal/ops/overviewapi": {"api/client", "internal/saga", "internal/test/apitest"},
	"internal/ui/accesspages":  {"api/client", "internal/config", "internal/test/uitest"},
	"internal/audit": {"internal/tenant", "internal/access", "internal/saga/memstore", "internal/audit/operator",
		"internal/postgres",
		"internal/test/testdb",
		"internal/saga/workflow", "internal/access/accessdb", "internal/audit/auditdb", "internal/saga/sagadb"},
	"internal/event/publication": {"internal/tenant", "internal/saga/memstore", "internal/saga/workflow"},
	"internal/event/delivery":    {"internal/tenant", "internal/saga/memstore", "internal/saga/workflow", "internal/page"},
	"internal/kafka": {"internal/tenant", "internal/dlq/targets", "internal/saga/memstore", "internal/audit/operator",
		"internal/postgres",
		"internal/test/testdb",
		"internal/saga", "internal/saga/workflow", "internal/dlq/dlqdb", "internal/jobrun/jobdb",
		"internal/event/eventdb"},
	"internal/jobrun/joblog": {"internal/fault", "internal/postgres", "internal/test/testdb", "internal/jobrun/jobdb"},
	"internal/jobrun/redislease": {"internal/audit/operator", "internal/postgres", "internal/test/testdb",
		"internal/jobrun/jobdb",
		"internal/jobrun/sweepdb"},
	"internal/dlq/redrive": {"internal/audit/operator", "internal/dlq/targets", "internal/egress", "internal/postgres",
		"internal/retry",
		"internal/test/testdb", "internal/audit/auditdb", "internal/dlq/dlqdb",
		"internal/dlq/redrivedb", "internal/page"},
	"internal/saga/sagaapi":     {"api/client", "internal/httpapi", "internal/jobrun/jobdb", "internal/jobrun/sweepdb", "internal/postgres", "internal/saga/sagadb", "internal/test/apitest", "internal/test/testdb"},
	"internal/dlq/dlqapi":       {"api/client", "internal/access", "internal/audit/auditdb", "internal/audit/operator", "internal/dlq/dlqdb", "internal/dlq/redrive", "internal/dlq/redrivedb", "internal/dlq/targets", "internal/egress", "internal/event/webhook", "internal/httpapi", "internal/postgres", "internal/test/apitest", "internal/test/testdb"},
	"internal/jobrun/jobapi":    {"api/client", "internal/httpapi", "internal/jobrun/jobdb", "internal/jobrun/sweepdb", "internal/postgres", "internal/test/apitest", "internal/test/testdb"},
	"internal/jobrun/workerapi": {"api/client", "internal/httpapi", "internal/jobrun/jobdb", "internal/postgres", "internal/retry", "internal/test/apitest", "internal/test/testdb"},
	"internal/event/eventapi":   {"internal/tenant", "api/client", "internal/httpapi", "internal/test/apitest"},
	"internal/access/accessapi": {"api/client", "internal/test/apitest", "internal/page"},
	"internal/ui/workflowpages": {"internal/test/uitest"},
	"internal/audit/auditapi":   {"api/client", "internal/httpapi", "internal/test/apitest"},
	"internal/httpapi":          {"api/client", "internal/access/identity", "internal/audit", "internal/audit/operator", "internal/saga/memstore", "internal/retry", "internal/test/apitest", "internal/page"},
	"internal/access/identity":  {"internal/tenant", "internal/saga/memstore"},
	"internal/saga/memstore":    {"internal/test/eventtest", "internal/test/storetest"},
	"internal/saga/participant": {"internal/saga/workflow", "internal/secret/files"},
	"internal/postgres": {"db", "internal/postgres/devpg", "internal/retry", "internal/test/storetest",
		"internal/test/testdb",
		"internal/saga/sagadb", "internal/test/pgtest", "internal/saga"},
	"internal/postgres/devpg":   {"internal/test/testprogram"},
	"internal/test/manual":      {"internal/test/testprogram"},
	"internal/secret/vault":     {"internal/secret/vault/vaulttest"},
	"internal/strictjson":       {"internal/test/testdb"},
	"internal/jobrun/scheduler": {"internal/postgres", "internal/test/testdb", "internal/jobrun/jobdb", "internal/jobrun/sweepdb"},
	"internal/access/accessdb":  {"internal/test/pgtest", "internal/test/testdb", "internal/test/storetest"},
	"internal/audit/auditdb":    {"internal/test/pgtest", "internal/test/testdb"},
	"internal/dlq/dlqdb":        {"internal/dlq/redrivedb", "internal/saga/sagadb", "internal/test/pgtest", "internal/test/testdb"},
	"internal/dlq/redrivedb":    {"internal/test/pgtest"},
	"internal/event/eventdb":    {"internal/test/eventtest", "internal/test/pgtest", "internal/test/testdb"},
	"internal/jobrun/jobdb":     {"db", "internal/retry", "internal/test/pgtest", "internal/test/testdb"},
	"internal/jobrun/jobnotify": {"internal/postgres", "internal/test/testdb"},
	"internal/postgres/notify":  {"internal/waiting", "internal/test/testdb"},
	"internal/jobrun/sweepdb":   {"internal/tenant", "internal/jobrun/schedule", "internal/retry", "internal/test/pgtest"},
	"internal/ops/overviewdb":   {"internal/config", "internal/jobrun/jobdb", "internal/test/pgtest", "internal/test/testdb", "internal/test/uitest"},
	"internal/saga/sagadb":      {"internal/tenant", "db", "internal/audit", "internal/test/eventtest", "internal/test/pgtest", "internal/test/storetest", "internal/test/testdb"},
	"internal/access":           {"internal/tenant"},
	"internal/httpkit":          {"internal/tenant"},
	"internal/saga":             {"internal/tenant"},
}

// everyTest is what any test may import, and what they have in common.
var everyTest = []string{"internal/test/patience", "internal/test/testnet"}

// support may be imported only by tests.
var support = []string{"internal/test/apitest", "internal/test/storetest", "internal/test/eventtest",
	"internal/test/pgtest", "internal/test/testdb", "internal/test/uitest", "internal/test/testnet",
	"internal/test/testprogram",
	"internal/test/archtest", "internal/test/browser", "internal/test/patience",
	"internal/test/chaos", "internal/bench", "internal/test/manual", "internal/secret/vault/vaulttest"}

// drivers may be imported only by these packages.
var drivers = map[string][]string{
	"github.com/adhocore/gronx":      {"internal/jobrun/schedule"},
	"github.com/jmoiron/sqlx":        {"internal/postgres", "internal/dlq/dlqdb", "internal/dlq/redrivedb", "internal/saga/sagadb", "internal/jobrun/jobdb", "internal/jobrun/sweepdb", "internal/event/eventdb", "internal/access/accessdb", "internal/audit/auditdb", "internal/audit/timelinedb", "internal/ops/overviewdb"},
	"github.com/lib/pq":              {"internal/postgres", "internal/dlq/dlqdb", "internal/dlq/redrivedb", "internal/saga/sagadb", "internal/jobrun/jobdb", "internal/postgres/notify", "internal/event/eventdb", "internal/access/accessdb", "internal/audit/auditdb", "internal/test/pgtest", "db", "internal/postgres/devpg", "internal/test/testdb", "internal/bench"},
	"github.com/hashicorp/vault/api": {"internal/secret/vault"},
	"github.com/prometheus/":         {"internal/ops"},
	"github.com/twmb/franz-go/":      {"internal/kafka", "internal/dlq/targets", "internal/bench", "scripts/kafka/topic"},
	"github.com/minio/":              {"internal/jobrun/logstore"},
	"github.com/redis/go-redis/v9":   {"internal/jobrun/redislease"},
	"github.com/knadh/koanf":         {"internal/config"},
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
	"github.com/santhosh-tekuri/":    {"internal/jobrun"},
	"go.yaml.in/yaml/v3":             {"internal/saga/workflow", "internal/config", "internal/ui/workflowpages"},
	"golang.org/x/time/rate":         {"internal/httpkit/ratelimit"},
	"golang.org/x/net/http/httpguts": {"internal/saga/workflow", "internal/saga/participant"},
}

func TestPackagesImportOnlyWhatTheTableAllows(t *testing.T) {
	for _, f := range files(t) {
		allowed, listed := arrows[f.pkg]
		if !listed {
			t.Errorf("%s: package %s is not in the table of arrows", f.path, f.pkg)
			continue
		}
		if f.test || strings.HasPrefix(f.pkg, "internal/test/") {
			allowed = slices.Concat(allowed, everyTest)
		}
		if f.test {
			allowed = slices.Concat(allowed, testArrows[f.pkg], []string{f.pkg})
		}
		for _, imp := range f.imports {
			if to, own := strings.CutPrefix(imp, module); own && !slices.Contains(allowed, to) {
				t.Errorf("%s imports %s: there is no such arrow", f.path, to)
			} else if own && !f.test && slices.Contains(support, to) && !slices.Contains(support,
				f.pkg) && f.pkg != "cmd/skald-bench" {
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

func TestTheTablesHaveNoUnusedArrows(t *testing.T) {
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
		if indent := strings.Repeat("  ", strings.Count(pkg, "/")); ok &&
			!strings.Contains(string(doc), "\n"+indent+path.Base(name)+"/ ") {
			t.Errorf("docs/architecture.md does not say what %s is", pkg)
		}
	}
}
