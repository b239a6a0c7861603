package config

import "time"

// Engine configures the saga engine of one node. Timeouts whose names begin with default_ apply to
// workflows that do not set them.
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

func defaultEngine() Engine {
	return Engine{
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
	}
}

// Egress decides which addresses the engine may call. Every entry is an address, a CIDR, a host
// name or *.domain, optionally followed by :PORT or :PORT-PORT; IPv6 with a port must be in
// brackets. Package egress interprets the entries; Load only catches typos, so that they are
// reported together with all other mistakes.
type Egress struct {
	Allow         []string `key:"allow" validate:"dive,egress_entry" doc:"If not empty, only these destinations may be called. An entry within a range that is blocked by default, such as loopback or link-local, allows that part of it."`
	Deny          []string `key:"deny" validate:"dive,egress_entry" doc:"Destinations that must not be called; overrides allow."`
	AllowLoopback bool     `key:"allow_loopback" doc:"Whether loopback addresses may be called without an entry in allow."`
}

func defaultEgress() Egress {
	return Egress{AllowLoopback: true}
}

// Participants configures how Skald and the participants of sagas authenticate each other.
// SigningSecrets holds the content of SigningSecretsFile if a file is given.
type Participants struct {
	TLSCertFile        string        `key:"tls_cert_file" doc:"File of the client certificate with its chain (PEM), which Skald shows to https participants, and to https targets of dead letters, that ask for one. It is read again when it changes. Requires tls_key_file."`
	TLSKeyFile         string        `key:"tls_key_file" doc:"File of that certificate's private key (PEM)."`
	TLSCAFile          string        `key:"tls_ca_file" doc:"File of CA certificates (PEM) to verify https participants and targets of dead letters with; empty means the system's. It is read again when it changes."`
	SigningSecrets     Secret        `key:"signing_secrets" doc:"Secret that signs calls to participants: whsec_ and the base64 of 24 to 64 random bytes; during a rotation, two secrets separated by a comma or white space. Empty means that calls are not signed. Excludes signing_secrets_file."`
	SigningSecretsFile string        `key:"signing_secrets_file" doc:"File that contains the secrets, one per line. It is read again when it changes. Excludes signing_secrets."`
	SecretMaxAge       time.Duration `key:"secret_max_age" validate:"min=1m,max=720h" doc:"How long a value of participant_secrets stays in use after it can no longer be read from its file or from Vault. After that, calls with it fail before anything is sent, and are retried."`
}

func defaultParticipants() Participants {
	return Participants{SecretMaxAge: time.Hour}
}

// Retention is how long ended sagas are kept. A workflow's own retention takes precedence.
type Retention struct {
	Completed time.Duration `key:"completed" validate:"omitempty,min=1m,max=876000h" doc:"How long completed sagas stay live; 0 means forever."`
	Failed    time.Duration `key:"failed" validate:"omitempty,min=1m,max=876000h" doc:"How long sagas that ended in any other way stay live; 0 means forever. Sagas that need attention are never archived."`
	Interval  time.Duration `key:"interval" validate:"omitempty,min=1s,max=720h" doc:"How often this node archives expired sagas; 0 means never."`
	BatchSize int           `key:"batch_size" validate:"min=1,max=10000" doc:"Maximum number of sagas archived in one transaction."`
	// Events and EventsArchive apply to the audit trail.
	Events        time.Duration `key:"events" validate:"omitempty,min=1m,max=876000h" doc:"How long audit events stay in the live table before they move to the archive. The history of a saga still includes archived events, but the feed does not. 0 means forever."`
	EventsArchive time.Duration `key:"events_archive" validate:"omitempty,min=1m,max=876000h" doc:"How long audit events are kept in the archive, counted from when they were written. After that, whole months are deleted, and only their seals are kept. 0 means forever."`
}

func defaultRetention() Retention {
	return Retention{
		Completed: 30 * 24 * time.Hour,
		Failed:    90 * 24 * time.Hour,
		Interval:  time.Hour,
		BatchSize: 500,
	}
}
