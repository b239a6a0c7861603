// Package config turns defaults, a YAML file and the environment into one
// validated Config. Nothing else in the program reads the environment.
//
// The tags of the structs below define each setting completely: its key, what
// is allowed (validate), further names of its environment variable (env) and its
// meaning (doc). The loader, its messages, docs/configuration.md and
// config.example.yaml are all derived from these tags.
//
// Files, each on top of those before it: address, pages, secret, bindings, config, field, rule,
// conninfo, mistake, defaults, jobs, roles, sources, vault, changed, check, database, load.
package config

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Config is everything an operator can set. Load returns it complete and
// checked; Default returns it with nothing set. It is a value:
// copy it freely, and do not write to its lists.
type Config struct {
	Store              StoreKind          `key:"store" validate:"oneof=postgres memory" doc:"Where sagas are stored: postgres, or memory for trials. Data in memory is lost when the process ends; prod refuses this store."`
	Roles              []string           `key:"roles" validate:"min=1,dive,oneof=api engine scheduler worker ingest" doc:"The roles of this process: api serves the API, engine drives sagas, scheduler may lead the job runs (with jobs.scheduler), worker executes Skald's own job runs (with jobs.worker), ingest reads dead letters from Kafka (with ingest.topics). Deliveries, redrives, retention and sealing run in every process. At least one process must have each role."`
	App                App                `key:"app" doc:"Identity and profile of this installation."`
	Database           Database           `key:"database" doc:"The PostgreSQL that holds all state. Without url and host, Skald starts a private PostgreSQL."`
	Vault              Vault              `key:"vault" doc:"HashiCorp Vault, as the source of the database login. Disabled until a path is set. See docs/operations.md."`
	Server             Server             `key:"server" doc:"The HTTP API."`
	UI                 UI                 `key:"ui" doc:"The pages for people under /ui/ (docs/ui.md)."`
	Engine             Engine             `key:"engine" doc:"The saga engine of this node."`
	Egress             Egress             `key:"egress" doc:"Addresses at which participants and webhooks may be called. Every connection is checked against its resolved address; a workflow, webhook or target that names a blocked address or port is rejected. Ports of services other than HTTP (SSH, mail, databases) are blocked unless an entry of allow names them. An entry is a CIDR, an address or a host name, alone or with a port or port range: 10.0.0.0/8, 127.0.0.1:18000-18100, orders.internal:8443, *.example.com, [fd00::/8]:443."`
	Participants       Participants       `key:"participants" doc:"How participants are called (docs/participants.md)."`
	ParticipantSecrets ParticipantSecrets `key:"participant_secrets" doc:"Secrets that participants get in headers and bodies of calls, as ${secrets.NAME} (docs/workflows.md). The keys are the names of registered participants (for tenants other than the default one: the tenant's id, a slash and the name). Each has base_url, the URL at or below which its secrets may be sent, and secrets: by name, either file, a file of one line, or vault, an API path of Vault followed by # and a key. All nodes need the same setting; nodes that drive sagas read the values at startup and whenever they change. Example: {card: {base_url: https://api.card.example, secrets: {api_key: {file: /run/secrets/card}, token: {vault: secret/data/card#token}}}}."`
	Audit              Audit              `key:"audit" doc:"The audit trail."`
	Log                Log                `key:"log" doc:"Logging."`
	Auth               Auth               `key:"auth" doc:"Authentication: API keys, and JWTs of an OpenID Connect issuer. See docs/security.md."`
	Encryption         Encryption         `key:"encryption" doc:"Encryption of data from clients and participants before it is stored. Disabled without keys. See docs/security.md."`
	Tenant             Tenant             `key:"tenant" doc:"The default tenant."`
	Limits             Limits             `key:"limits" doc:"Limits on requests."`
	Webhooks           Webhooks           `key:"webhooks" doc:"Deliveries to webhooks (docs/webhooks.md)."`
	Kafka              Kafka              `key:"kafka" doc:"Kafka (docs/kafka.md): dead letters are ingested from it and sent back to it; records can start job runs; audit events can be published to it. Disabled without brokers."`
	Ingest             Ingest             `key:"ingest" doc:"Dead letters from Kafka (docs/kafka.md); disabled without topics."`
	DLQ                DLQ                `key:"dlq" doc:"The dead-letter queue (docs/dlq.md). Settings of letters are the defaults for topics without their own policy."`
	Jobs               Jobs               `key:"jobs" doc:"Job runs."`
	Retention          Retention          `key:"retention" doc:"How long ended sagas stay live before they are archived, unless their workflow sets its own retention."`
	Test               TestSeams          `key:"test" doc:"Settings for tests only; refused unless app.environment is test."`
	Failpoints         string             `key:"failpoints" validate:"max=4096" doc:"Faults to inject, such as name=kill@3;name2=err%0.01. Only binaries built with -tags failpoints support it; refused in prod."`
}

// Environment is the profile: it selects defaults, and prod refuses unsafe settings.
type Environment string

// The profiles. Load reads "production" as Prod.
const (
	Dev     Environment = "dev"
	Test    Environment = "test"
	Staging Environment = "staging"
	Prod    Environment = "prod"
)

// StoreKind is where sagas are kept.
type StoreKind string

// Roles of a process.
const (
	RoleAPI       = "api"
	RoleEngine    = "engine"
	RoleScheduler = "scheduler"
	RoleWorker    = "worker"
	RoleIngest    = "ingest"
)

