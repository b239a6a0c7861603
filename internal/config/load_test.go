package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// write puts a file into a fresh directory and returns its path.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "skald.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, yaml string, environ ...string) Config {
	t.Helper()
	c, err := Load(write(t, yaml), environ)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// mistakes loads what must be refused and returns one line per mistake, with
// the file's path shortened to FILE.
func mistakes(t *testing.T, yaml string, environ ...string) []string {
	t.Helper()
	path := ""
	if yaml != "" {
		path = write(t, yaml)
	}
	c, err := Load(path, environ)
	var invalid *Error
	if !errors.As(err, &invalid) {
		t.Fatalf("Load = %v, want an *Error", err)
	}
	if !reflect.ValueOf(c).IsZero() {
		t.Error("a refused configuration is not zero")
	}
	var lines []string
	for _, m := range invalid.Mistakes {
		line := m.String()
		if path != "" {
			line = strings.ReplaceAll(line, path, "FILE")
		}
		lines = append(lines, line)
	}
	return lines
}

func get(c Config, key string) any {
	v := reflect.ValueOf(c)
	for part := range strings.SplitSeq(key, ".") {
		v = v.FieldByIndex(fieldNamed(v.Type(), part))
	}
	return v.Interface()
}

const sampleKey = "skald_abcdefgh_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// samples is a value for every setting that is nobody's default.
var samples = map[string]struct {
	text string
	want any
}{
	"app.name":                            {"orders", "orders"},
	"app.version":                         {"1.2.3", "1.2.3"},
	"app.tier":                            {"business", "business"},
	"store":                               {"memory", Memory},
	"app.environment":                     {"staging", Staging},
	"database.url":                        {"postgres://db/x", Secret("postgres://db/x")},
	"database.host":                       {"db", "db"},
	"database.port":                       {"6432", 6432},
	"database.name":                       {"k1s0_system", "k1s0_system"},
	"database.user":                       {"app", "app"},
	"database.password":                   {"hunter2", Secret("hunter2")},
	"database.password_file":              {"testdata/password", "testdata/password"},
	"database.ssl_mode":                   {"verify-ca", "verify-ca"},
	"database.ssl_root_cert":              {"/ca.pem", "/ca.pem"},
	"database.max_open_conns":             {"20", 20},
	"database.max_idle_conns":             {"2", 2},
	"database.conn_max_lifetime":          {"7m", 7 * time.Minute},
	"database.auto_migrate":               {"false", false},
	"database.statement_timeout":          {"10s", 10 * time.Second},
	"database.io_timeout":                 {"45s", 45 * time.Second},
	"database.embedded_dir":               {"/var/lib/skald", "/var/lib/skald"},
	"database.embedded_bin":               {"/opt/pg/bin", "/opt/pg/bin"},
	"vault.address":                       {"https://vault:8200", "https://vault:8200"},
	"vault.namespace":                     {"team", "team"},
	"vault.ca_cert":                       {"/ca.pem", "/ca.pem"},
	"vault.static_path":                   {"secret/data/x", "secret/data/x"},
	"vault.dynamic_path":                  {"database/creds/x", "database/creds/x"},
	"vault.username_key":                  {"user", "user"},
	"vault.password_key":                  {"pw", "pw"},
	"vault.auth_method":                   {"approle", "approle"},
	"vault.auth_mount":                    {"approle-eu", "approle-eu"},
	"vault.token":                         {"hvs.x", Secret("hvs.x")},
	"vault.token_file":                    {"/vault/token", "/vault/token"},
	"vault.role_id":                       {"skald", "skald"},
	"vault.secret_id":                     {"s", Secret("s")},
	"vault.secret_id_file":                {"/vault/secret-id", "/vault/secret-id"},
	"vault.kubernetes_role":               {"skald", "skald"},
	"vault.jwt_file":                      {"/jwt", "/jwt"},
	"vault.timeout":                       {"3s", 3 * time.Second},
	"server.listen_addr":                  {"127.0.0.1:0", "127.0.0.1:0"},
	"server.debug_addr":                   {"localhost:6060", "localhost:6060"},
	"server.max_body_bytes":               {"2048", int64(2048)},
	"server.read_timeout":                 {"5s", 5 * time.Second},
	"server.write_timeout":                {"3m", 3 * time.Minute},
	"server.idle_timeout":                 {"90s", 90 * time.Second},
	"server.request_timeout":              {"20s", 20 * time.Second},
	"server.max_wait":                     {"10s", 10 * time.Second},
	"server.max_streams":                  {"7", 7},
	"server.shutdown_timeout":             {"40s", 40 * time.Second},
	"engine.node_id":                      {"node-1", "node-1"},
	"engine.lease_ttl":                    {"3s", 3 * time.Second},
	"engine.reaper_interval":              {"200ms", 200 * time.Millisecond},
	"engine.max_running":                  {"64", 64},
	"engine.drain_timeout":                {"3s", 3 * time.Second},
	"engine.default_saga_timeout":         {"0", time.Duration(0)},
	"engine.default_compensation_timeout": {"1h30m", 90 * time.Minute},
	"engine.default_step_timeout":         {"2s", 2 * time.Second},
	"engine.max_response_bytes":           {"4096", int64(4096)},
	"engine.slow_step_after":              {"1s", time.Second},
	"engine.stalled_after":                {"1h", time.Hour},
	"engine.stalled_failures":             {"5", 5},
	"engine.commit_batch":                 {"1", 1},
	"egress.allow":                        {"127.0.0.1:18000-18100, 10.0.0.0/8", []string{"127.0.0.1:18000-18100", "10.0.0.0/8"}},
	"egress.deny":                         {"10.1.0.0/16", []string{"10.1.0.0/16"}},
	"jobs.worker":                         {"false", false},
	"jobs.worker_queues":                  {"system, default", []string{"system", "default"}},
	"jobs.worker_concurrency":             {"7", 7},
	"jobs.worker_shell":                   {"true", true},
	"jobs.worker_shell_allow":             {"/bin/sh, /usr/bin/env", []string{"/bin/sh", "/usr/bin/env"}},
	"egress.allow_loopback":               {"false", false},
	"audit.seal_interval":                 {"300ms", 300 * time.Millisecond},
	"log.level":                           {"debug", "debug"},
	"log.format":                          {"text", "text"},
	"auth.mode":                           {"required", AuthRequired},
	"auth.bootstrap_admin_key":            {sampleKey, Secret(sampleKey)},
	"auth.bootstrap_admin_key_file":       {"testdata/admin_key", "testdata/admin_key"},
	"auth.jwt_issuer":                     {"https://issuer.example/realms/x", "https://issuer.example/realms/x"},
	"auth.jwt_audience":                   {"orders", "orders"},
	"auth.jwks_url":                       {"http://127.0.0.1:9/keys", "http://127.0.0.1:9/keys"},
	"auth.jwt_algorithms":                 {"ES256, RS256", []string{"ES256", "RS256"}},
	"auth.jwt_leeway":                     {"60s", time.Minute},
	"auth.jwt_role_claim":                 {"realm_access.roles", "realm_access.roles"},
	"auth.jwt_tenant_claim":               {"https://skald.example/tenant", "https://skald.example/tenant"},
	"encryption.keys":                     {sampleMaster, Secret(sampleMaster)},
	"encryption.key_file":                 {"testdata/master_keys", "testdata/master_keys"},
	"encryption.seal":                     {"false", false},
	"tenant.default_id":                   {"0198a5b0-0000-7000-8000-000000000002", uuid.MustParse("0198a5b0-0000-7000-8000-000000000002")},
	"tenant.default_region":               {"eu", "eu"},
	"tenant.default_major":                {"65535", 65535},
	"tenant.default_minor":                {"3", 3},
	"limits.max_steps":                    {"7", 7},
	"limits.max_workflow_bytes":           {"1024", int64(1024)},
	"limits.max_json_depth":               {"8", 8},
	"webhooks.allow_http":                 {"false", false},
	"webhooks.timeout":                    {"3s", 3 * time.Second},
	"webhooks.concurrency":                {"3", 3},
	"webhooks.max_attempts":               {"5", 5},
	"webhooks.initial_interval":           {"1s", time.Second},
	"webhooks.max_interval":               {"10m", 10 * time.Minute},
	"webhooks.disable_after":              {"4", 4},
	"webhooks.keep":                       {"24h", 24 * time.Hour},
	"kafka.brokers":                       {"a:9092, [::1]:9093", []string{"a:9092", "[::1]:9093"}},
	"kafka.event_topic":                   {"orders.sagas", "orders.sagas"},
	"kafka.tls":                           {"true", true},
	"kafka.ca_file":                       {"/kafka.pem", "/kafka.pem"},
	"kafka.sasl":                          {"scram-sha-512", "scram-sha-512"},
	"kafka.sasl_user":                     {"skald", "skald"},
	"kafka.sasl_password":                 {"hunter3", Secret("hunter3")},
	"ingest.topics":                       {`[.-]dl[qt]$`, `[.-]dl[qt]$`},
	"ingest.exclude":                      {"^test", "^test"},
	"ingest.group":                        {"g", "g"},
	"ingest.tenant":                       {"0198a5b0-0000-7000-8000-000000000002", "0198a5b0-0000-7000-8000-000000000002"},
	"ingest.start":                        {"latest", "latest"},
	"ingest.batch":                        {"50", 50},
	"ingest.max_bytes":                    {"2097152", 2 << 20},
	"ingest.suffixes":                     {".dead,-dead", []string{".dead", "-dead"}},
	"ingest.prefixes":                     {"dead.", []string{"dead."}},
	"ingest.allow_topic_creation":         {"true", true},
	"dlq.auto_retry":                      {"false", false},
	"dlq.max_retries":                     {"5", 5},
	"dlq.initial_interval":                {"2s", 2 * time.Second},
	"dlq.max_interval":                    {"2h", 2 * time.Hour},
	"dlq.multiplier":                      {"3", 3},
	"dlq.max_generations":                 {"4", 4},
	"dlq.retention_days":                  {"60", 60},
	"dlq.archive_days":                    {"730", 730},
	"dlq.lease":                           {"5s", 5 * time.Second},
	"dlq.poll_interval":                   {"20ms", 20 * time.Millisecond},
	"dlq.batch":                           {"100", 100},
	"dlq.http_concurrency":                {"4", 4},
	"dlq.http_timeout":                    {"2s", 2 * time.Second},
	"dlq.redrive_rate":                    {"60", 60},
	"dlq.max_redrive_rate":                {"500", 500},
	"dlq.bulk_limit":                      {"50", 50},
	"jobs.scheduler":                      {"false", false},
	"jobs.log_offload_url":                {"s3://logs/jobs?region=eu-1", "s3://logs/jobs?region=eu-1"},
	"jobs.log_s3_access_key":              {"skald", "skald"},
	"jobs.log_s3_secret_key":              {"hunter4", Secret("hunter4")},
	"jobs.log_s3_secret_key_file":         {"testdata/password", "testdata/password"},
	"jobs.redis_url":                      {"redis://:hunter5@cache/0", Secret("redis://:hunter5@cache/0")},
	"jobs.upkeep_interval":                {"7s", 7 * time.Second},
	"jobs.redis_prefix":                   {"skald", "skald"},
	"retention.completed":                 {"2h", 2 * time.Hour},
	"retention.failed":                    {"3h", 3 * time.Hour},
	"retention.interval":                  {"2s", 2 * time.Second},
	"retention.batch_size":                {"9", 9},
	"test.clock_offset":                   {"-90s", -90 * time.Second},
	"failpoints":                          {"engine.commit=kill@3", "engine.commit=kill@3"},
}

