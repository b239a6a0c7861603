package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
)

// runEventTypes are the types of the columns of a batch of decisions about runs,
// in the order of runEvents.add.
var runEventTypes = [...]string{"uuid", "uuid", "timestamptz", "text", "text", "text", "bigint", "bigint", "bigint", "uuid", "text", "text"}

const runEventNames = `run_id, tenant_id, at, kind, from_state, to_state, version, attempt, epoch, worker_id, actor, reason`

// insertRunEvents is the statement, without its condition on e, that appends a
// batch of decisions whose columns are the parameters from $first on; for the
// writers' connections. Ids are given in the order of the batch.
func insertRunEvents(first int) string {
	list := make([]string, len(runEventTypes))
	for i, t := range runEventTypes {
		list[i] = fmt.Sprintf("$%d::%s[]", first+i, t)
	}
	return `
	INSERT INTO jobs.job_run_events (` + runEventNames + `)
	SELECT ` + runEventNames + `
	  FROM unnest(` + strings.Join(list, ", ") + `) AS e (` + runEventNames + `)`
}

var storeRunEvents = insertRunEvents(1)

// toldByTheRow are kinds that are not stored: the run's row and its attempts tell
// them by themselves. Who lists the events of a run adds them.
var toldByTheRow = map[jobrun.EventKind]bool{
	jobrun.WasCreated: true, jobrun.WasAssigned: true, jobrun.WasStarted: true, jobrun.WasSucceeded: true,
}

// runEvents gathers a batch of decisions.
type runEvents struct {
	columns [len(runEventTypes)]column
}

// add appends a decision about r, unless it is one that its row tells.
func (c *runEvents) add(r *jobrun.Run, e jobrun.Event) {
	if toldByTheRow[e.Kind] {
		return
	}
	c.columns[0].uuid(r.ID)
	c.columns[1].uuid(r.TenantID)
	c.columns[2].time(e.At)
	c.columns[3].text(string(e.Kind))
	c.columns[4].text(string(e.From))
	c.columns[5].text(string(e.To))
	c.columns[6].int(e.Version)
	c.columns[7].int(int64(e.Attempt))
	c.columns[8].int(e.Epoch)
	c.columns[9].uuidUnlessZero(e.WorkerID)
	c.columns[10].text(e.Actor)
	c.columns[11].text(shortened(e.Reason, jobrun.MaxReason))
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
	if c.columns[0].n == 0 {
		return nil
	}
	return db.execIn(ctx, tx, storeRunEvents, parameters(c.columns[:])...)
}

// attemptTypes are the types of the columns of a batch of ended attempts, in the
// order of runAttempts.add.
var attemptTypes = [...]string{"uuid", "uuid", "bigint", "uuid", "uuid", "bigint", "bigint", "timestamptz", "timestamptz", "timestamptz", "text", "text"}

const attemptNames = `run_id, tenant_id, attempt, worker_id, lease_token, leader_epoch, fencing_seq, assigned_at, started_at, ended_at, outcome, reason`

var storeRunAttempts = func() string {
	list := make([]string, len(attemptTypes))
	for i, t := range attemptTypes {
		list[i] = fmt.Sprintf("$%d::%s[]", 1+i, t)
	}
	return `
	INSERT INTO jobs.job_run_attempts (` + attemptNames + `)
	SELECT ` + attemptNames + `
	  FROM unnest(` + strings.Join(list, ", ") + `) AS a (` + attemptNames + `)`
}()

// runAttempts gathers attempts that ended otherwise than with their run, so that
// another one may follow (S19).
type runAttempts struct {
	columns [len(attemptTypes)]column
}

// add appends the attempt of r, which is as it was before it ended.
func (c *runAttempts) add(r *jobrun.Run, a jobrun.Attempt) {
	c.columns[0].uuid(r.ID)
	c.columns[1].uuid(r.TenantID)
	c.columns[2].int(int64(r.Attempt))
	c.columns[3].uuid(r.WorkerID)
	c.columns[4].uuid(r.LeaseToken)
	c.columns[5].int(r.LeaderEpoch)
	c.columns[6].intUnless(r.FencingSeq, 0)
	c.columns[7].timeOrNull(r.AssignedAt)
	c.columns[8].timeOrNull(r.StartedAt)
	c.columns[9].timeOrNull(a.EndedAt)
	c.columns[10].text(a.Outcome)
	c.columns[11].text(shortened(a.Reason, jobrun.MaxReason))
}

// putRunAttempts stores what c has gathered in tx, of the writers' connections.
func (db *JobDB) putRunAttempts(ctx context.Context, tx *sqlx.Tx, c *runAttempts) error {
	if c.columns[0].n == 0 {
		return nil
	}
	return db.execIn(ctx, tx, storeRunAttempts, parameters(c.columns[:])...)
}