// Has reports whether the process has a role.
func (c Config) Has(role string) bool { return slices.Contains(c.Roles, role) }

// The stores.
const (
	PostgreSQL StoreKind = "postgres"
	Memory     StoreKind = "memory"
)

// App names the installation. Apart from the profile, the program does not depend on
// it.
type App struct {
	Name        string      `key:"name" validate:"required,max=63" doc:"Name of this installation, for logs."`
	Version     string      `key:"version" validate:"max=64" doc:"Version of this installation; empty means the binary's own."`
	Tier        string      `key:"tier" validate:"max=64" doc:"Tier of this installation, for logs."`
	Environment Environment `key:"environment" env:"SKALD_ENV" validate:"oneof=dev test staging prod" doc:"Profile: selects the defaults; prod refuses unsafe settings. production means prod."`
}

// Database is how PostgreSQL is reached. URL and Host are never both set: Load lets the later
// source win. Password holds the content of PasswordFile when that is given.
type Database struct {
	URL              Secret        `key:"url" doc:"PostgreSQL URL or keyword DSN, possibly with several hosts (postgres://a:5432,b:5432/skald, or host=a,b dbname=skald). The keys below supply values that it omits. Excludes host."`
	Host             string        `key:"host" validate:"omitempty,db_hosts" doc:"Host, or several separated by commas; a directory means a Unix socket. Excludes url."`
	Port             int           `key:"port" validate:"min=1,max=65535" doc:"Port."`
	Name             string        `key:"name" validate:"required,max=63" doc:"Database name."`
	User             string        `key:"user" validate:"required,max=63" doc:"Role to log in as."`
	Password         Secret        `key:"password" doc:"Password. Excludes password_file."`
	PasswordFile     string        `key:"password_file" doc:"File that contains the password; trailing line breaks are ignored. It is read again when it changes and when PostgreSQL rejects the password. Excludes password."`
	SSLMode          string        `key:"ssl_mode" validate:"oneof=disable require verify-ca verify-full" doc:"TLS to PostgreSQL, unless the URL says otherwise. prod refuses disable."`
	SSLRootCert      string        `key:"ssl_root_cert" doc:"File of CA certificates to verify the server with; empty means the driver's default, or else the system's certificates."`
	MaxOpenConns     int           `key:"max_open_conns" validate:"min=10,max=1000" doc:"Maximum number of open connections of this node."`
	MaxIdleConns     int           `key:"max_idle_conns" validate:"min=0,max=1000" doc:"Connections kept open for reads by key; at most max_open_conns. Connections for lists close after a minute without use."`
	ConnMaxLifetime  time.Duration `key:"conn_max_lifetime" validate:"omitempty,min=1s,max=24h" doc:"A connection is replaced after this long; 0 means never."`
	AutoMigrate      bool          `key:"auto_migrate" doc:"Whether serve migrates the schema at startup; otherwise it only checks that the schema is current."`
	StatementTimeout time.Duration `key:"statement_timeout" validate:"omitempty,min=100ms,max=1h" doc:"PostgreSQL cancels a statement after this long; 0 means the server's setting. See docs/operations.md for PgBouncer."`
	IOTimeout        time.Duration `key:"io_timeout" validate:"min=1s,max=2h" doc:"A connection is closed when a single read or write takes this long; must exceed statement_timeout."`
	EmbeddedDir      string        `key:"embedded_dir" validate:"required" doc:"Data directory of the private PostgreSQL."`
	EmbeddedBin      string        `key:"embedded_bin" env:"SKALD_PG_BIN" doc:"Directory of the PostgreSQL programs for the private PostgreSQL; empty means the usual directories."`
}