// sampleMaster is a master key.
const sampleMaster = "k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE="

// beside is what a setting cannot do without.
var beside = map[string][]string{
	"auth.jwks_url":               {"SKALD_AUTH_JWT_ISSUER=https://issuer.example"},
	"ingest.topics":               {"SKALD_KAFKA_BROKERS=a:9092"},
	"jobs.worker_shell":           {"SKALD_JOBS_WORKER_SHELL_ALLOW=/bin/sh"},
	"jobs.log_s3_access_key":      {"SKALD_LOG_OFFLOAD_URL=s3://logs", "SKALD_JOBS_LOG_S3_SECRET_KEY=x"},
	"jobs.log_s3_secret_key":      {"SKALD_LOG_OFFLOAD_URL=s3://logs", "SKALD_JOBS_LOG_S3_ACCESS_KEY=x"},
	"jobs.log_s3_secret_key_file": {"SKALD_LOG_OFFLOAD_URL=s3://logs", "SKALD_JOBS_LOG_S3_ACCESS_KEY=x"},
	"vault.static_path":           {"SKALD_VAULT_ADDRESS=https://vault", "SKALD_VAULT_TOKEN=x", "SKALD_DATABASE_HOST=db"},
	"vault.dynamic_path":          {"SKALD_VAULT_ADDRESS=https://vault", "SKALD_VAULT_TOKEN=x", "SKALD_DATABASE_HOST=db", "SKALD_DATABASE_AUTO_MIGRATE=false"},
}

