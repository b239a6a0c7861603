package jobdb

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// runEvent is a row of jobs.job_run_events.
type runEvent struct {
	run, tenant uuid.UUID
	jobrun.HistoryEvent
}

// RunEventTable is jobs.job_run_events.
var RunEventTable = postgres.NewTable(
	postgres.UUID("run_id", func(e *runEvent) *uuid.UUID { return &e.run }).WriteOnly(),
	postgres.UUID("tenant_id", func(e *runEvent) *uuid.UUID { return &e.tenant }).WriteOnly(),
	postgres.Time("at", func(e *runEvent) *time.Time { return &e.At }),
	postgres.Text("kind", func(e *runEvent) *jobrun.EventKind { return &e.Kind }),
	postgres.Text("from_state", func(e *runEvent) *jobrun.State { return &e.From }),
	postgres.Text("to_state", func(e *runEvent) *jobrun.State { return &e.To }),
	postgres.Int("version", func(e *runEvent) *int64 { return &e.Version }),
	postgres.Int("attempt", func(e *runEvent) *int { return &e.Attempt }),
	postgres.Int("epoch", func(e *runEvent) *int64 { return &e.Epoch }),
	postgres.UUIDOrZero("worker_id", func(e *runEvent) *uuid.UUID { return &e.WorkerID }),
	postgres.Text("actor", func(e *runEvent) *string { return &e.Actor }),
	postgres.Text("reason", func(e *runEvent) *string { return &e.Reason }),
)

// storeRunEvents inserts a batch of events on the writers' connections. The ids follow the order of
// the batch.
var storeRunEvents = postgres.Named(`
	INSERT INTO jobs.job_run_events (`+RunEventTable.Inserted()+`)
	SELECT `+RunEventTable.Stored("")+`
	  FROM `+postgres.Unnest("e", RunEventTable.As("e")), RunEventTable.As("e"))

// toldByTheRow lists the kinds of events that are not stored because the run's row and attempts
// imply them. They are added when the events of a run are listed.
var toldByTheRow = map[jobrun.EventKind]bool{
	jobrun.WasCreated: true, jobrun.WasAssigned: true, jobrun.WasStarted: true, jobrun.WasSucceeded: true,
}

// RunEvents collects a batch of events.
type RunEvents struct{ batch *postgres.Batch[runEvent] }

// Add appends an event of r, unless the run's row implies it.
func (c *RunEvents) Add(r *jobrun.Run, e jobrun.HistoryEvent) {
	if toldByTheRow[e.Kind] {
		return
	}
	if c.batch == nil {
		c.batch = RunEventTable.Batch(1)
	}
	e.Reason = jobrun.StoredReason(e.Reason)
	c.batch.Add(&runEvent{r.ID, r.TenantID, e})
}

// PutRunEvents stores the events in c in tx, a transaction of the writers' connections.
func (db *DB) PutRunEvents(ctx context.Context, tx *sqlx.Tx, c *RunEvents) error {
	if c.batch == nil {
		return nil
	}
	return db.ExecIn(ctx, tx, storeRunEvents.Text, storeRunEvents.Args(c.batch)...)
}

// runAttempt is a row of jobs.job_run_attempts.
type runAttempt struct {
	run, tenant uuid.UUID
	jobrun.Attempt
}

// AttemptTable is jobs.job_run_attempts.
var AttemptTable = postgres.NewTable(
	postgres.UUID("run_id", func(a *runAttempt) *uuid.UUID { return &a.run }).WriteOnly(),
	postgres.UUID("tenant_id", func(a *runAttempt) *uuid.UUID { return &a.tenant }).WriteOnly(),
	postgres.Int("attempt", func(a *runAttempt) *int { return &a.Number }),
	postgres.UUID("worker_id", func(a *runAttempt) *uuid.UUID { return &a.Fence.WorkerID }),
	postgres.UUID("lease_token", func(a *runAttempt) *uuid.UUID { return &a.Fence.LeaseToken }),
	postgres.Int("leader_epoch", func(a *runAttempt) *int64 { return &a.Fence.LeaderEpoch }),
	postgres.IntOr(0, "fencing_seq", func(a *runAttempt) *int64 { return &a.FencingSeq }),
	postgres.Time("assigned_at", func(a *runAttempt) *time.Time { return &a.AssignedAt }),
	postgres.TimeOrNil("started_at", func(a *runAttempt) **time.Time { return &a.StartedAt }),
	postgres.TimeOrNil("ended_at", func(a *runAttempt) **time.Time { return &a.EndedAt }),
	postgres.Text("outcome", func(a *runAttempt) *string { return &a.Outcome }),
	postgres.Text("reason", func(a *runAttempt) *string { return &a.Reason }),
)

var storeRunAttempts = postgres.Named(`
	INSERT INTO jobs.job_run_attempts (`+AttemptTable.Inserted()+`)
	SELECT `+AttemptTable.Stored("")+`
	  FROM `+postgres.Unnest("a", AttemptTable.As("a")), AttemptTable.As("a"))

// putRunAttempt stores an ended attempt of r in tx, a transaction of the writers' connections. The
// run has not ended, so another attempt may follow (S19). r is the run before the change.
func (db *DB) putRunAttempt(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, a jobrun.Attempt) error {
	a.Number, a.Fence, a.FencingSeq, a.StartedAt = r.Attempt, r.Fence(), r.FencingSeq, r.StartedAt
	if r.AssignedAt == nil {
		return fmt.Errorf("an attempt of job run %s ended although the run was never assigned", r.ID)
	}
	a.AssignedAt, a.Reason = *r.AssignedAt, jobrun.StoredReason(a.Reason)
	batch := AttemptTable.Batch(1)
	batch.Add(&runAttempt{r.ID, r.TenantID, a})
	return db.ExecIn(ctx, tx, storeRunAttempts.Text, storeRunAttempts.Args(batch)...)
}