// Server is the HTTP API. Byte counts are of the body as sent.
type Server struct {
	ListenAddr      string        `key:"listen_addr" env:"SKALD_LISTEN_ADDR" validate:"listen_addr" doc:"Address of the API. Port 0 picks a free one; an empty host means all interfaces."`
	BasePath        string        `key:"base_path" validate:"omitempty,base_path" doc:"Path under which a proxy publishes this server, such as /skald: the pages link below it, and requests are accepted with and without it. Empty means the root."`
	PublicURL       string        `key:"public_url" validate:"omitempty,public_url" doc:"URL at which clients reach this server, with the path that a proxy adds, such as https://skald.example/skald. Problem documents then link to the manual there; if empty, they link by a path, which a client resolves against the URL it called."`
	TLSCertFile     string        `key:"tls_cert_file" doc:"File of the API's certificate with its chain (PEM). If set, the API uses TLS with HTTP/2; if empty, plain HTTP. It is read again when it changes. Requires tls_key_file."`
	TLSKeyFile      string        `key:"tls_key_file" doc:"File of that certificate's private key (PEM)."`
	TLSClientCAFile string        `key:"tls_client_ca_file" doc:"File of CA certificates (PEM). If set, every connection needs a client certificate issued by one of them, including connections for /healthz and /metrics; requests still need a credential. Requires tls_cert_file."`
	DebugAddr       string        `key:"debug_addr" validate:"omitempty,loopback_addr" doc:"Address of profiling (pprof), on loopback only; empty means off."`
	MaxBodyBytes    int64         `key:"max_body_bytes" validate:"min=1024,max=67108864" doc:"Maximum size of a request body, and therefore of a payload."`
	ReadTimeout     time.Duration `key:"read_timeout" validate:"min=1s,max=10m" doc:"Maximum time to receive a request, headers and body."`
	HeaderTimeout   time.Duration `key:"header_timeout" validate:"min=100ms,max=1m" doc:"Maximum time to receive the headers of a request."`
	MinBodyRate     int           `key:"min_body_rate" validate:"min=0,max=1000000000" doc:"Minimum rate at which a client must send a body, on average, in bytes per second, after a grace of header_timeout (for imports, of request_timeout). The response to a slower request is 408. 0 means no minimum."`
	MaxConnsPerAddr int           `key:"max_connections_per_address" validate:"min=0,max=1000000" doc:"Maximum number of connections that one client address may hold on this node; further ones are closed immediately. The addresses of an IPv6 /64 count as one. Behind a proxy, all clients have the proxy's address: set it above the number of connections that the proxy opens, or to 0, which means no limit."`
	WriteTimeout    time.Duration `key:"write_timeout" validate:"min=2s,max=1h" doc:"Maximum time from a request's headers to the end of its response; must exceed the sum of max_wait and request_timeout."`
	IdleTimeout     time.Duration `key:"idle_timeout" validate:"min=1s,max=1h" doc:"An idle keep-alive connection is closed after this long; keep it above the idle timeout of the load balancer."`
	RequestTimeout  time.Duration `key:"request_timeout" validate:"min=100ms,max=10m" doc:"Maximum time to process a request, not counting the wait that it requested."`
	MaxWait         time.Duration `key:"max_wait" validate:"min=0s,max=10m" doc:"Maximum of ?wait= and Prefer: wait; longer waits are shortened to it. Keep it below the timeout of proxies, often 30 or 60 s."`
	RequireIfMatch  bool          `key:"require_if_match" doc:"Whether every operation that accepts If-Match requires it: without it, the response is 428. Operations marked x-if-match: required in openapi.yaml always do."`
	MaxWaiting      int           `key:"max_waiting" validate:"min=1,max=1000000" doc:"Maximum number of requests with ?wait= or Prefer: wait that wait on this node at the same time; further ones get their response without waiting."`
	MaxStreams      int           `key:"max_streams" validate:"min=1,max=10000" doc:"Maximum number of live streams of audit events that this node serves at once."`
	ShutdownTimeout time.Duration `key:"shutdown_timeout" validate:"min=1s,max=10m" doc:"Maximum time from the end of drain_delay to the end of the process; must exceed engine.drain_timeout."`
	DrainDelay      time.Duration `key:"drain_delay" validate:"min=0s,max=5m" doc:"How long the node still accepts requests after the stop signal, while /readyz already responds with 503; set it long enough for a load balancer to notice."`
}

// Engine is the saga engine of one node. Timeouts whose names begin with default_ apply
// to workflows that set none.
type Engine struct {
	NodeID                     string        `key:"node_id" env:"SKALD_NODE_ID" validate:"omitempty,node_id" doc:"Name of this node, unique among the nodes of a database; empty means host name and port."`
	LeaseTTL                   time.Duration `key:"lease_ttl" env:"SKALD_LEASE_TTL" validate:"min=1s,max=5m" doc:"A node that has not renewed its lease for this long counts as dead, and other nodes take over its sagas."`
	ReaperInterval             time.Duration `key:"reaper_interval" env:"SKALD_REAPER_INTERVAL" validate:"min=50ms,max=5m" doc:"How often a node looks for sagas whose deadline has passed; at most lease_ttl."`
	MaxRunning                 int           `key:"max_running" validate:"min=1,max=10000" doc:"Maximum number of new sagas that this node drives at once; resumed sagas may use a quarter of that in addition. Further sagas wait in the database."`
	DrainTimeout               time.Duration `key:"drain_timeout" validate:"min=0s,max=10m" doc:"On shutdown, calls in flight get this long to finish."`
	DefaultSagaTimeout         time.Duration `key:"default_saga_timeout" validate:"omitempty,min=1ms,max=87600h" doc:"Deadline of a saga, if its workflow sets none; 0 means no deadline."`
	DefaultCompensationTimeout time.Duration `key:"default_compensation_timeout" validate:"omitempty,min=1ms,max=87600h" doc:"Deadline of the compensating phase, if the workflow sets none; 0 means no deadline."`
	DefaultStepTimeout         time.Duration `key:"default_step_timeout" validate:"min=1ms,max=24h" doc:"Timeout of one call to a participant, if the step sets none."`
	MaxResponseBytes           int64         `key:"max_response_bytes" validate:"min=1024,max=67108864" doc:"Maximum size of a participant's response."`
	SlowStepAfter              time.Duration `key:"slow_step_after" validate:"min=1ms,max=1h" doc:"A call that takes longer is recorded as RUNNING in the step log."`
	CheckpointMS               int           `key:"checkpoint_ms" validate:"min=0,max=1000" doc:"The outcome of a step with checkpoint: false is written at most this many milliseconds after it arrived; 0 means immediately, as for any other step."`
	StalledAfter               time.Duration `key:"stalled_after" validate:"min=10s,max=8760h" doc:"A saga that is due and has not changed for this long needs attention; must exceed the longest call."`
	StalledFailures            int           `key:"stalled_failures" validate:"min=1,max=1000000" doc:"A saga whose current call has failed this many times also needs attention."`
	CommitBatch                int           `key:"commit_batch" validate:"min=1,max=1000" doc:"Maximum number of transitions in one commit."`
}