func TestEverySettingIsReadUnderEachOfItsNames(t *testing.T) {
	for _, f := range fields {
		sample, ok := samples[f.key]
		if !ok {
			t.Errorf("%s has no sample", f.key)
			continue
		}
		if cmp.Equal(get(Default(Test), f.key), sample.want) {
			t.Errorf("%s: the sample is the default, so it proves nothing", f.key)
		}
		section, key, nested := strings.Cut(f.key, ".")
		yaml := section + ": \"" + sample.text + "\"\n"
		if nested {
			yaml = section + ":\n  " + key + ": \"" + sample.text + "\"\n"
		}
		profile := "SKALD_ENV=test"
		if f.key == "app.environment" {
			profile = "PATH=/bin"
		}
		environ := append([]string{profile}, beside[f.key]...)
		if got := get(load(t, yaml, environ...), f.key); !cmp.Equal(got, sample.want) {
			t.Errorf("%s in a file = %v, want %v", f.key, got, sample.want)
		}
		for _, name := range f.names {
			c, err := Load("", append(slices.Clone(environ), name+"="+sample.text))
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if got := get(c, f.key); !cmp.Equal(got, sample.want) {
				t.Errorf("%s = %v, want %v", name, got, sample.want)
			}
		}
	}
}

func TestTheNamesOthersRelyOn(t *testing.T) {
	for name, key := range map[string]string{
		"SKALD_ENV":                         "app.environment",
		"SKALD_DATABASE_URL":                "database.url",
		"SKALD_DATABASE_MAX_OPEN_CONNS":     "database.max_open_conns",
		"SKALD_DATABASE__MAX_OPEN_CONNS":    "database.max_open_conns",
		"SKALD_LISTEN_ADDR":                 "server.listen_addr",
		"SKALD_NODE_ID":                     "engine.node_id",
		"SKALD_LEASE_TTL":                   "engine.lease_ttl",
		"SKALD_REAPER_INTERVAL":             "engine.reaper_interval",
		"SKALD_EGRESS_ALLOW":                "egress.allow",
		"SKALD_FAILPOINTS":                  "failpoints",
		"SKALD_TEST_CLOCK_OFFSET":           "test.clock_offset",
		"SKALD_PG_BIN":                      "database.embedded_bin",
		"SKALD_ENGINE_DEFAULT_STEP_TIMEOUT": "engine.default_step_timeout",
		"SKALD_REDIS_URL":                   "jobs.redis_url",
		"SKALD_LOG_OFFLOAD_URL":             "jobs.log_offload_url",
		"SKALD_JOBS__LOG_OFFLOAD_URL":       "jobs.log_offload_url",
		"SKALD_BOOTSTRAP_ADMIN_KEY":         "auth.bootstrap_admin_key",
	} {
		c, err := Load("", []string{"SKALD_ENV=test", name + "=" + samples[key].text})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := get(c, key); !cmp.Equal(got, samples[key].want) {
			t.Errorf("%s sets %s to %v, want %v", name, key, got, samples[key].want)
		}
	}
}

