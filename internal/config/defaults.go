package config

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// Default returns the configuration of a profile when nothing is set. An unknown
// profile gets Dev's; Load refuses it.
func Default(env Environment) Config {
	c := Config{
		Store: PostgreSQL,
		Roles: []string{RoleAPI, RoleEngine, RoleScheduler, RoleWorker, RoleIngest},
		App:   App{Name: "skald", Tier: "system", Environment: env},
		Database: Database{
			Port:             5432,
			Name:             "skald",
			User:             "skald",
			SSLMode:          "disable",
			MaxOpenConns:     10,
			MaxIdleConns:     3,
			ConnMaxLifetime:  5 * time.Minute,
			AutoMigrate:      true,
			StatementTimeout: 30 * time.Second,
			IOTimeout:        60 * time.Second,
			EmbeddedDir:      "./.skald/postgres",
		},
		Vault: Vault{
			UsernameKey: "username",
			PasswordKey: "password",
			AuthMethod:  "token",
			JWTFile:     "/var/run/secrets/kubernetes.io/serviceaccount/token",
			Timeout:     10 * time.Second,
		},
		Server: Server{
			ListenAddr:      "127.0.0.1:8080",
			MaxBodyBytes:    1 << 20,
			ReadTimeout:     30 * time.Second,
			HeaderTimeout:   5 * time.Second,
			MinBodyRate:     1024,
			MaxConnsPerAddr: 1000,
			WriteTimeout:    2 * time.Minute,
			IdleTimeout:     2 * time.Minute,
			RequestTimeout:  30 * time.Second,
			MaxWait:         25 * time.Second, // below the 30 s after which many proxies give up
			MaxWaiting:      10_000,
			MaxStreams:      100,
			ShutdownTimeout: 25 * time.Second,
		},
		UI: UI{Mode: UIFull},
		Engine: Engine{
			LeaseTTL:                   10 * time.Second,
			ReaperInterval:             time.Second,
			MaxRunning:                 256,
			DrainTimeout:               20 * time.Second,
			DefaultSagaTimeout:         24 * time.Hour,
			DefaultCompensationTimeout: 24 * time.Hour,
			DefaultStepTimeout:         30 * time.Second,
			MaxResponseBytes:           1 << 20,
			SlowStepAfter:              500 * time.Millisecond,
			CheckpointMS:               20,
			StalledAfter:               15 * time.Minute,
			StalledFailures:            20,
			CommitBatch:                256,
		},
		Egress:       Egress{AllowLoopback: true},
		Participants: Participants{SecretMaxAge: time.Hour},
		Encryption:   Encryption{Seal: true},
		Audit:        Audit{SealInterval: time.Second},
		Log:          Log{Level: "info", Format: "json"},
		Auth: Auth{
			Mode:           AuthAuto,
			JWTAudience:    "skald",
			JWTAlgorithms:  []string{"EdDSA", "ES256", "RS256"},
			JWTLeeway:      30 * time.Second,
			JWTRoleClaim:   "role",
			JWTNameClaim:   "preferred_username",
			JWTTenantClaim: "tenant_id",
			OIDCScopes:     []string{"profile"},
			OIDCName:       "single sign-on",
		},
		Tenant: Tenant{DefaultID: uuid.MustParse("00000000-0000-0000-0000-000000000001")},
		Retention: Retention{
			Completed: 30 * 24 * time.Hour,
			Failed:    90 * 24 * time.Hour,
			Interval:  time.Hour,
			BatchSize: 500,
		},
		Limits: Limits{
			MaxSteps: 100, MaxWorkflowBytes: 256 << 10, MaxJSONDepth: 64, MaxSagaBytes: 8 << 20, MaxRequestBytes: 16 << 20,
		},
		Webhooks: Webhooks{
			AllowHTTP:       true,
			Timeout:         10 * time.Second,
			Concurrency:     8,
			MaxAttempts:     16,
			InitialInterval: 5 * time.Second,
			MaxInterval:     time.Hour,
			DisableAfter:    10,
			Keep:            720 * time.Hour,
		},
		DLQ: DLQ{
			AutoRetry:       true,
			MaxRetries:      3,
			InitialInterval: time.Minute,
			MaxInterval:     time.Hour,
			Multiplier:      2,
			MaxGenerations:  3,
			RetentionDays:   30,
			ArchiveDays:     365,
			Lease:           time.Minute,
			PollInterval:    time.Second,
			Batch:           500,
			HTTPConcurrency: 8,
			HTTPTimeout:     10 * time.Second,
			RedriveRate:     50,
			MaxRedriveRate:  10_000,
			BulkLimit:       1000,
		},
		Jobs: Jobs{
			Scheduler:         true,
			Worker:            true,
			WorkerQueues:      []string{"system"},
			WorkerConcurrency: 4,
			RedisPrefix:       "scheduler",
			UpkeepInterval:    30 * time.Second,
		},
		Kafka: Kafka{SourceGroup: "skald-events", SourceStart: "latest"},
		Ingest: Ingest{
			Group: "skald-dlq", Start: "earliest", Backlog: "hold", Batch: 1000, MaxBytes: 16 << 20,
			Suffixes: []string{".dlq", "-dlq", "_dlq", ".dlt", "-dlt", "_dlt"}, Prefixes: []string{"dlq."},
		},
	}
	// Pools and TLS are from seed 1's table of environments; migration and loopback calls
	// depend on the purpose of each environment.
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

// UnmarshalText parses the name of a profile; production is Prod.
func (e *Environment) UnmarshalText(text []byte) error {
	switch env := Environment(text); env {
	case Dev, Test, Staging, Prod:
		*e = env
	case "production":
		*e = Prod
	default:
		return errors.New("unknown environment")
	}
	return nil
}
