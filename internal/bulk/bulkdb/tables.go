package bulkdb

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// readDefinition reads a definition, even if it is deleted.
var readDefinition = `SELECT ` + jobdb.DefinitionColumns + ` FROM jobs.job_definitions d
  WHERE d.tenant_id = $1 AND d.id = $2`

// backfillTable is jobs.backfills.
var backfillTable = postgres.NewTable(
	postgres.UUID("id", func(b *jobrun.Backfill) *uuid.UUID { return &b.ID }),
	postgres.UUID("tenant_id", func(b *jobrun.Backfill) *uuid.UUID { return &b.TenantID }),
	postgres.UUID("definition_id", func(b *jobrun.Backfill) *uuid.UUID { return &b.DefinitionID }),
	postgres.Int("version", func(b *jobrun.Backfill) *int64 { return &b.Version }),
	postgres.Text("state", func(b *jobrun.Backfill) *bulk.State { return &b.State }),
	postgres.Time("from_at", func(b *jobrun.Backfill) *time.Time { return &b.From }),
	postgres.Time("to_at", func(b *jobrun.Backfill) *time.Time { return &b.To }),
	postgres.Text("reprocess", func(b *jobrun.Backfill) *jobrun.Reprocess { return &b.Reprocess }),
	postgres.Bool("newest_first", func(b *jobrun.Backfill) *bool { return &b.NewestFirst }),
	postgres.Int("max_active", func(b *jobrun.Backfill) *int { return &b.MaxActive }),
	postgres.Text("overlap", func(b *jobrun.Backfill) *jobrun.Policy { return &b.Overlap }),
	postgres.OrMark("schedule", func(b *jobrun.Backfill) **schedule.Spec { return &b.Schedule },
		func(b *jobrun.Backfill) *bool { return &b.Unreadable }),
	postgres.IntOrNil("expected", func(b *jobrun.Backfill) **int64 { return &b.Expected }),
	postgres.IntOrNil("halts_above", func(b *jobrun.Backfill) **int64 { return &b.HaltsAbove }),
	postgres.Text("halt_reason", func(b *jobrun.Backfill) *string { return &b.HaltReason }),
	postgres.IntOrNil("found", func(b *jobrun.Backfill) **int64 { return &b.Found }),
	postgres.TimeOrNil("cursor_at", func(b *jobrun.Backfill) **time.Time { return &b.Cursor }).ReadOnly(),
	postgres.Int("created", func(b *jobrun.Backfill) *int64 { return &b.Created }).ReadOnly(),
	postgres.Int("skipped", func(b *jobrun.Backfill) *int64 { return &b.Skipped }).ReadOnly(),
	postgres.Bytes("request_hash", func(b *jobrun.Backfill) *[]byte { return &b.RequestHash }),
	postgres.Text("reason", func(b *jobrun.Backfill) *string { return &b.Reason }),
	postgres.Text("actor", func(b *jobrun.Backfill) *string { return &b.Actor }),
	postgres.Text("actor_name", func(b *jobrun.Backfill) *string { return &b.ActorName }),
	postgres.Time("created_at", func(b *jobrun.Backfill) *time.Time { return &b.CreatedAt }),
	postgres.TimeOrNil("ended_at", func(b *jobrun.Backfill) **time.Time { return &b.EndedAt }).ReadOnly(),
)

// bulkRow is a row of jobs.bulks: a bulk operation and the two columns of its cursor.
type bulkRow struct {
	jobrun.Bulk
	position
}

var bulkTable = postgres.NewTable(
	postgres.UUID("id", func(b *bulkRow) *uuid.UUID { return &b.ID }),
	postgres.UUID("tenant_id", func(b *bulkRow) *uuid.UUID { return &b.TenantID }),
	postgres.Int("version", func(b *bulkRow) *int64 { return &b.Version }),
	postgres.Text("action", func(b *bulkRow) *jobrun.BulkAction { return &b.Action }),
	postgres.Text("state", func(b *bulkRow) *bulk.State { return &b.State }),
	postgres.OrMark("filter", func(b *bulkRow) *jobrun.Filter { return &b.Filter },
		func(b *bulkRow) *bool { return &b.Unreadable }),
	postgres.Time("before", func(b *bulkRow) *time.Time { return &b.Before }),
	postgres.TextOrEmpty("covers", func(b *bulkRow) *page.Snapshot { return &b.Snapshot }).Cast("::pg_snapshot"),
	postgres.IntOrNil("expected", func(b *bulkRow) **int64 { return &b.Expected }),
	postgres.IntOrNil("halts_above", func(b *bulkRow) **int64 { return &b.HaltsAbove }),
	postgres.Text("halt_reason", func(b *bulkRow) *string { return &b.HaltReason }),
	postgres.IntOrNil("found", func(b *bulkRow) **int64 { return &b.Found }),
	postgres.TimeOrNil("cursor_at", func(b *bulkRow) **time.Time { return &b.at }).ReadOnly(),
	postgres.UUIDOrZero("cursor_id", func(b *bulkRow) *uuid.UUID { return &b.id }).ReadOnly(),
	postgres.Int("matched", func(b *bulkRow) *int64 { return &b.Matched }).ReadOnly(),
	postgres.Int("done", func(b *bulkRow) *int64 { return &b.Done }).ReadOnly(),
	postgres.Int("skipped", func(b *bulkRow) *int64 { return &b.Skipped }).ReadOnly(),
	postgres.Bytes("request_hash", func(b *bulkRow) *[]byte { return &b.RequestHash }),
	postgres.Text("reason", func(b *bulkRow) *string { return &b.Reason }),
	postgres.Text("actor", func(b *bulkRow) *string { return &b.Actor }),
	postgres.Text("actor_name", func(b *bulkRow) *string { return &b.ActorName }),
	postgres.Time("created_at", func(b *bulkRow) *time.Time { return &b.CreatedAt }),
	postgres.TimeOrNil("ended_at", func(b *bulkRow) **time.Time { return &b.EndedAt }).ReadOnly(),
)