func TestNoTwoSettingsShareAName(t *testing.T) {
	owner := map[string]string{}
	for _, f := range fields {
		for _, name := range f.names {
			if other, taken := owner[name]; taken {
				t.Errorf("%s belongs to %s and to %s", name, other, f.key)
			}
			if serviceLink(name, "x") {
				t.Errorf("%s would be taken for a variable of Kubernetes", name)
			}
			owner[name] = f.key
		}
		if f.doc == "" {
			t.Errorf("%s has no doc", f.key)
		}
	}
}

func TestLaterLayersWin(t *testing.T) {
	const file = "log: {level: warn}\ndatabase: {host: db, max_open_conns: 30}\n"
	if got := load(t, file); got.Log.Level != "warn" || got.Database.MaxOpenConns != 30 || got.Database.MaxIdleConns != 3 {
		t.Errorf("file over defaults: level %s, conns %d/%d; want warn, 30/3",
			got.Log.Level, got.Database.MaxOpenConns, got.Database.MaxIdleConns)
	}
	got := load(t, file, "SKALD_LOG_LEVEL=error", "SKALD_ENV=production")
	if got.Log.Level != "error" || got.App.Environment != Prod {
		t.Errorf("environment over file: %s in %s, want error in prod", got.Log.Level, got.App.Environment)
	}
	if got.Database.MaxOpenConns != 30 || got.Database.MaxIdleConns != 10 {
		t.Errorf("conns = %d/%d, want the file's 30 over prod's default 10 idle",
			got.Database.MaxOpenConns, got.Database.MaxIdleConns)
	}
	if got := load(t, "", "SKALD_LOG_LEVEL=warn", "SKALD_LOG_LEVEL=debug"); got.Log.Level != "debug" {
		t.Errorf("of a repeated variable %s counted, want the last", got.Log.Level)
	}
	if got := load(t, "egress: {allow: [10.0.0.0/8]}", "SKALD_EGRESS_ALLOW="); len(got.Egress.Allow) != 0 {
		t.Errorf("an empty variable left %v", got.Egress.Allow)
	}
	if got := load(t, "engine: {default_saga_timeout: 0}"); got.Engine.DefaultSagaTimeout != 0 {
		t.Errorf("a plain 0 in the file left %s", got.Engine.DefaultSagaTimeout)
	}
	if got := load(t, "server:\n  debug_addr:\nlog:\n"); !cmp.Equal(got, load(t, "")) {
		t.Error("a key or section with nothing behind it changed something")
	}
}