// Egress decides which addresses the engine may call. Every entry is an address, a
// CIDR, a host name or *.domain, optionally followed by :PORT or :PORT-PORT; IPv6 with
// a port must be in brackets. Package egress interprets the entries; Load catches
// typos, so that they are reported together with all other mistakes.
type Egress struct {
	Allow         []string `key:"allow" validate:"dive,egress_entry" doc:"If not empty, only these destinations may be called. An entry within a range that is blocked by default, such as loopback or link-local, allows that part of it."`
	Deny          []string `key:"deny" validate:"dive,egress_entry" doc:"Destinations that must not be called; overrides allow."`
	AllowLoopback bool     `key:"allow_loopback" doc:"Whether loopback addresses may be called without an entry in allow."`
}

// Participants configures how Skald and the participants of sagas authenticate each other.
// SigningSecrets holds the content of SigningSecretsFile when that is given.
type Participants struct {
	TLSCertFile        string        `key:"tls_cert_file" doc:"File of the client certificate with its chain (PEM), which Skald shows to https participants, and to https targets of dead letters, that ask for one. It is read again when it changes. Requires tls_key_file."`
	TLSKeyFile         string        `key:"tls_key_file" doc:"File of that certificate's private key (PEM)."`
	TLSCAFile          string        `key:"tls_ca_file" doc:"File of CA certificates (PEM) to verify https participants and targets of dead letters with; empty means the system's. It is read again when it changes."`
	SigningSecrets     Secret        `key:"signing_secrets" doc:"Secret with which calls to participants are signed, whsec_ and the base64 of 24 to 64 random bytes; during a rotation two, separated by a comma or white space. Empty means that calls are not signed. Excludes signing_secrets_file."`
	SigningSecretsFile string        `key:"signing_secrets_file" doc:"File that contains the secrets, one per line. It is read again when it changes. Excludes signing_secrets."`
	SecretMaxAge       time.Duration `key:"secret_max_age" validate:"min=1m,max=720h" doc:"How long a value of participant_secrets stays in use after it can no longer be read from its file or from Vault. After that, calls with it fail before anything is sent, and are retried."`
}

// Audit is the audit trail and its hash chain.
type Audit struct {
	SealInterval time.Duration `key:"seal_interval" validate:"min=50ms,max=1h" doc:"How often new audit events are sealed into their tenant's hash chain; until then, a change of an event is only detectable through the event's own digest."`
}

// Log is how much is logged, and in which format.
type Log struct {
	Level  string `key:"level" validate:"oneof=debug info warn error" doc:"Minimum level that is logged."`
	Format string `key:"format" validate:"oneof=json text" doc:"json for machines, text for people."`
}

// AuthMode decides whether the API requires credentials.
type AuthMode string

// The modes. AuthAuto requires credentials unless the node clearly runs on a developer's
// machine; see Config.AuthRequired.
const (
	AuthAuto     AuthMode = "auto"
	AuthRequired AuthMode = "required"
	AuthOff      AuthMode = "off"
)

// Auth decides which credentials are accepted. BootstrapAdminKey and OIDCClientSecret hold the content of
// their files when those are given.
type Auth struct {
	Mode                  AuthMode      `key:"mode" validate:"oneof=auto required off" doc:"Whether the API requires credentials. With auto, it does unless listen_addr is on loopback, the profile is dev or test, and neither a bootstrap key nor an issuer is set. off is refused in prod and when listen_addr is not on loopback."`
	BootstrapAdminKey     Secret        `key:"bootstrap_admin_key" env:"SKALD_BOOTSTRAP_ADMIN_KEY" validate:"omitempty,api_key" doc:"An API key, as printed by skald key generate. At start it is stored as an admin key for all tenants, unless it already exists. Excludes bootstrap_admin_key_file."`
	BootstrapAdminKeyFile string        `key:"bootstrap_admin_key_file" doc:"File that contains that key. Excludes bootstrap_admin_key."`
	JWTIssuer             string        `key:"jwt_issuer" validate:"omitempty,issuer_url" doc:"Issuer of JWTs, exactly as in their iss claim; empty means that JWTs are not accepted."`
	JWTAudience           string        `key:"jwt_audience" validate:"required,max=255" doc:"Value that the aud claim of JWTs must contain; other tokens are rejected."`
	JWKSURL               string        `key:"jwks_url" validate:"omitempty,issuer_url" doc:"URL of the issuer's keys; empty means that it is taken from the discovery document."`
	JWTAlgorithms         []string      `key:"jwt_algorithms" validate:"min=1,dive,oneof=EdDSA ES256 RS256" doc:"Accepted signature algorithms."`
	JWTLeeway             time.Duration `key:"jwt_leeway" validate:"min=0s,max=60s" doc:"Maximum clock difference to the issuer."`
	JWTRoleClaim          string        `key:"jwt_role_claim" validate:"required,max=255" doc:"Claim with the role (a string or a list), by its name or as a path such as resource_access.skald.roles."`
	JWTRoleMap            []string      `key:"jwt_role_map" validate:"dive,role_name" doc:"Mapping of the names in jwt_role_claim to roles, for issuers that use other names: NAME=ROLE, such as /skald/admins=admin. If not empty, names outside the mapping are not roles, not even admin."`
	JWTNameClaim          string        `key:"jwt_name_claim" validate:"max=255" doc:"Claim with the display name of the caller, by its name or as a path. It is shown and recorded beside the subject, and never used for decisions. Empty means that only subjects are recorded."`
	JWTTenantClaim        string        `key:"jwt_tenant_claim" validate:"required,max=255" doc:"Claim with the tenant's UUID, by its name or as a path. A token without it is refused, unless jwt_default_tenant is on."`
	JWTDefaultTenant      bool          `key:"jwt_default_tenant" doc:"Whether a JWT without a tenant acts on the default tenant, which also owns the built-in jobs. If off, such a token is refused, so a missing mapping at the issuer grants nothing."`
	OIDCClientID          string        `key:"oidc_client_id" validate:"max=255" doc:"Client id of Skald at that issuer, with which people can sign in to the pages under /ui/ without an API key. Empty means that they cannot. Requires jwt_issuer and oidc_client_secret."`
	OIDCClientSecret      Secret        `key:"oidc_client_secret" doc:"Secret of that client. All nodes need the same. Excludes oidc_client_secret_file."`
	OIDCClientSecretFile  string        `key:"oidc_client_secret_file" doc:"File that contains the secret; trailing line breaks are ignored. Excludes oidc_client_secret."`
	OIDCScopes            []string      `key:"oidc_scopes" validate:"dive,max=255" doc:"Scopes to request in addition to openid, so that the ID token contains the role and tenant claims."`
	OIDCName              string        `key:"oidc_name" validate:"required,max=63" doc:"Name of the issuer, shown on the button \"Sign in with …\"."`
}

