package redrivedb

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// redriveTable describes dlq.dlq_redrives without the cursor of gathering and the token bucket.
var redriveTable = postgres.NewTable(
	postgres.UUID("id", func(r *dlq.Redrive) *uuid.UUID { return &r.ID }),
	postgres.UUID("tenant_id", func(r *dlq.Redrive) *uuid.UUID { return &r.TenantID }),
	postgres.Int("version", func(r *dlq.Redrive) *int64 { return &r.Version }),
	postgres.Text("action", func(r *dlq.Redrive) *dlq.RedriveAction { return &r.Action }),
	postgres.Text("state", func(r *dlq.Redrive) *dlq.RedriveState { return &r.State }),
	postgres.Text("halt_reason", func(r *dlq.Redrive) *string { return &r.HaltReason }),
	postgres.UUIDsOrNil("ids", func(r *dlq.Redrive) *[]uuid.UUID { return &r.IDs }),
	postgres.OrMark("filter", func(r *dlq.Redrive) **dlq.Filter { return &r.Filter }, damaged),
	rawJSON("query", func(r *dlq.Redrive) *json.RawMessage { return &r.Query }),
	postgres.Int("max_messages", func(r *dlq.Redrive) *int64 { return &r.Max }),
	postgres.Float("rate", func(r *dlq.Redrive) *float64 { return &r.Rate }),
	postgres.Int("concurrency", func(r *dlq.Redrive) *int { return &r.Concurrency }),
	postgres.Text("key_order", func(r *dlq.Redrive) *dlq.Order { return &r.Order }),
	postgres.OrMark("target", func(r *dlq.Redrive) **dlq.Target { return &r.Target }, damaged),
	rawJSON("transform", func(r *dlq.Redrive) *json.RawMessage { return &r.Transform }),
	postgres.Bool("force", func(r *dlq.Redrive) *bool { return &r.Force }),
	postgres.OrMark("canary", func(r *dlq.Redrive) **dlq.Canary { return &r.Canary }, damaged),
	postgres.OrMark("stop_on", func(r *dlq.Redrive) *dlq.StopOn { return &r.StopOn }, damaged),
	postgres.TimeOrNil("scheduled_for", func(r *dlq.Redrive) **time.Time { return &r.ScheduledFor }),
	postgres.Bool("include_later", func(r *dlq.Redrive) *bool { return &r.IncludeLater }),
	postgres.TextOrEmpty("covers", func(r *dlq.Redrive) *page.Snapshot { return &r.Snapshot }).Cast("::pg_snapshot"),
	postgres.IntOrNil("expected", func(r *dlq.Redrive) **int64 { return &r.Expected }),
	postgres.IntOrNil("halts_above", func(r *dlq.Redrive) **int64 { return &r.HaltsAbove }),
	postgres.Bool("approval", func(r *dlq.Redrive) *bool { return &r.Approval }),
	postgres.Bytes("request_hash", func(r *dlq.Redrive) *[]byte { return &r.RequestHash }),
	postgres.Text("reason", func(r *dlq.Redrive) *string { return &r.Reason }),
	postgres.Text("actor", func(r *dlq.Redrive) *string { return &r.Actor }),
	postgres.Text("approved_by", func(r *dlq.Redrive) *string { return &r.ApprovedBy }),
	postgres.Text("actor_name", func(r *dlq.Redrive) *string { return &r.ActorName }),
	postgres.Text("approved_by_name", func(r *dlq.Redrive) *string { return &r.ApprovedByName }),
	postgres.Bool("gathered", func(r *dlq.Redrive) *bool { return &r.Gathered }),
	postgres.Int("matched", func(r *dlq.Redrive) *int64 { return &r.Matched }),
	postgres.Int("done", func(r *dlq.Redrive) *int64 { return &r.Done }),
	postgres.Int("failed", func(r *dlq.Redrive) *int64 { return &r.Failed }),
	postgres.Int("skipped", func(r *dlq.Redrive) *int64 { return &r.Skipped }),
	postgres.Int("bounced", func(r *dlq.Redrive) *int64 { return &r.Bounced }),
	postgres.Int("sent", func(r *dlq.Redrive) *int64 { return &r.Sent }),
	postgres.Int("maybe_sent", func(r *dlq.Redrive) *int64 { return &r.MaybeSent }),
	postgres.Int("repeated", func(r *dlq.Redrive) *int64 { return &r.Repeated }),
	postgres.Int("done_before", func(r *dlq.Redrive) *int64 { return &r.DoneBefore }),
	postgres.Int("failed_before", func(r *dlq.Redrive) *int64 { return &r.FailedBefore }),
	postgres.Int("halts", func(r *dlq.Redrive) *int { return &r.Halts }),
	postgres.Text("last_halt_reason", func(r *dlq.Redrive) *string { return &r.LastHalt }),
	postgres.TimeOrNil("last_halted_at", func(r *dlq.Redrive) **time.Time { return &r.LastHaltedAt }),
	postgres.TimeOrNil("progress_at", func(r *dlq.Redrive) **time.Time { return &r.ProgressAt }),
	postgres.Text("waiting_for", func(r *dlq.Redrive) *string { return &r.WaitingFor }),
	postgres.TimeOrNil("waiting_at", func(r *dlq.Redrive) **time.Time { return &r.WaitingAt }),
	postgres.OrMark("pauses", func(r *dlq.Redrive) *dlq.Pauses { return &r.Pauses }, damaged),
	postgres.Text("last_error", func(r *dlq.Redrive) *string { return &r.LastError }),
	postgres.TimeOrNil("last_error_at", func(r *dlq.Redrive) **time.Time { return &r.LastErrorAt }),
	postgres.Time("created_at", func(r *dlq.Redrive) *time.Time { return &r.CreatedAt }),
	postgres.TimeOrNil("started_at", func(r *dlq.Redrive) **time.Time { return &r.StartedAt }),
	postgres.TimeOrNil("watched_at", func(r *dlq.Redrive) **time.Time { return &r.WatchedAt }),
	postgres.Bool("canary_ok", func(r *dlq.Redrive) *bool { return &r.CanaryOK }),
	postgres.TimeOrNil("ended_at", func(r *dlq.Redrive) **time.Time { return &r.EndedAt }),
	postgres.Time("updated_at", func(r *dlq.Redrive) *time.Time { return &r.UpdatedAt }),
)

