package jobdb

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// DefinitionTable is jobs.job_definitions. The columns type, command_name, labels and event_type
// are derived from spec. The first two are read before the spec, in case it is damaged.
var DefinitionTable = postgres.NewTable(
	postgres.UUID("id", func(d *jobrun.Definition) *uuid.UUID { return &d.ID }),
	postgres.UUID("tenant_id", func(d *jobrun.Definition) *uuid.UUID { return &d.TenantID }),
	postgres.Text("name", func(d *jobrun.Definition) *string { return &d.Name }),
	postgres.Int("version", func(d *jobrun.Definition) *int64 { return &d.Version }),
	postgres.Int("spec_version", func(d *jobrun.Definition) *int { return &d.SpecVersion }),
	postgres.Text("type", func(d *jobrun.Definition) *jobrun.Type { return &d.Spec.Type }),
	postgres.Text("command_name", func(d *jobrun.Definition) *string { return &d.Spec.CommandName }),
	postgres.OrMark("spec", func(d *jobrun.Definition) *jobrun.Spec { return &d.Spec },
		func(d *jobrun.Definition) *bool { return &d.Unreadable }),
	postgres.Texts("labels", func(d *jobrun.Definition) *[]string { return new(jobrun.Pairs(d.Spec.Labels)) }).WriteOnly(),
	postgres.Bool("enabled", func(d *jobrun.Definition) *bool { return &d.Enabled }),
	postgres.TimeOrNil("paused_at", func(d *jobrun.Definition) **time.Time { return &d.PausedAt }),
	postgres.TimeOrNil("paused_until", func(d *jobrun.Definition) **time.Time { return &d.PausedUntil }),
	postgres.Text("pause_reason", func(d *jobrun.Definition) *string { return &d.PauseReason }),
	postgres.Bool("built_in", func(d *jobrun.Definition) *bool { return &d.BuiltIn }),
	postgres.TextOrNil("event_type", func(d *jobrun.Definition) **string { return new(eventTypeOf(&d.Spec)) }).WriteOnly(),
	postgres.Time("last_materialized_at", func(d *jobrun.Definition) *time.Time { return &d.LastMaterializedAt }),
	postgres.TimeOrNil("next_due_at", func(d *jobrun.Definition) **time.Time { return &d.NextDueAt }),
	postgres.Time("created_at", func(d *jobrun.Definition) *time.Time { return &d.CreatedAt }),
	postgres.Time("updated_at", func(d *jobrun.Definition) *time.Time { return &d.UpdatedAt }),
	postgres.Text("created_by", func(d *jobrun.Definition) *string { return &d.CreatedBy }),
	postgres.Text("updated_by", func(d *jobrun.Definition) *string { return &d.UpdatedBy }),
	postgres.TimeOrNil("deleted_at", func(d *jobrun.Definition) **time.Time { return &d.DeletedAt }).ReadOnly(),
)

// DefinitionColumns are the columns of DefinitionTable, with alias d for
// jobs.job_definitions.
var DefinitionColumns = DefinitionTable.Selected("d")

// eventTypeOf returns the value of column event_type; nil: NULL.
func eventTypeOf(s *jobrun.Spec) *string {
	if s.Event == nil {
		return nil
	}
	return &s.Event.EventType
}

// specVersion is a row of jobs.job_definition_versions.
type specVersion struct {
	definition, tenant uuid.UUID
	jobrun.SpecVersion
}

var specVersionTable = postgres.NewTable(
	postgres.UUID("definition_id", func(v *specVersion) *uuid.UUID { return &v.definition }),
	postgres.UUID("tenant_id", func(v *specVersion) *uuid.UUID { return &v.tenant }),
	postgres.Int("spec_version", func(v *specVersion) *int { return &v.Number }),
	postgres.OrMark("spec", func(v *specVersion) *jobrun.Spec { return &v.Spec },
		func(v *specVersion) *bool { return &v.Unreadable }),
	postgres.Time("created_at", func(v *specVersion) *time.Time { return &v.CreatedAt }),
	postgres.Text("created_by", func(v *specVersion) *string { return &v.CreatedBy }),
)

