package config

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRulesBetweenSettings(t *testing.T) {
	for _, tt := range []struct {
		name    string
		environ []string
		want    string // "" when it is allowed
	}{
		{"more idle connections than connections", []string{"SKALD_DATABASE_MAX_OPEN_CONNS=10", "SKALD_DATABASE_MAX_IDLE_CONNS=11"},
			"database.max_idle_conns (SKALD_DATABASE_MAX_IDLE_CONNS): must not exceed database.max_open_conns"},
		{"as many idle connections as connections", []string{"SKALD_DATABASE_MAX_OPEN_CONNS=10", "SKALD_DATABASE_MAX_IDLE_CONNS=10"}, ""},
		{"statements that outlive their connection", []string{"SKALD_DATABASE_STATEMENT_TIMEOUT=1m"},
			"database.io_timeout (default; env SKALD_DATABASE_IO_TIMEOUT): must exceed database.statement_timeout"},
		{"statements without a limit", []string{"SKALD_DATABASE_STATEMENT_TIMEOUT=0"}, ""},
		{"waits longer than answers may take", []string{"SKALD_SERVER_MAX_WAIT=90s"},
			"server.write_timeout (default; env SKALD_SERVER_WRITE_TIMEOUT): must exceed the sum of server.max_wait and server.request_timeout, or responses would be cut off"},
		{"waits just shorter", []string{"SKALD_SERVER_MAX_WAIT=89s"}, ""},
		{"draining until after the end", []string{"SKALD_ENGINE_DRAIN_TIMEOUT=25s"},
			"server.shutdown_timeout (default; env SKALD_SERVER_SHUTDOWN_TIMEOUT): must exceed engine.drain_timeout, or the last outcomes would be lost"},
		{"a reaper slower than the leases", []string{"SKALD_LEASE_TTL=2s", "SKALD_REAPER_INTERVAL=3s"},
			"engine.reaper_interval (SKALD_REAPER_INTERVAL): must not exceed engine.lease_ttl, or dead nodes would go unnoticed"},
		{"the shortest lease with the default reaper", []string{"SKALD_LEASE_TTL=1s"}, ""},
		{"waits of dead letters that shrink", []string{"SKALD_DLQ_INITIAL_INTERVAL=2h"},
			"dlq.max_interval (default; env SKALD_DLQ_MAX_INTERVAL): must not be less than dlq.initial_interval"},
		{"a default rate above the highest", []string{"SKALD_DLQ_MAX_REDRIVE_RATE=10"},
			"dlq.redrive_rate (default; env SKALD_DLQ_REDRIVE_RATE): must not exceed dlq.max_redrive_rate"},
		{"dead-letter topics without brokers", []string{"SKALD_INGEST_TOPICS=dlq$"},
			"ingest.topics (SKALD_INGEST_TOPICS): requires kafka.brokers and the store postgres"},
		{"events that become dead letters", []string{"SKALD_INGEST_TOPICS=.", "SKALD_KAFKA_BROKERS=a:9092", "SKALD_KAFKA_EVENT_TOPIC=e"},
			"kafka.event_topic (SKALD_KAFKA_EVENT_TOPIC): must not match ingest.topics: every event would become a dead letter"},
		{"all topics, and no events", []string{"SKALD_INGEST_TOPICS=.", "SKALD_KAFKA_BROKERS=a:9092"}, ""},
		{"events without brokers", []string{"SKALD_KAFKA_EVENT_TOPIC=e"}, "kafka.event_topic (SKALD_KAFKA_EVENT_TOPIC): requires kafka.brokers"},
		{"sources without brokers", []string{"SKALD_KAFKA_SOURCE_TOPICS=orders"},
			"kafka.source_topics (SKALD_KAFKA_SOURCE_TOPICS): requires kafka.brokers and the store postgres"},
		{"a source that is not a topic", []string{"SKALD_KAFKA_BROKERS=a:9092", "SKALD_KAFKA_SOURCE_TOPICS=orders,bills=x"},
			"kafka.source_topics (SKALD_KAFKA_SOURCE_TOPICS): must be a list whose entries are the name of a topic, alone or with = and the UUID of a tenant; entry 2 is not"},
		{"a source of two tenants", []string{"SKALD_KAFKA_BROKERS=a:9092", "SKALD_KAFKA_SOURCE_TOPICS=e,e=0198a5b0-0000-7000-8000-000000000002"},
			"kafka.source_topics (SKALD_KAFKA_SOURCE_TOPICS): names e twice: a topic belongs to one tenant"},
		{"audit events as a source", []string{"SKALD_KAFKA_BROKERS=a:9092", "SKALD_KAFKA_EVENT_TOPIC=e", "SKALD_KAFKA_SOURCE_TOPICS=e"},
			"kafka.source_topics (SKALD_KAFKA_SOURCE_TOPICS): must not contain kafka.event_topic: the audit events of all tenants would become events of one"},
		{"a source of dead letters", []string{"SKALD_KAFKA_BROKERS=a:9092", "SKALD_INGEST_TOPICS=dlq$", "SKALD_KAFKA_SOURCE_TOPICS=e.dlq"},
			"kafka.source_topics (SKALD_KAFKA_SOURCE_TOPICS): must not match ingest.topics: e.dlq would also be read as a dead-letter topic"},
		{"one group for two purposes", []string{"SKALD_KAFKA_BROKERS=a:9092", "SKALD_KAFKA_SOURCE_TOPICS=e", "SKALD_KAFKA_SOURCE_GROUP=g", "SKALD_INGEST_GROUP=g"},
			"kafka.source_group (SKALD_KAFKA_SOURCE_GROUP): must not be ingest.group: its members read other topics"},
		{"tenants of no events", []string{"SKALD_KAFKA_EVENT_TENANTS=0198a5b0-0000-7000-8000-000000000002"},
			"kafka.event_tenants (SKALD_KAFKA_EVENT_TENANTS): requires kafka.event_topic"},
		{"logs in the clear in prod", []string{"SKALD_ENV=prod", "SKALD_DATABASE_HOST=db", "SKALD_LOG_OFFLOAD_URL=s3://logs?endpoint=http://s3.internal"},
			"jobs.log_offload_url (SKALD_LOG_OFFLOAD_URL): must not have an http endpoint in prod: logs would be sent unencrypted"},
		{"logs in the clear on loopback", []string{"SKALD_ENV=prod", "SKALD_DATABASE_HOST=db", "SKALD_LOG_OFFLOAD_URL=s3://logs?endpoint=http://127.0.0.1:9000"}, ""},
		{"logs in the clear elsewhere", []string{"SKALD_LOG_OFFLOAD_URL=s3://logs?endpoint=http://s3.internal"}, ""},
		{"logs in a directory", []string{"SKALD_LOG_OFFLOAD_URL=file:///var/lib/skald/logs"}, ""},
		{"logs in a relative directory", []string{"SKALD_LOG_OFFLOAD_URL=file://logs"},
			"jobs.log_offload_url (SKALD_LOG_OFFLOAD_URL): must be empty or file:// and the absolute path of a directory, or s3:// and a bucket, optionally with a prefix"},
		{"logs with a password in their URL", []string{"SKALD_LOG_OFFLOAD_URL=s3://key:hush@logs"},
			"jobs.log_offload_url (SKALD_LOG_OFFLOAD_URL): must be empty or file:// and the absolute path of a directory, or s3:// and a bucket, optionally with a prefix"},
		{"logs nowhere", []string{"SKALD_LOG_OFFLOAD_URL=/var/log"},
			"jobs.log_offload_url (SKALD_LOG_OFFLOAD_URL): must be empty or file:// and the absolute path of a directory, or s3:// and a bucket, optionally with a prefix"},
		{"a password in the clear in prod", []string{"SKALD_ENV=prod", "SKALD_DATABASE_HOST=db", "SKALD_REDIS_URL=redis://:hush@cache"},
			"jobs.redis_url (SKALD_REDIS_URL): must be rediss:// in prod: the password would be sent unencrypted"},
		{"Redis without a password in prod", []string{"SKALD_ENV=prod", "SKALD_DATABASE_HOST=db", "SKALD_REDIS_URL=redis://cache"}, ""},
		{"Redis on this machine in prod", []string{"SKALD_ENV=prod", "SKALD_DATABASE_HOST=db", "SKALD_REDIS_URL=redis://:hush@127.0.0.1"}, ""},
		{"a password to Sentinels in the clear in prod", []string{"SKALD_ENV=prod", "SKALD_DATABASE_HOST=db", "SKALD_REDIS_URL=redis+sentinel://127.0.0.1,h/m?sentinel_password=hush"},
			"jobs.redis_url (SKALD_REDIS_URL): must be rediss:// in prod: the password would be sent unencrypted"},
		{"a password to a Cluster in the clear in prod", []string{"SKALD_ENV=prod", "SKALD_DATABASE_HOST=db", "SKALD_REDIS_URL=redis+cluster://:hush@127.0.0.1:7000,127.0.0.1:7001"},
			"jobs.redis_url (SKALD_REDIS_URL): must be rediss:// in prod: the password would be sent unencrypted"},
		{"a Cluster by TLS in prod", []string{"SKALD_ENV=prod", "SKALD_DATABASE_HOST=db", "SKALD_REDIS_URL=rediss+cluster://:hush@a:7000,b:7000"}, ""},
		{"Sentinels without a password in prod", []string{"SKALD_ENV=prod", "SKALD_DATABASE_HOST=db", "SKALD_REDIS_URL=redis+sentinel://a,b/m"}, ""},
		{"a Redis that is none", []string{"SKALD_REDIS_URL=cache:6379"},
			"jobs.redis_url (SKALD_REDIS_URL): must be empty or redis:// or rediss:// and a host, optionally with :password@ or user:password@, a port and /database; or redis+sentinel://, comma-separated hosts and /master; or redis+cluster:// and comma-separated hosts"},
		{"keys for no S3", []string{"SKALD_JOBS_LOG_S3_ACCESS_KEY=a", "SKALD_JOBS_LOG_S3_SECRET_KEY=b"},
			"jobs.log_s3_access_key (SKALD_JOBS_LOG_S3_ACCESS_KEY): requires jobs.log_offload_url to be s3://"},
		{"half a key for S3", []string{"SKALD_LOG_OFFLOAD_URL=s3://logs", "SKALD_JOBS_LOG_S3_ACCESS_KEY=a"},
			"jobs.log_s3_secret_key (default; env SKALD_JOBS_LOG_S3_SECRET_KEY): and jobs.log_s3_access_key must be set together"},
		{"events that are excluded", []string{"SKALD_INGEST_TOPICS=.", "SKALD_INGEST_EXCLUDE=^skald", "SKALD_KAFKA_BROKERS=a:9092"}, ""},
		{"a pattern that is none", []string{"SKALD_INGEST_TOPICS=(", "SKALD_KAFKA_BROKERS=a:9092"},
			"ingest.topics (SKALD_INGEST_TOPICS): must be empty or a regular expression (RE2)"},
		{"another clock outside of tests", []string{"SKALD_TEST_CLOCK_OFFSET=1h"},
			"test.clock_offset (SKALD_TEST_CLOCK_OFFSET): is refused unless app.environment (SKALD_ENV) is test"},
		{"another clock in tests", []string{"SKALD_TEST_CLOCK_OFFSET=1h", "SKALD_ENV=test"}, ""},
		{"failpoints outside of prod", []string{"SKALD_FAILPOINTS=a=kill", "SKALD_ENV=staging"}, ""},
		{"failpoints in prod", []string{"SKALD_FAILPOINTS=a=kill", "SKALD_ENV=prod", "SKALD_DATABASE_HOST=db"},
			"failpoints (SKALD_FAILPOINTS): is refused in prod"},
		{"prod without a database", []string{"SKALD_ENV=prod"},
			"database.host (default; env SKALD_DATABASE_HOST): must be set in prod (or database.url): the private PostgreSQL is for dev, test and trials"},
		{"staging without a database", []string{"SKALD_ENV=staging"}, ""},
		{"prod in plain text", []string{"SKALD_ENV=prod", "SKALD_DATABASE_HOST=db", "SKALD_DATABASE_SSL_MODE=disable"},
			"database.ssl_mode (SKALD_DATABASE_SSL_MODE): must not be disable in prod"},
		{"prod with a URL that may be plain text", []string{"SKALD_ENV=prod", "SKALD_DATABASE_URL=postgres://db/x?sslmode=prefer"},
			"database.url (SKALD_DATABASE_URL): must not have an sslmode below require in prod"},
		{"prod with a URL that leaves TLS to the profile", []string{"SKALD_ENV=prod", "SKALD_DATABASE_URL=postgres://db/x"}, ""},
		{"no credentials off loopback", []string{"SKALD_AUTH_MODE=off", "SKALD_LISTEN_ADDR=:8080"},
			"auth.mode (SKALD_AUTH_MODE): must not be off in prod, or if server.listen_addr is not on loopback"},
		{"no credentials in prod", []string{"SKALD_AUTH_MODE=off", "SKALD_ENV=prod", "SKALD_DATABASE_HOST=db"},
			"auth.mode (SKALD_AUTH_MODE): must not be off in prod, or if server.listen_addr is not on loopback"},
		{"no credentials on one's own machine", []string{"SKALD_AUTH_MODE=off", "SKALD_BOOTSTRAP_ADMIN_KEY=" + sampleKey}, ""},
		{"an issuer's keys without the issuer", []string{"SKALD_AUTH_JWKS_URL=https://issuer.example/keys"},
			"auth.jwks_url (SKALD_AUTH_JWKS_URL): requires auth.jwt_issuer"},
		{"a client of no issuer", []string{"SKALD_AUTH_OIDC_CLIENT_ID=skald", "SKALD_AUTH_OIDC_CLIENT_SECRET=x"},
			"auth.oidc_client_id (SKALD_AUTH_OIDC_CLIENT_ID): requires auth.jwt_issuer"},
		{"a client without its secret", []string{"SKALD_AUTH_OIDC_CLIENT_ID=skald", "SKALD_AUTH_JWT_ISSUER=https://i.example"},
			"auth.oidc_client_id (SKALD_AUTH_OIDC_CLIENT_ID): requires auth.oidc_client_secret"},
		{"a bootstrap key that is none", []string{"SKALD_BOOTSTRAP_ADMIN_KEY=hunter2"},
			"auth.bootstrap_admin_key (SKALD_BOOTSTRAP_ADMIN_KEY): must be empty or an API key, as skald key generate prints it"},
		{"no algorithms", []string{"SKALD_AUTH_JWT_ALGORITHMS="}, "auth.jwt_algorithms (SKALD_AUTH_JWT_ALGORITHMS): must be one of EdDSA, ES256, RS256"},
		{"an algorithm with a shared secret", []string{"SKALD_AUTH_JWT_ALGORITHMS=ES256,HS256"},
			"auth.jwt_algorithms (SKALD_AUTH_JWT_ALGORITHMS): must be one of EdDSA, ES256, RS256; entry 2 is not"},
		{"a master key without a name", []string{"SKALD_ENCRYPTION_KEYS=AAAA"},
			"encryption.keys (SKALD_ENCRYPTION_KEYS): entry 1 must be ID:KEY, where ID is 1 to 32 letters, digits, _ and -"},
		{"a short master key", []string{"SKALD_ENCRYPTION_KEYS=" + sampleMaster + ",b:QUFB"},
			"encryption.keys (SKALD_ENCRYPTION_KEYS): entry 2 must have a key of 32 bytes in base64, as openssl rand -base64 32 prints it"},
		{"a file of something else than master keys", []string{"SKALD_ENCRYPTION_KEY_FILE=testdata/password"},
			"encryption.key_file (SKALD_ENCRYPTION_KEY_FILE): entry 1 must be ID:KEY, where ID is 1 to 32 letters, digits, _ and -"},
		{"master keys in two places", []string{"SKALD_ENCRYPTION_KEYS=" + sampleMaster, "SKALD_ENCRYPTION_KEY_FILE=testdata/master_keys"},
			"encryption.key_file (SKALD_ENCRYPTION_KEY_FILE): excludes encryption.keys: set only one of them"},
		{"a secret of signatures that is none", []string{"SKALD_PARTICIPANTS_SIGNING_SECRETS=" + sampleSecret + ",hush"},
			"participants.signing_secrets (SKALD_PARTICIPANTS_SIGNING_SECRETS): must be one or two secrets, each whsec_ and the base64 of 24 to 64 bytes"},
		{"three secrets of signatures", []string{"SKALD_PARTICIPANTS_SIGNING_SECRETS=" + strings.Repeat(sampleSecret+" ", 3)},
			"participants.signing_secrets (SKALD_PARTICIPANTS_SIGNING_SECRETS): must be one or two secrets, each whsec_ and the base64 of 24 to 64 bytes"},
		{"two secrets of signatures", []string{"SKALD_PARTICIPANTS_SIGNING_SECRETS=" + strings.Repeat(sampleSecret+"\n", 2)}, ""},
		{"a file of something else than secrets of signatures", []string{"SKALD_PARTICIPANTS_SIGNING_SECRETS_FILE=testdata/password"},
			"participants.signing_secrets_file (SKALD_PARTICIPANTS_SIGNING_SECRETS_FILE): must be one or two secrets, each whsec_ and the base64 of 24 to 64 bytes"},
		{"master keys in prod", []string{"SKALD_ENV=prod", "SKALD_DATABASE_HOST=db", "SKALD_ENCRYPTION_KEYS=" + sampleMaster}, ""},
		{"staging in plain text", []string{"SKALD_ENV=staging", "SKALD_DATABASE_URL=postgres://db/x?sslmode=disable"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == "" {
				if _, err := Load("", tt.environ); err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if diff := cmp.Diff([]string{tt.want}, mistakes(t, "", tt.environ...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCredentialsAreRequiredExceptOnADevelopersMachine(t *testing.T) {
	for _, tt := range []struct {
		environ []string
		want    bool
	}{
		{nil, false},
		{[]string{"SKALD_ENV=test", "SKALD_LISTEN_ADDR=[::1]:0"}, false},
		{[]string{"SKALD_AUTH_MODE=off"}, false},
		{[]string{"SKALD_AUTH_MODE=off", "SKALD_BOOTSTRAP_ADMIN_KEY=" + sampleKey}, false},
		{[]string{"SKALD_AUTH_MODE=required"}, true},
		{[]string{"SKALD_LISTEN_ADDR=:8080"}, true},
		{[]string{"SKALD_LISTEN_ADDR=10.0.0.1:8080"}, true},
		{[]string{"SKALD_BOOTSTRAP_ADMIN_KEY=" + sampleKey}, true},
		{[]string{"SKALD_AUTH_BOOTSTRAP_ADMIN_KEY_FILE=testdata/admin_key"}, true},
		{[]string{"SKALD_AUTH_JWT_ISSUER=https://issuer.example"}, true},
		{[]string{"SKALD_ENV=staging"}, true},
		{[]string{"SKALD_ENV=prod", "SKALD_DATABASE_HOST=db"}, true},
	} {
		c, err := Load("", tt.environ)
		if err != nil || c.AuthRequired() != tt.want {
			t.Errorf("%v: required %t, %v; want %t", tt.environ, c.AuthRequired(), err, tt.want)
		}
	}
}

func TestEveryProfileAcceptsItsOwnDefaults(t *testing.T) {
	for _, env := range profiles {
		environ := []string{"SKALD_ENV=" + string(env), "SKALD_DATABASE_HOST=db"}
		if _, err := Load("", environ); err != nil {
			t.Errorf("%s: %v", env, err)
		}
	}
}

// TestRangesAreWhatTheManualSays tries the values just beyond both ends of every range, so that
// no range can be documented that is not checked.
func TestRangesAreWhatTheManualSays(t *testing.T) {
	var ranges int
	for _, f := range fields {
		_, text, ok := strings.Cut(f.allowed, " from ")
		if !ok {
			continue
		}
		ranges++
		low, high, _ := strings.Cut(text, " to ")
		for _, outside := range []string{step(t, f, low, -1), step(t, f, high, +1)} {
			_, err := Load("", []string{"SKALD_ENV=test", f.names[0] + "=" + outside})
			if err == nil || !strings.Contains(err.Error(), f.key+" ("+f.names[0]+"): must be "+f.allowed) {
				t.Errorf("%s=%s: %v, want it refused", f.names[0], outside, err)
			}
		}
	}
	if ranges < 25 {
		t.Errorf("found %d ranges, the words must have changed", ranges)
	}
}

// step returns the value one unit from end.
func step(t *testing.T, f field, end string, by int64) string {
	t.Helper()
	value, ok := f.convert(end)
	if !ok {
		t.Fatalf("%s: %q is no value of it", f.key, end)
	}
	if d, ok := value.(time.Duration); ok {
		return (d + time.Duration(by)).String()
	}
	return strconv.FormatInt(reflect.ValueOf(value).Int()+by, 10)
}

func TestAddresses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		check func(string) bool
		good  []string
		bad   []string
	}{
		{"listen_addr", listenAddr,
			[]string{"127.0.0.1:8080", ":8080", "0.0.0.0:0", "[::1]:65535", "localhost:80", "skald.internal:80"},
			[]string{"", "8080", "127.0.0.1", "127.0.0.1:65536", "127.0.0.1:http", "::1:80", "http://127.0.0.1:80", "a b:80",
				"127.0.0.256:80"}},
		{"debug_addr", loopbackAddr,
			[]string{"127.0.0.1:6060", "127.1.2.3:6060", "[::1]:6060", "localhost:6060"},
			[]string{":6060", "0.0.0.0:6060", "10.0.0.1:6060", "[::]:6060", "skald:6060", "127.0.0.1"}},
		{"database.host", dbHosts,
			[]string{"db", "db-1.svc.cluster.local", "10.0.0.1", "::1", "/var/run/postgresql", "a,b,10.0.0.1"},
			[]string{"db:5432", "postgres://db", "u@db", "a,,b", "a b", "a,", "1.2.3"}},
		{"node_id", nodeID.MatchString,
			[]string{"host:8080", "node-1.zone_a"},
			[]string{"", "a b", "a\n", "käse", strings.Repeat("x", 129)}},
		{"api_key", apiKey, []string{sampleKey}, []string{"", "hunter2", sampleKey + "A", strings.ToUpper(sampleKey)}},
		{"issuer_url", issuerURL,
			[]string{"https://issuer.example", "https://issuer.example/realms/x", "http://127.0.0.1:8080/x", "http://localhost", "http://[::1]:1/x"},
			[]string{"", "issuer.example", "http://issuer.example", "http://10.0.0.1", "ftp://127.0.0.1",
				"https://u:p@issuer.example", "https://", "https://issuer.example/#x"}},
		{"base_path", basePath.MatchString,
			[]string{"/skald", "/a/b.c", "/~x"},
			[]string{"/", "skald", "/skald/", "//evil.example", "/a/../b/", "/a b", "/a?b", "/.."}},
		{"public_url", publicURL,
			[]string{"https://skald.example", "http://10.0.0.1:8080", "https://skald.example/a/b"},
			[]string{"", "skald.example", "https://skald.example/", "ftp://x", "https://u@x",
				"https://x?a", "https://x?", "https://x#a",
				"https://x#", "https:///x", "https://x/../y"}},
		{"role_name", roleName,
			[]string{"/skald/admins=admin", "org:ops = operator", "CN=x,DC=y=auditor", "0a1b-2c=worker"},
			[]string{"", "admin", "=admin", "x=", "x=root", "x=Admin", "x=admin=", "  =admin"}},
		{"ui_link", uiLink,
			[]string{"Jaeger=https://j.example/trace/{trace_id}", "Logs = http://l/?q={correlation_id}&x=a=b",
				"L=https://l?q={correlation_id}"},
			[]string{"", "Jaeger", "Jaeger=https://j.example/", "=https://j.example/{trace_id}", "J=javascript:alert({trace_id})",
				"J=/x/{trace_id}", "J=https://{correlation_id}/{trace_id}", "J=https://{trace_id}.j.example/",
				"J=https://{correlation_id}@j.example/x", "J=https://j.example{correlation_id}", "J=https:{correlation_id}"}},
		{"egress entry", egressEntry,
			[]string{"127.0.0.1:18000-18100", "10.0.0.0/8", "10.0.0.0/8:443", "10.0.0.1", "orders.internal:8443", "orders",
				"::1", "fd00::/8", "[fd00::/8]:443", "[::1]:1-65535", "[::1]", "*.internal", "*.internal:443", "bücher.example",
				"orders.internal.", "localhost:80"},
			[]string{"", ":80", "10.0.0.0/33", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:20-10", "10.0.0.1:", "10.0.0.1:1-",
				"a:b", "http://orders", "*", "*internal", "a.*.b", "127.1", "0x7f000001", "orders.0X7F", "fe80::1%eth0", "[::1",
				"[::1]80", "[10.0.0.1]:80", "1.2.3", "a b", "10.0.0.1:1-2-3"}},
	} {
		for _, s := range tt.good {
			if !tt.check(s) {
				t.Errorf("%s %q is refused", tt.name, s)
			}
		}
		for _, s := range tt.bad {
			if tt.check(s) {
				t.Errorf("%s %q is accepted", tt.name, s)
			}
		}
	}
}
