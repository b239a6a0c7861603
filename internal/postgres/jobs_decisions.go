package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
)

// runEvent is a row of jobs.job_run_events.
type runEvent struct {
	run, tenant uuid.UUID
	jobrun.Event
}

var runEventTable = NewTable(
	UUID("run_id", func(e *runEvent) *uuid.UUID { return &e.run }).WriteOnly(),
	UUID("tenant_id", func(e *runEvent) *uuid.UUID { return &e.tenant }).WriteOnly(),
	Time("at", func(e *runEvent) *time.Time { return &e.At }),
	Text("kind", func(e *runEvent) *jobrun.EventKind { return &e.Kind }),
	Text("from_state", func(e *runEvent) *jobrun.State { return &e.From }),
	Text("to_state", func(e *runEvent) *jobrun.State { return &e.To }),
	Int("version", func(e *runEvent) *int64 { return &e.Version }),
	Int("attempt", func(e *runEvent) *int { return &e.Attempt }),
	Int("epoch", func(e *runEvent) *int64 { return &e.Epoch }),
	UUIDOrZero("worker_id", func(e *runEvent) *uuid.UUID { return &e.WorkerID }),
	Text("actor", func(e *runEvent) *string { return &e.Actor }),
	Text("reason", func(e *runEvent) *string { return &e.Reason }),
)

// storeRunEvents appends a batch of decisions; for the writers' connections. Ids are
// given in the order of the batch.
var storeRunEvents = Named(`
	INSERT INTO jobs.job_run_events (`+runEventTable.Inserted()+`)
	SELECT `+runEventTable.Stored("")+`
	  FROM `+Unnest("e", runEventTable.As("e")), runEventTable.As("e"))

// toldByTheRow are kinds that are not stored: the run's row and its attempts tell
// them by themselves. Who lists the events of a run adds them.
var toldByTheRow = map[jobrun.EventKind]bool{
	jobrun.WasCreated: true, jobrun.WasAssigned: true, jobrun.WasStarted: true, jobrun.WasSucceeded: true,
}

// runEvents gathers a batch of decisions.
type runEvents struct{ batch *Batch[runEvent] }

// add appends a decision about r, unless it is one that its row tells.
func (c *runEvents) add(r *jobrun.Run, e jobrun.Event) {
	if toldByTheRow[e.Kind] {
		return
	}
	if c.batch == nil {
		c.batch = runEventTable.Batch(1)
	}
	e.Reason = shortened(e.Reason, jobrun.MaxReason)
	c.batch.Add(&runEvent{r.ID, r.TenantID, e})
}

// shortened returns at most so many characters of s.
func shortened(s string, most int) string {
	if len(s) <= most {
		return s
	}
	runes := []rune(s)
	return string(runes[:min(len(runes), most)])
}

// putRunEvents stores what c has gathered in tx, of the writers' connections.
func (db *JobDB) putRunEvents(ctx context.Context, tx *sqlx.Tx, c *runEvents) error {
	if c.batch == nil {
		return nil
	}
	return db.execIn(ctx, tx, storeRunEvents.Text, storeRunEvents.Args(c.batch)...)
}

// runAttempt is a row of jobs.job_run_attempts.
type runAttempt struct {
	run, tenant uuid.UUID
	jobrun.Attempt
}

var attemptTable = NewTable(
	UUID("run_id", func(a *runAttempt) *uuid.UUID { return &a.run }).WriteOnly(),
	UUID("tenant_id", func(a *runAttempt) *uuid.UUID { return &a.tenant }).WriteOnly(),
	Int("attempt", func(a *runAttempt) *int { return &a.Number }),
	UUID("worker_id", func(a *runAttempt) *uuid.UUID { return &a.Fence.WorkerID }),
	UUID("lease_token", func(a *runAttempt) *uuid.UUID { return &a.Fence.LeaseToken }),
	Int("leader_epoch", func(a *runAttempt) *int64 { return &a.Fence.LeaderEpoch }),
	IntOr(0, "fencing_seq", func(a *runAttempt) *int64 { return &a.FencingSeq }),
	Time("assigned_at", func(a *runAttempt) *time.Time { return &a.AssignedAt }),
	TimeOrNil("started_at", func(a *runAttempt) **time.Time { return &a.StartedAt }),
	TimeOrNil("ended_at", func(a *runAttempt) **time.Time { return &a.EndedAt }),
	Text("outcome", func(a *runAttempt) *string { return &a.Outcome }),
	Text("reason", func(a *runAttempt) *string { return &a.Reason }),
)

var storeRunAttempts = Named(`
	INSERT INTO jobs.job_run_attempts (`+attemptTable.Inserted()+`)
	SELECT `+attemptTable.Stored("")+`
	  FROM `+Unnest("a", attemptTable.As("a")), attemptTable.As("a"))

// putRunAttempt stores, in tx of the writers' connections, that the attempt of r
// ended otherwise than with its run, so that another one may follow (S19). r is as
// it was before.
func (db *JobDB) putRunAttempt(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, a jobrun.Attempt) error {
	a.Number, a.Fence, a.FencingSeq, a.StartedAt = r.Attempt, r.Fence(), r.FencingSeq, r.StartedAt
	if r.AssignedAt == nil {
		return fmt.Errorf("an attempt of job run %s ended, which was never assigned", r.ID)
	}
	a.AssignedAt, a.Reason = *r.AssignedAt, shortened(a.Reason, jobrun.MaxReason)
	batch := attemptTable.Batch(1)
	batch.Add(&runAttempt{r.ID, r.TenantID, a})
	return db.execIn(ctx, tx, storeRunAttempts.Text, storeRunAttempts.Args(batch)...)
}