// workerTable is jobs.workers. Heartbeats use the database's clock.
var workerTable = postgres.NewTable(
	postgres.UUID("id", func(w *jobrun.WorkerProcess) *uuid.UUID { return &w.ID }),
	postgres.UUID("tenant_id", func(w *jobrun.WorkerProcess) *uuid.UUID { return &w.TenantID }),
	postgres.Int("version", func(w *jobrun.WorkerProcess) *int64 { return &w.Version }).ReadOnly(),
	postgres.Text("state", func(w *jobrun.WorkerProcess) *jobrun.WorkerState { return &w.State }),
	postgres.Text("name", func(w *jobrun.WorkerProcess) *string { return &w.Name }),
	postgres.Text("node", func(w *jobrun.WorkerProcess) *string { return &w.Node }),
	postgres.Int("pid", func(w *jobrun.WorkerProcess) *int64 { return &w.PID }),
	postgres.Text("sdk", func(w *jobrun.WorkerProcess) *string { return &w.SDK }),
	postgres.Text("sdk_version", func(w *jobrun.WorkerProcess) *string { return &w.SDKVersion }),
	postgres.Texts("labels", func(w *jobrun.WorkerProcess) *[]string { return &w.Labels }),
	postgres.Texts("queues", func(w *jobrun.WorkerProcess) *[]string { return &w.Queues }),
	postgres.Texts("commands", func(w *jobrun.WorkerProcess) *[]string { return &w.Commands }),
	postgres.Int("max_runs", func(w *jobrun.WorkerProcess) *int { return &w.MaxRuns }),
	postgres.Text("principal", func(w *jobrun.WorkerProcess) *string { return &w.Principal }),
	postgres.Int("running", func(w *jobrun.WorkerProcess) *int { return &w.Running }).ReadOnly(),
	postgres.Float("load", func(w *jobrun.WorkerProcess) *float64 { return &w.Load }).ReadOnly(),
	postgres.Int("heartbeat_seq", func(w *jobrun.WorkerProcess) *int64 { return &w.HeartbeatSeq }).ReadOnly(),
	postgres.Time("registered_at", func(w *jobrun.WorkerProcess) *time.Time { return &w.RegisteredAt }).
		From("clock_timestamp()"),
	postgres.Time("heartbeat_at", func(w *jobrun.WorkerProcess) *time.Time { return &w.HeartbeatAt }).
		From("clock_timestamp()"),
	postgres.TimeOrNil("drain_at", func(w *jobrun.WorkerProcess) **time.Time { return &w.DrainAt }).ReadOnly(),
	postgres.TimeOrNil("lost_at", func(w *jobrun.WorkerProcess) **time.Time { return &w.LostAt }).ReadOnly(),
	postgres.TimeOrNil("detached_at", func(w *jobrun.WorkerProcess) **time.Time { return &w.DetachedAt }).ReadOnly(),
	postgres.Text("reason", func(w *jobrun.WorkerProcess) *string { return &w.Reason }).ReadOnly(),
)

var workerColumns = workerTable.Selected("w")

// publishedEvent is a row of jobs.events: an event and the stored form of the fields that may be
// sealed.
type publishedEvent struct {
	jobrun.PublishedEvent
	payload []byte
	record  jobrun.EventRecord // none if there is no topic
}

var publishedEventTable = postgres.NewTable(
	postgres.UUID("id", func(e *publishedEvent) *uuid.UUID { return &e.ID }),
	postgres.UUID("tenant_id", func(e *publishedEvent) *uuid.UUID { return &e.TenantID }),
	postgres.Text("event_type", func(e *publishedEvent) *string { return &e.Type }),
	postgres.JSON("payload_json", func(e *publishedEvent) *[]byte { return &e.payload }),
	postgres.TextOrEmpty("dedupe_key", func(e *publishedEvent) *string { return &e.DedupeKey }),
	postgres.TextOrEmpty("correlation_id", func(e *publishedEvent) *string { return &e.CorrelationID }),
	postgres.TimeOrNil("occurred_at", func(e *publishedEvent) **time.Time { return &e.OccurredAt }).
		StoredFrom("coalesce(@v.occurred_at::timestamptz, now())"),
	postgres.UUIDOrZero("source_run_id", func(e *publishedEvent) *uuid.UUID { return &e.SourceRunID }),
	postgres.Time("created_at", func(e *publishedEvent) *time.Time { return &e.CreatedAt }).From("now()"),
	postgres.TimeOrNil("processed_at", func(e *publishedEvent) **time.Time { return &e.ProcessedAt }).ReadOnly(),
	postgres.TextOrEmpty("published_by", func(e *publishedEvent) *string { return &e.By }),
	postgres.TextOrEmpty("source_topic", func(e *publishedEvent) *string { return &e.record.Topic }).ReadOnly(),
	postgres.IntOr(0, "source_partition", func(e *publishedEvent) *int32 { return &e.record.Partition }).ReadOnly(),
	postgres.IntOr(0, "source_offset", func(e *publishedEvent) *int64 { return &e.record.Offset }).ReadOnly(),
)