func damaged(r *dlq.Redrive) *bool { return &r.Unreadable }

var redriveColumns = redriveTable.Selected("d")

func rawJSON[T any](name string, at func(*T) *json.RawMessage) postgres.Column[T] {
	return postgres.JSON(name, func(r *T) *[]byte { return (*[]byte)(at(r)) })
}

// itemTable describes dlq.dlq_redrive_items without the columns copied from its redrive and the
// number of hand-overs.
var itemTable = postgres.NewTable(
	postgres.Int("seq", func(i *dlq.Item) *int64 { return &i.Seq }),
	postgres.UUID("message_id", func(i *dlq.Item) *uuid.UUID { return &i.LetterID }),
	postgres.Text("state", func(i *dlq.Item) *dlq.ItemState { return &i.State }),
	postgres.Text("detail", func(i *dlq.Item) *string { return &i.Detail }),
	postgres.Time("updated_at", func(i *dlq.Item) *time.Time { return &i.UpdatedAt }),
)

// endedItems describes items found by their letters, and reachTable describes how far each letter
// got toward its target.
var (
	endedItems = itemTable.Only("message_id", "state", "detail")
	reachTable = postgres.NewTable(postgres.Text("reach", func(r *dlq.Reach) *dlq.Reach { return r }))
	// judgedItems describes items found by their position in the redrive.
	judgedItems = itemTable.Only("seq", "state", "detail")
)

// waitingTable contains the facts that the rules need about a letter. All are NULL if the letter no
// longer exists.
var waitingTable = postgres.NewTable(
	postgres.IntOr(0, "version", func(i *item) *int64 { return &i.letter.Version }),
	postgres.TextOrEmpty("source", func(i *item) *dlq.Source { return &i.letter.Source }),
	postgres.TextOrEmpty("original_topic", func(i *item) *string { return &i.letter.OriginalTopic }),
	postgres.TextOrEmpty("status", func(i *item) *dlq.Status { return &i.letter.Status }),
	postgres.TextOrEmpty("resolution", func(i *item) *dlq.Resolution { return &i.letter.Resolution }),
	postgres.IntOr(0, "retry_count", func(i *item) *int { return &i.letter.RetryCount }),
	postgres.IntOr(0, "max_retries", func(i *item) *int { return &i.letter.MaxRetries }),
	postgres.IntOr(0, "generation", func(i *item) *int { return &i.letter.Generation }),
	postgres.TimeOrNil("next_retry_at", func(i *item) **time.Time { return &i.letter.NextRetryAt }),
	postgres.TimeOrNil("terminal_at", func(i *item) **time.Time { return &i.letter.TerminalAt }),
	postgres.TimeOrNil("created_at", func(i *item) **time.Time { return &i.createdAt }),
	postgres.TextOrEmpty("fingerprint", func(i *item) *string { return &i.letter.Fingerprint }),
	postgres.TextOrEmpty("error_type", func(i *item) *string { return &i.letter.Failure.Type }),
	postgres.TextOrEmpty("error_class", func(i *item) *dlq.ErrorClass { return &i.letter.Failure.Class }),
	postgres.UUIDOrZero("root_id", func(i *item) *uuid.UUID { return &i.letter.RootID }),
)

// appliedRow is a letter that a redrive has changed, and its previous version.
type appliedRow struct {
	*dlq.Letter
	was int64
}

var appliedTable = postgres.NewTable(
	postgres.UUID("id", func(r *appliedRow) *uuid.UUID { return &r.ID }),
	postgres.Int("version", func(r *appliedRow) *int64 { return &r.was }),
	postgres.Text("status", func(r *appliedRow) *dlq.Status { return &r.Status }),
	postgres.TextOrEmpty("resolution", func(r *appliedRow) *dlq.Resolution { return &r.Resolution }),
	postgres.Int("retry_count", func(r *appliedRow) *int { return &r.RetryCount }),
	postgres.Int("max_retries", func(r *appliedRow) *int { return &r.MaxRetries }),
	postgres.TimeOrNil("next_retry_at", func(r *appliedRow) **time.Time { return &r.NextRetryAt }),
	postgres.TimeOrNil("terminal_at", func(r *appliedRow) **time.Time { return &r.TerminalAt }),
	postgres.Time("updated_at", func(r *appliedRow) *time.Time { return &r.UpdatedAt }),
)

// item is a waiting letter of a redrive, with the facts that the rules need.
type item struct {
	seq    int64
	letter dlq.Letter // without content; the status is "" if the letter no longer exists

	createdAt *time.Time // creation time of the letter
}