func TestNoFileIsSearchedFor(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"skald.yaml", "config.yaml"} {
		if err := os.WriteFile(name, []byte("nonsense: true"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SKALD_LOG_LEVEL", "debug")
	got, err := Load("", nil)
	if diff := cmp.Diff(Default(Dev), got); err != nil || diff != "" {
		t.Errorf("Load without file and environment: %v (-default +got)\n%s", err, diff)
	}
}

func TestProfilesHaveTheirDefaults(t *testing.T) {
	type profile struct {
		SSLMode     string
		Open, Idle  int
		AutoMigrate bool
		Loopback    bool
	}
	for env, want := range map[string]profile{
		"dev":        {"disable", 10, 3, true, true},
		"test":       {"disable", 10, 3, true, true},
		"staging":    {"require", 25, 5, false, false},
		"prod":       {"verify-full", 50, 10, false, false},
		"production": {"verify-full", 50, 10, false, false},
	} {
		c := load(t, "app: {environment: "+env+"}\ndatabase: {host: db}")
		d := c.Database
		got := profile{d.SSLMode, d.MaxOpenConns, d.MaxIdleConns, d.AutoMigrate, c.Egress.AllowLoopback}
		if got != want {
			t.Errorf("%s = %+v, want %+v", env, got, want)
		}
	}
}

func TestTheLaterOfTwoAlternativesWins(t *testing.T) {
	c := load(t, "database: {host: db, password: old}", "SKALD_DATABASE_URL=postgres://other/x", "SKALD_DATABASE_PASSWORD_FILE=testdata/password")
	if c.Database.Host != "" || c.Database.URL != "postgres://other/x" {
		t.Errorf("host %q beside url %q, want the variable's url alone", c.Database.Host, string(c.Database.URL))
	}
	if c.Database.Password != "correct horse battery staple" {
		t.Errorf("password = %q, want the file's, without its line end", string(c.Database.Password))
	}
	c = load(t, "database: {url: postgres://other/x}", "SKALD_DATABASE_HOST=db")
	if c.Database.Host != "db" || c.Database.URL != "" {
		t.Errorf("host %q beside url %q, want the variable's host alone", c.Database.Host, string(c.Database.URL))
	}
}