// AuthRequired reports whether the API requires credentials. In auto mode it does
// unless every setting indicates a developer's machine.
func (c Config) AuthRequired() bool {
	switch c.Auth.Mode {
	case AuthRequired:
		return true
	case AuthOff:
		return false
	}
	own := c.App.Environment == Dev || c.App.Environment == Test
	return !own || !loopbackAddr(c.Server.ListenAddr) || c.Auth.BootstrapAdminKey != "" || c.Auth.JWTIssuer != ""
}

// Encryption has the keys that content is sealed with. Keys holds the content of
// KeyFile when that is given.
type Encryption struct {
	Keys    Secret `key:"keys" doc:"Master keys as ID:KEY, separated by commas or white space; KEY is 32 bytes in base64, as printed by openssl rand -base64 32. The first key encrypts, all keys decrypt. Excludes key_file."`
	KeyFile string `key:"key_file" doc:"File that contains the master keys, one per line. Excludes keys."`
	Seal    bool   `key:"seal" doc:"Whether new content is encrypted. false only decrypts existing content: use it until every node has the keys, and to disable encryption again."`
}

// Tenant is the default for requests whose credential and headers name no tenant.
type Tenant struct {
	DefaultID     uuid.UUID `key:"default_id" validate:"required" doc:"Tenant of requests that do not name one."`
	DefaultRegion string    `key:"default_region" validate:"max=32" doc:"Region code of the default tenant."`
	DefaultMajor  int       `key:"default_major" validate:"min=0,max=65535" doc:"Major version of the default tenant."`
	DefaultMinor  int       `key:"default_minor" validate:"min=0,max=65535" doc:"Minor version of the default tenant."`
}

// Limits bounds what clients register and send.
type Limits struct {
	MaxSteps         int   `key:"max_steps" validate:"min=1,max=10000" doc:"Maximum number of steps of a workflow."`
	MaxWorkflowBytes int64 `key:"max_workflow_bytes" validate:"min=1024,max=16777216" doc:"Maximum size of a workflow definition, in bytes."`
	MaxJSONDepth     int   `key:"max_json_depth" validate:"min=4,max=1000" doc:"Maximum nesting depth of JSON that Skald accepts."`
	KeyRequests      int   `key:"key_requests_per_second" validate:"min=0,max=1000000" doc:"Maximum rate of requests of one credential on this node, with bursts of up to two seconds' worth; the response to further ones is 429. Reports of workers about their runs are not limited. 0 means no limit."`
	TenantRequests   int   `key:"tenant_requests_per_second" validate:"min=0,max=1000000" doc:"The same for all credentials of a tenant together."`
	TenantCreates    int   `key:"tenant_creates_per_second" validate:"min=0,max=1000000" doc:"The same for requests that create sagas, dead letters, runs or events; a batch counts once."`
	TenantStreams    int   `key:"tenant_streams" validate:"min=0,max=10000" doc:"Maximum number of live streams that one tenant may have open on this node; 0 means server.max_streams."`
	MaxSagaBytes     int64 `key:"max_saga_bytes" validate:"min=1024,max=1073741824" doc:"Maximum size of one saga in bytes: its payload and the outputs of its steps. A step whose output exceeds it fails and is compensated."`
	MaxRequestBytes  int64 `key:"max_request_bytes" validate:"min=1024,max=1073741824" doc:"Maximum size of the body of a call to a participant, in bytes. A step that needs a larger one fails before anything is sent."`
}

