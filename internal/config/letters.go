package config

import "time"

// Kafka configures the brokers and the topic to which events are published; without EventTopic they
// are not published.
type Kafka struct {
	Brokers      []string `key:"brokers" validate:"dive,broker" doc:"Some brokers of the cluster, host:port."`
	EventTopic   string   `key:"event_topic" validate:"max=249" doc:"Topic to which audit events are published, such as skald.saga.events; empty means that they are not published."`
	EventTenants []string `key:"event_tenants" validate:"dive,uuid" doc:"Tenants whose events are published; empty means all."`
	SourceTopics []string `key:"source_topics" validate:"dive,source_topic" doc:"Topics whose records become events, which start job runs. Write a topic as orders, or as orders=TENANT if its events do not belong to tenant.default_id. Emitted events are never published to them."`
	SourceGroup  string   `key:"source_group" validate:"required,max=249" doc:"Consumer group that reads source_topics; nodes that share it share the partitions."`
	SourceStart  string   `key:"source_start" validate:"oneof=earliest latest" doc:"Where to start when the group reads a topic for the first time: earliest (all records become events), or latest to skip existing records."`
	TLS          bool     `key:"tls" doc:"Whether to connect to brokers over TLS."`
	CAFile       string   `key:"ca_file" doc:"File of CA certificates to verify brokers with; empty means the system's."`
	SASL         string   `key:"sasl" validate:"omitempty,oneof=plain scram-sha-256 scram-sha-512" doc:"SASL mechanism: plain, scram-sha-256 or scram-sha-512; empty means none."`
	SASLUser     string   `key:"sasl_user" doc:"User to log in as; required with sasl."`
	SASLPassword Secret   `key:"sasl_password" doc:"Password of that user."`
}

func defaultKafka() Kafka {
	return Kafka{SourceGroup: "skald-events", SourceStart: "latest"}
}

// Ingest configures which Kafka topics are dead-letter topics, and how their records become
// letters.
type Ingest struct {
	Topics             string   `key:"topics" validate:"omitempty,max=4096,pattern" doc:"Regular expression of the dead-letter topics, such as (?i)[._-]dl[qt]$, where (?i) ignores case, or ^error[.].+[.] for the names that Spring Cloud Stream chooses (docs/kafka.md has both in one); new topics are found automatically. Letters are never sent to a matching topic. Empty means that no topics are read."`
	Exclude            string   `key:"exclude" validate:"omitempty,max=4096,pattern" doc:"Regular expression of topics to skip even if topics matches them."`
	Group              string   `key:"group" validate:"required,max=249" doc:"Consumer group; nodes that share it share the partitions."`
	Tenant             string   `key:"tenant" validate:"omitempty,uuid" doc:"Tenant that the letters belong to; empty means tenant.default_id."`
	Start              string   `key:"start" validate:"oneof=earliest latest" doc:"Where to start in a partition that the group has never read: earliest, or latest to skip existing records."`
	Backlog            string   `key:"backlog" validate:"oneof=hold retry" doc:"What to do with letters from records that were in a topic when the group first read it: hold (retried only on request) or retry (like all others)."`
	Batch              int      `key:"batch" validate:"min=1,max=5000" doc:"Maximum number of records in one statement."`
	MaxBytes           int      `key:"max_bytes" validate:"min=1048576,max=268435456" doc:"Maximum size of one fetch in bytes. Memory use may be about four times as much, and at least eight times the largest record."`
	Suffixes           []string `key:"suffixes" doc:"Suffixes of dead-letter topics, ignoring case; they are removed to find the original topic if no header names it."`
	Prefixes           []string `key:"prefixes" doc:"Prefixes of dead-letter topics, removed in the same way."`
	AllowTopicCreation bool     `key:"allow_topic_creation" doc:"Whether sending a letter to a missing topic may create it, if the brokers create topics automatically."`
}

func defaultIngest() Ingest {
	return Ingest{
		Group: "skald-dlq", Start: "earliest", Backlog: "hold", Batch: 1000, MaxBytes: 16 << 20,
		Suffixes: []string{".dlq", "-dlq", "_dlq", ".dlt", "-dlt", "_dlt"}, Prefixes: []string{"dlq."},
	}
}

// DLQ configures how dead letters are treated and redriven. The first eight settings are the policy
// for topics and tenants that have none of their own.
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
	HTTPConcurrency int           `key:"http_concurrency" validate:"min=1,max=1000" doc:"Maximum number of letters that each node sends to HTTP targets at once."`
	HTTPTimeout     time.Duration `key:"http_timeout" validate:"min=100ms,max=5m" doc:"Timeout of a request to an HTTP target."`
	RedriveRate     int           `key:"redrive_rate" validate:"min=1,max=1000000" doc:"Letters per second, over all nodes, of a bulk redrive that sets no rate; at most max_redrive_rate."`
	MaxRedriveRate  int           `key:"max_redrive_rate" validate:"min=1,max=1000000" doc:"Maximum rate that a redrive may set, in letters per second."`
	BulkLimit       int           `key:"bulk_limit" validate:"min=0,max=10000000" doc:"Maximum number of letters in one redrive with dlq:write; more letters require dlq:admin."`
}

func defaultDLQ() DLQ {
	return DLQ{
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
	}
}