var publishedEventColumns = publishedEventTable.Selected("v")

// eventDelivery is a row of jobs.event_deliveries.
type eventDelivery struct {
	event, tenant uuid.UUID
	jobrun.EventDelivery
}

var eventDeliveryTable = postgres.NewTable(
	postgres.UUID("event_id", func(d *eventDelivery) *uuid.UUID { return &d.event }),
	postgres.UUID("definition_id", func(d *eventDelivery) *uuid.UUID { return &d.DefinitionID }),
	postgres.UUID("tenant_id", func(d *eventDelivery) *uuid.UUID { return &d.tenant }),
	postgres.UUIDOrZero("run_id", func(d *eventDelivery) *uuid.UUID { return &d.RunID }),
	postgres.Int("attempts", func(d *eventDelivery) *int { return &d.Attempts }),
	postgres.Text("error", func(d *eventDelivery) *string { return &d.Error }),
	postgres.TimeOrNil("delivered_at", func(d *eventDelivery) **time.Time { return &d.DeliveredAt }),
	postgres.TimeOrNil("next_try_at", func(d *eventDelivery) **time.Time { return &d.NextTryAt }),
	postgres.UUIDOrZero("letter_id", func(d *eventDelivery) *uuid.UUID { return &d.LetterID }),
)

// settingRow is one changed setting with the version of all settings; its name is "" if no setting
// was changed.
type settingRow struct {
	version int64
	name    string
	jobrun.SettingValue
}

var settingTable = postgres.NewTable(
	postgres.Int("version", func(s *settingRow) *int64 { return &s.version }).ReadFrom("v.version"),
	postgres.TextOrEmpty("name", func(s *settingRow) *string { return &s.name }),
	postgres.Read("value", func(s *settingRow) any { return postgres.ScanOr(&s.Value, 0) }).
		ReadFrom("s.value::double precision"),
	postgres.TextOrEmpty("updated_by", func(s *settingRow) *string { return &s.UpdatedBy }),
	postgres.TimeOrNil("updated_at", func(s *settingRow) **time.Time { return &s.UpdatedAt }),
)

// settingChangeTable is jobs.settings_history.
var settingChangeTable = postgres.NewTable(
	postgres.Int("version", func(c *jobrun.SettingChange) *int64 { return &c.Version }),
	postgres.Text("name", func(c *jobrun.SettingChange) *string { return &c.Name }),
	postgres.FloatOrNil("old_value", func(c *jobrun.SettingChange) **float64 { return &c.Old }).
		StoredFrom("to_jsonb(@h.old_value::double precision)").ReadFrom("h.old_value::double precision"),
	postgres.FloatOrNil("new_value", func(c *jobrun.SettingChange) **float64 { return &c.New }).
		StoredFrom("to_jsonb(@h.new_value::double precision)").ReadFrom("h.new_value::double precision"),
	postgres.Text("changed_by", func(c *jobrun.SettingChange) *string { return &c.By }),
	postgres.Text("reason", func(c *jobrun.SettingChange) *string { return &c.Reason }),
	postgres.Time("changed_at", func(c *jobrun.SettingChange) *time.Time { return &c.At }).From("clock_timestamp()"),
)

// logChunk is a row of jobs.job_run_logs: a chunk with its body as stored.
type logChunk struct {
	run, tenant uuid.UUID
	jobrun.LogChunk
}

var logChunkTable = postgres.NewTable(
	postgres.UUID("run_id", func(c *logChunk) *uuid.UUID { return &c.run }),
	postgres.UUID("tenant_id", func(c *logChunk) *uuid.UUID { return &c.tenant }),
	postgres.Int("attempt", func(c *logChunk) *int { return &c.Attempt }),
	postgres.Int("seq", func(c *logChunk) *int { return &c.Seq }),
	postgres.Time("at", func(c *logChunk) *time.Time { return &c.At }).From("clock_timestamp()"),
	postgres.Text("stream", func(c *logChunk) *string { return &c.Stream }),
	postgres.Bytes("body", func(c *logChunk) *[]byte { return &c.Body }),
)

var logChunkColumns = logChunkTable.Selected("l")