// Webhooks configures deliveries. An endpoint must also be allowed by Egress.
type Webhooks struct {
	AllowHTTP       bool          `key:"allow_http" doc:"Whether endpoints may use plain http. Others on the network can then read and replay deliveries."`
	TLSCertFile     string        `key:"tls_cert_file" doc:"File of the client certificate with its chain (PEM), which Skald shows to https endpoints that ask for one. The user who registers a webhook chooses the endpoint, so this is not the certificate used for participants. It is read again when it changes. Requires tls_key_file."`
	TLSKeyFile      string        `key:"tls_key_file" doc:"File of that certificate's private key (PEM)."`
	TLSCAFile       string        `key:"tls_ca_file" doc:"File of CA certificates (PEM) to verify endpoints with; empty means the system's. It is read again when it changes."`
	Timeout         time.Duration `key:"timeout" validate:"min=100ms,max=50s" doc:"Timeout of one attempt."`
	Concurrency     int           `key:"concurrency" validate:"min=1,max=100" doc:"Attempts of one webhook at once, on each node. A failing webhook is limited to 1."`
	MaxAttempts     int           `key:"max_attempts" validate:"min=1,max=100" doc:"Maximum number of attempts of a delivery."`
	InitialInterval time.Duration `key:"initial_interval" validate:"min=10ms,max=1h" doc:"Wait before the second attempt; it triples with each attempt."`
	MaxInterval     time.Duration `key:"max_interval" validate:"min=10ms,max=24h" doc:"Longest wait between two attempts."`
	DisableAfter    int           `key:"disable_after" validate:"min=1,max=1000000" doc:"A webhook is disabled after this many consecutive deliveries have run out of attempts."`
	Keep            time.Duration `key:"keep" validate:"min=1h,max=87600h" doc:"How long finished deliveries are kept."`
}

// Kafka configures the brokers, and where events are published: nowhere without EventTopic.
type Kafka struct {
	Brokers      []string `key:"brokers" validate:"dive,broker" doc:"Some brokers of the cluster, host:port."`
	EventTopic   string   `key:"event_topic" validate:"max=249" doc:"Topic to which audit events are published, such as skald.saga.events; empty means that they are not published."`
	EventTenants []string `key:"event_tenants" validate:"dive,uuid" doc:"Tenants whose events are published; empty means all."`
	SourceTopics []string `key:"source_topics" validate:"dive,source_topic" doc:"Topics whose records become events, which start job runs: orders, or orders=TENANT if the events do not belong to tenant.default_id. Emitted events are never published to them."`
	SourceGroup  string   `key:"source_group" validate:"required,max=249" doc:"Consumer group that reads source_topics; nodes that share it share the partitions."`
	SourceStart  string   `key:"source_start" validate:"oneof=earliest latest" doc:"Where to start when the group reads a topic for the first time: earliest (all records become events), or latest to skip existing records."`
	TLS          bool     `key:"tls" doc:"Whether to connect to brokers over TLS."`
	CAFile       string   `key:"ca_file" doc:"File of CA certificates to verify brokers with; empty means the system's."`
	SASL         string   `key:"sasl" validate:"omitempty,oneof=plain scram-sha-256 scram-sha-512" doc:"SASL mechanism: plain, scram-sha-256 or scram-sha-512; empty means none."`
	SASLUser     string   `key:"sasl_user" doc:"User to log in as; required with sasl."`
	SASLPassword Secret   `key:"sasl_password" doc:"Password of that user."`
}

// DLQ configures how dead letters are treated and redriven. The first eight settings are the
// policy of topics and tenants without their own.
type DLQ struct {
	AutoRetry       bool          `key:"auto_retry" doc:"Whether letters from Kafka and REST are retried automatically."`
	MaxRetries      int           `key:"max_retries" validate:"min=0,max=1000" doc:"Retries before a letter is DEAD, if the letter does not set its own number."`
	InitialInterval time.Duration `key:"initial_interval" validate:"min=10ms,max=24h" doc:"Wait before the first automatic retry; each wait is random, between 0 and twice this long."`
	MaxInterval     time.Duration `key:"max_interval" validate:"min=10ms,max=720h" doc:"Maximum wait between automatic retries; at least initial_interval."`
	Multiplier      int           `key:"multiplier" validate:"min=1,max=10" doc:"Factor by which the wait grows with each failed retry and each time the letter comes back."`
	MaxGenerations  int           `key:"max_generations" validate:"min=0,max=100" doc:"How many times a letter may come back after a retry before it becomes DEAD as POISON."`
	RetentionDays   int           `key:"retention_days" validate:"min=1,max=36500" doc:"Days until resolved and discarded letters are archived. Other DEAD letters stay three times as long."`
	ArchiveDays     int           `key:"archive_days" validate:"min=1,max=36500" doc:"Days until archived letters are deleted."`
	Lease           time.Duration `key:"lease" validate:"min=3s,max=1h" doc:"How long the lease on a letter that a node retries is valid; it is renewed during the retry. When the lease of a dead node ends, its retry counts as failed."`
	PollInterval    time.Duration `key:"poll_interval" validate:"min=10ms,max=1m" doc:"How often a node looks for due letters and for redrives."`
	Batch           int           `key:"batch" validate:"min=1,max=5000" doc:"Maximum number of letters in one statement."`
	HTTPConcurrency int           `key:"http_concurrency" validate:"min=1,max=1000" doc:"Letters sent to HTTP targets at once, on each node."`
	HTTPTimeout     time.Duration `key:"http_timeout" validate:"min=100ms,max=5m" doc:"Timeout of a request to an HTTP target."`
	RedriveRate     int           `key:"redrive_rate" validate:"min=1,max=1000000" doc:"Letters per second of a bulk redrive that sets no rate, over all nodes; at most max_redrive_rate."`
	MaxRedriveRate  int           `key:"max_redrive_rate" validate:"min=1,max=1000000" doc:"Maximum rate that a redrive may set, in letters per second."`
	BulkLimit       int           `key:"bulk_limit" validate:"min=0,max=10000000" doc:"Maximum number of letters in one redrive with dlq:write; more needs dlq:admin."`
}

