// Package config turns defaults, a YAML file and the environment into one
// validated Config. Nothing else in the program reads the environment.
//
// The tags of the structs below define each setting completely: its key, its allowed values
// (validate), additional names for its environment variable (env), and its meaning (doc). The
// loader, its messages, docs/configuration.md and config.example.yaml are all derived from these
// tags.
//
// Files, each on top of those before it: address, pages, secret, bindings, profile, server, engine, access, letters,
// webhooks, jobs, vault, database, config, field, rule, mistake, conninfo, dsn, jobs_check, roles, sources,
// vault_check, changed, check, load.
package config

import (
	"slices"
	"time"
)

// Config is everything an operator can set. Load returns it complete and validated; Default returns
// the defaults alone. It is a value: copy it freely, but do not write to its lists.
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
	DLQ                DLQ                `key:"dlq" doc:"The dead-letter queue (docs/dlq.md). The settings for letters are the defaults for topics without their own policy."`
	Jobs               Jobs               `key:"jobs" doc:"Job runs."`
	Retention          Retention          `key:"retention" doc:"How long ended sagas stay live before they are archived, unless their workflow sets its own retention."`
	Test               TestSeams          `key:"test" doc:"Settings for tests only; refused unless app.environment is test."`
	Failpoints         string             `key:"failpoints" validate:"max=4096" doc:"Faults to inject, such as name=kill@3;name2=err%0.01. Only binaries built with -tags failpoints support it; refused in prod."`
}

// StoreKind is where sagas are stored.
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

// App names the installation. Except for the profile, it does not affect the program's behavior.
type App struct {
	Name        string      `key:"name" validate:"required,max=63" doc:"Name of this installation, for logs."`
	Version     string      `key:"version" validate:"max=64" doc:"Version of this installation; empty means the binary's own."`
	Tier        string      `key:"tier" validate:"max=64" doc:"Tier of this installation, for logs."`
	Environment Environment `key:"environment" env:"SKALD_ENV" validate:"oneof=dev test staging prod" doc:"Profile: selects the defaults; prod refuses unsafe settings. production means prod."`
}

// Audit is the audit trail and its hash chain.
type Audit struct {
	SealInterval time.Duration `key:"seal_interval" validate:"min=50ms,max=1h" doc:"How often new audit events are sealed into their tenant's hash chain; until then, a change of an event is only detectable through the event's own digest."`
}

// Log configures how much is logged, and in which format.
type Log struct {
	Level  string `key:"level" validate:"oneof=debug info warn error" doc:"Minimum level that is logged."`
	Format string `key:"format" validate:"oneof=json text" doc:"json for machines, text for people."`
}

// TestSeams contains settings that a production system must not change. All are zero unless
// App.Environment is Test.
type TestSeams struct {
	ClockOffset time.Duration `key:"clock_offset" validate:"min=-87600h,max=87600h" doc:"Added to this node's clock; may be negative."`
}

// Default returns the configuration of a profile if nothing is set. For an unknown profile it
// returns Dev's; Load rejects unknown profiles.
func Default(env Environment) Config {
	c := Config{
		Store:        PostgreSQL,
		Roles:        []string{RoleAPI, RoleEngine, RoleScheduler, RoleWorker, RoleIngest},
		App:          App{Name: "skald", Tier: "system", Environment: env},
		Database:     defaultDatabase(),
		Vault:        defaultVault(),
		Server:       defaultServer(),
		UI:           UI{Mode: UIFull},
		Engine:       defaultEngine(),
		Egress:       defaultEgress(),
		Participants: defaultParticipants(),
		Encryption:   defaultEncryption(),
		Audit:        Audit{SealInterval: time.Second},
		Log:          Log{Level: "info", Format: "json"},
		Auth:         defaultAuth(),
		Tenant:       defaultTenant(),
		Retention:    defaultRetention(),
		Limits:       defaultLimits(),
		Webhooks:     defaultWebhooks(),
		DLQ:          defaultDLQ(),
		Jobs:         defaultJobs(),
		Kafka:        defaultKafka(),
		Ingest:       defaultIngest(),
	}
	// Pool sizes and TLS come from seed 1's table of environments; migration and loopback calls
	// follow from the purpose of each environment.
	switch env {
	case Staging:
		c.Database.SSLMode, c.Database.MaxOpenConns, c.Database.MaxIdleConns = "require", 25, 5
		c.Database.AutoMigrate, c.Egress.AllowLoopback, c.Webhooks.AllowHTTP = false, false, false
	case Prod:
		c.Server.DrainDelay = 5 * time.Second
		c.Database.SSLMode, c.Database.MaxOpenConns, c.Database.MaxIdleConns = "verify-full", 50, 10
		c.Database.AutoMigrate, c.Egress.AllowLoopback, c.Webhooks.AllowHTTP = false, false, false
	}
	if env == Staging || env == Prod {
		c.Limits.KeyRequests, c.Limits.TenantRequests = 1000, 2000
		c.Limits.TenantCreates, c.Limits.TenantStreams = 1000, 50
	}
	return c
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