// Ingest configures which topics of Kafka are dead-letter topics, and how their records become
// letters.
type Ingest struct {
	Topics             string   `key:"topics" validate:"omitempty,max=4096,pattern" doc:"Regular expression of the dead-letter topics, such as (?i)[._-]dl[qt]$, where (?i) ignores case, or ^error[.].+[.] for the names that Spring Cloud Stream chooses (docs/kafka.md has both in one); new topics are found automatically. Letters are never sent to a matching topic. Empty means that no topics are read."`
	Exclude            string   `key:"exclude" validate:"omitempty,max=4096,pattern" doc:"Regular expression of topics to skip even if topics matches them."`
	Group              string   `key:"group" validate:"required,max=249" doc:"Consumer group; nodes that share it share the partitions."`
	Tenant             string   `key:"tenant" validate:"omitempty,uuid" doc:"Tenant that the letters belong to; empty means tenant.default_id."`
	Start              string   `key:"start" validate:"oneof=earliest latest" doc:"Where to start in a partition that the group has never read: earliest, or latest to skip existing records."`
	Backlog            string   `key:"backlog" validate:"oneof=hold retry" doc:"What to do with letters from records that were in a topic when the group first read it: hold (retried only on request) or retry (like all others)."`
	Batch              int      `key:"batch" validate:"min=1,max=5000" doc:"Maximum number of records in one statement."`
	MaxBytes           int      `key:"max_bytes" validate:"min=1048576,max=268435456" doc:"Maximum bytes of one fetch. Memory use may be about four times as much, and at least eight times the largest record."`
	Suffixes           []string `key:"suffixes" doc:"Suffixes of dead-letter topics, in any case: removed to find the original topic if no header names it."`
	Prefixes           []string `key:"prefixes" doc:"Prefixes of dead-letter topics, likewise."`
	AllowTopicCreation bool     `key:"allow_topic_creation" doc:"Whether sending a letter to a missing topic may create it, if the brokers create topics automatically."`
}

// Retention is how long ended sagas are kept. A workflow's own retention wins.
type Retention struct {
	Completed time.Duration `key:"completed" validate:"omitempty,min=1m,max=876000h" doc:"How long completed sagas stay live; 0 means forever."`
	Failed    time.Duration `key:"failed" validate:"omitempty,min=1m,max=876000h" doc:"How long sagas that ended in any other way stay live; 0 means forever. Sagas that need attention are never archived."`
	Interval  time.Duration `key:"interval" validate:"omitempty,min=1s,max=720h" doc:"How often this node archives expired sagas; 0 means never."`
	BatchSize int           `key:"batch_size" validate:"min=1,max=10000" doc:"Maximum number of sagas archived in one transaction."`
	// Events and EventsArchive concern the audit trail.
	Events        time.Duration `key:"events" validate:"omitempty,min=1m,max=876000h" doc:"How long audit events stay in the live table before they move to the archive. The history of a saga still includes archived events, but the feed does not. 0 means forever."`
	EventsArchive time.Duration `key:"events_archive" validate:"omitempty,min=1m,max=876000h" doc:"How long audit events are kept in the archive, counted from when they were written. After that, whole months are deleted, and only their seals are kept. 0 means forever."`
}

// TestSeams contains settings that a production system must not change. All are zero unless
// App.Environment is Test.
type TestSeams struct {
	ClockOffset time.Duration `key:"clock_offset" validate:"min=-87600h,max=87600h" doc:"Added to this node's clock; may be negative."`
}

// Vault configures the address of HashiCorp Vault, how Skald logs in there, and what it reads:
// a stored password (StaticPath) or a login that Vault creates for this node (DynamicPath). At
// most one of the two is set.
type Vault struct {
	Address     string `key:"address" validate:"omitempty,vault_address" doc:"Address of Vault or of a Vault agent. prod refuses http:// except on loopback."`
	Namespace   string `key:"namespace" validate:"max=255" doc:"Namespace of Vault Enterprise."`
	CACert      string `key:"ca_cert" doc:"File of CA certificates to verify Vault with; empty means the system's."`
	StaticPath  string `key:"static_path" validate:"max=1024" doc:"API path of the secret that contains the database password; for version 2 of the engine, with data/ after the mount: secret/data/k1s0/system/saga/database. Read at start, and again when PostgreSQL rejects the password. Excludes dynamic_path."`
	DynamicPath string `key:"dynamic_path" validate:"max=1024" doc:"API path at which Vault creates a database login: database/creds/system-saga-rw. Skald renews its lease, and fetches a new login before the lease ends. Excludes static_path."`
	UsernameKey string `key:"username_key" validate:"required,max=255" doc:"Key of the user name in the secret of static_path; if the secret has none, database.user applies."`
	PasswordKey string `key:"password_key" validate:"required,max=255" doc:"Key of the password in the secret of static_path."`

	AuthMethod     string        `key:"auth_method" validate:"oneof=token token_file approle kubernetes" doc:"How Skald logs in to Vault."`
	AuthMount      string        `key:"auth_mount" validate:"max=255" doc:"Mount of the method approle or kubernetes; empty means its name."`
	Token          Secret        `key:"token" doc:"Token for the method token. Skald renews it if it is renewable."`
	TokenFile      string        `key:"token_file" doc:"File for the method token_file, maintained by a Vault agent; read again when Vault rejects its token."`
	RoleID         string        `key:"role_id" validate:"max=255" doc:"Role id for the method approle."`
	SecretID       Secret        `key:"secret_id" doc:"Secret id for the method approle. Excludes secret_id_file."`
	SecretIDFile   string        `key:"secret_id_file" doc:"File that contains the secret id; read at every login. Excludes secret_id."`
	KubernetesRole string        `key:"kubernetes_role" validate:"max=255" doc:"Role for the method kubernetes."`
	JWTFile        string        `key:"jwt_file" validate:"required" doc:"File of the service account's token for the method kubernetes; read at every login."`
	Timeout        time.Duration `key:"timeout" validate:"min=100ms,max=1m" doc:"Timeout of one call to Vault, including retries."`
}

// Jobs configures whether this node may lead the scheduler, where the logs of job runs are
// moved, and which Redis holds lease hints. LogS3SecretKey holds the content of
// LogS3SecretKeyFile when that is given.
type Jobs struct {
	Scheduler            bool          `key:"scheduler" doc:"Whether this node may become leader of the job scheduler. One node at a time is the leader; without a leader, running jobs continue but no new ones start."`
	Worker               bool          `key:"worker" doc:"Whether this node executes job runs: Skald's own commands, and programs if worker_shell is on."`
	WorkerQueues         []string      `key:"worker_queues" validate:"dive,min=1,max=100" doc:"Queues from which the node's worker claims runs."`
	WorkerConcurrency    int           `key:"worker_concurrency" validate:"min=1,max=1000" doc:"Maximum number of runs that the node's worker executes at once."`
	WorkerShell          bool          `key:"worker_shell" doc:"Whether the command shell runs programs on this machine, as the user that Skald runs as. Refused for root. The job definition determines which program runs, so administrators of jobs (jobs:admin) can run everything that worker_shell_allow lists; the arguments of a run are only data."`
	WorkerShellAllow     []string      `key:"worker_shell_allow" validate:"dive,min=1,max=1000" doc:"Programs that the command shell may run, by their absolute paths. /bin/sh allows any script, and therefore any program."`
	WorkerShellArgsAllow []string      `key:"worker_shell_args_allow" validate:"dive,min=1,max=1000" doc:"Programs that treat all their arguments as data, by their absolute paths: for these, argv of a job definition may contain {args}, which the arguments of a run replace. Use the same list on all nodes, including nodes that run no programs: definitions are checked when they are stored and when they run. List no shell, interpreter or program that starts others, such as env or xargs. echo, printf and logger need not be listed, and shells allow {args} after -c, code and name."`
	WorkerShellEnvAllow  []string      `key:"worker_shell_env_allow" validate:"dive,min=1,max=255" doc:"Environment variables that job definitions may set for their programs, by name. Some change what a program executes, such as LD_PRELOAD, BASH_ENV or PYTHONPATH: list only those you know to be harmless. PATH, HOME, LANG, TZ and names that begin with SKALD_ cannot be listed."`
	UpkeepInterval       time.Duration `key:"upkeep_interval" validate:"min=1s,max=24h" doc:"How often this node moves old logs to log_offload_url and deletes expired runs; the job settings log_retention_days_db and run_retention_days set the age."`
	LogOffloadURL        string        `key:"log_offload_url" env:"SKALD_LOG_OFFLOAD_URL" validate:"omitempty,offload_url" doc:"Where logs are moved after log_retention_days_db: file:///var/lib/skald/logs, or s3://bucket/prefix?endpoint=https://s3.internal&region=eu-1&path_style=true, where region is required without endpoint. Empty means that logs stay in the database. All nodes must use the same location."`
	LogS3AccessKey       string        `key:"log_s3_access_key" validate:"max=255" doc:"Access key for S3; empty means the role of the machine or pod (AWS)."`
	LogS3SecretKey       Secret        `key:"log_s3_secret_key" doc:"Secret key of log_s3_access_key. Excludes log_s3_secret_key_file."`
	LogS3SecretKeyFile   string        `key:"log_s3_secret_key_file" doc:"File that contains the secret key; trailing line breaks are ignored. Excludes log_s3_secret_key."`
	RedisURL             Secret        `key:"redis_url" env:"SKALD_REDIS_URL" validate:"omitempty,redis_url" doc:"Redis that records which worker has which run, as a hint that can save database work: redis://user:password@host:6379/0, redis+sentinel://user:password@host:26379,host:26379/master/0 (a password of the Sentinels themselves goes into ?sentinel_password=), or redis+cluster://user:password@host:6379,host:6379; each with rediss instead of redis for TLS. PostgreSQL always has the final say. Empty means no Redis."`
	RedisPrefix          string        `key:"redis_prefix" validate:"max=100" doc:"Prefix of the Redis keys, which are PREFIX:jobrun:lease:RUN; if empty, the colon is omitted, too."`
}
