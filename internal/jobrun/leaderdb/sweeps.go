// Package leaderdb implements the leader's work on job runs in PostgreSQL. sweeps.go handles silent
// workers and their runs, end.go ends lost and late runs, admit.go makes waiting runs claimable,
// slots.go creates due runs, and elections.go decides which node leads.
package leaderdb

import (
	"context"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/postgres"
)

// Sweeps is jobrun.Sweeps on PostgreSQL. A sweep first searches without a transaction, and usually
// finds nothing. It changes the rows that it finds in a transaction of the leader (AsLeader), which
// checks the condition again and skips locked rows. All times are the database's.
type Sweeps struct {
	db    *jobdb.DB
	hints jobrun.LeaseHints // nil: there are none

	mu  sync.Mutex
	key concurrencyKey // guarded by mu; the last key of the previous page
}

// NewSweeps returns the sweeps of the job runs of db.
func NewSweeps(db *jobdb.DB) *Sweeps { return &Sweeps{db: db} }

// foundIDs returns the ids that a statement finds, as a parameter.
func foundIDs(ctx context.Context, db *jobdb.DB, query string, args ...any) (ids any, n int, err error) {
	rows, err := db.QueryWrite(ctx, query, args...)
	if err != nil {
		return nil, 0, err
	}
	var list postgres.BinaryColumn
	err = postgres.EachRow(rows, func() error {
		var id uuid.UUID
		err := rows.Scan(&id)
		list.UUID(id)
		n++
		return err
	})
	return list.Parameter(), n, err
}

// move is a sweep with two statements. find returns the ids of rows, and change updates those rows
// that still meet the condition.
type move struct {
	doing        string
	find, change *postgres.Statement
}

// newMove creates a move from its statements. find has @limit and the parameters in by; change has
// @ids, the same parameters and possibly more.
func newMove(doing, find, change string, by []string, more ...string) move {
	return move{
		doing:  doing,
		find:   postgres.Named(find, postgres.Single(append([]string{"limit"}, by...)...)),
		change: postgres.Named(change, postgres.Single(slices.Concat([]string{"ids"}, by, more)...)),
	}
}

// run returns how many rows were changed; more reports that there may be others.
func (m move) run(
	ctx context.Context, db *jobdb.DB, t jobrun.Term, limit int, by []any, more ...any,
) (jobrun.Swept, error) {
	var s jobrun.Swept
	ids, n, err := foundIDs(ctx, db, m.find.Text, m.find.Args(append(postgres.Values{limit}, by...))...)
	if err != nil || n == 0 {
		return s, postgres.Wrap(m.doing, err)
	}
	s, err = m.these(ctx, db, t, ids, slices.Concat(by, more)...)
	s.More = n == limit && s.Moved > 0
	return s, err
}

// these is run for rows that have already been found; their ids are the parameter.
func (m move) these(
	ctx context.Context, db *jobdb.DB, t jobrun.Term, ids any, args ...any,
) (s jobrun.Swept, err error) {
	args = m.change.Args(append(postgres.Values{ids}, args...))
	err = db.AsLeader(ctx, t, func(tx *sqlx.Tx) error {
		rows, err := db.QueryIn(ctx, tx, m.change.Text, args...)
		if err != nil {
			return err
		}
		return postgres.EachRow(rows, func() error { s.Moved++; return nil })
	})
	if err != nil {
		return jobrun.Swept{}, postgres.Wrap(m.doing, err)
	}
	return s, nil
}

// giveUp orphans runs that their workers have lost, and stores an attempt and an event for each.
// They are claimable after @backoff. late selects them. A worker that reports later learns that it
// has lost the run (J3); the token is kept for the audit trail.
func giveUp(late, reason string) string {
	return `
WITH late AS MATERIALIZED (
	SELECT r.id, r.tenant_id, r.state, r.version, r.attempt, r.assigned_worker_id, r.lease_token, r.leader_epoch,
	  r.fencing_seq, r.assigned_at, r.started_at
	  FROM jobs.job_runs r WHERE r.id = ANY (@ids::uuid[]) AND ` + late + `
	    ORDER BY r.id FOR NO KEY UPDATE OF r SKIP LOCKED
), ended AS (
	INSERT INTO jobs.job_run_attempts (` + jobdb.AttemptTable.Inserted() + `)
	SELECT l.id, l.tenant_id, l.attempt, l.assigned_worker_id, l.lease_token, l.leader_epoch, l.fencing_seq,
	  l.assigned_at, l.started_at,
	       clock_timestamp(), '` + jobrun.AttemptOrphaned + `', '` + reason + `' FROM late l
), told AS (
	INSERT INTO jobs.job_run_events (` + jobdb.RunEventTable.Inserted() + `)
	SELECT l.id, l.tenant_id, clock_timestamp(), 'orphaned', l.state, '` +
		string(jobrun.Orphaned) + `', l.version + 1, l.attempt, @epoch::bigint, l.assigned_worker_id, '',
		  '` + reason + `' FROM late l
)
UPDATE jobs.job_runs r
   SET state = '` + string(jobrun.Orphaned) + `', version = r.version + 1, losses_used = r.losses_used + 1,
     admitted_at = NULL,
       available_at = clock_timestamp() + @backoff::bigint * interval '1 microsecond',
         continuation_state = '` + string(jobrun.NoDoubt) + `',
       continuation_check_started_at = NULL, continuation_check_deadline_at = NULL, updated_at = clock_timestamp()
  FROM late l WHERE r.id = l.id
RETURNING r.id`
}

var (
	notStarted = `r.state || ''` + jobdb.Movable(jobrun.Assigned, jobrun.Orphaned, jobrun.Leader) + `
	  AND r.lease_expires_at <= clock_timestamp() - @after::bigint * interval '1 microsecond'`
	unconfirmed = `r.state || ''` + jobdb.Movable(jobrun.Running, jobrun.Orphaned, jobrun.Leader) +
		` AND r.continuation_state` + jobdb.Is(jobrun.Confirming) + `
		  AND r.continuation_check_deadline_at <= clock_timestamp()`
)

var (
	orphanUnstarted = newMove("orphan assigned job runs", inHand+notStarted+` LIMIT @limit`,
		giveUp(notStarted, jobrun.NeverStarted), []string{"after"}, "backoff", "epoch")

	orphanUnconfirmed = newMove("orphan job runs in doubt", inHand+unconfirmed+` LIMIT @limit`,
		giveUp(unconfirmed, jobrun.Unconfirmed), nil, "backoff", "epoch")

	doubtSilent = newMove("put job runs in doubt", inHand+silent+` LIMIT @limit`, `
WITH late AS MATERIALIZED (
	SELECT r.id, r.tenant_id, r.version, r.attempt, r.assigned_worker_id
	  FROM jobs.job_runs r WHERE r.id = ANY (@ids::uuid[]) AND `+silent+` ORDER BY r.id FOR NO KEY UPDATE OF r SKIP LOCKED
), told AS (
	INSERT INTO jobs.job_run_events (`+jobdb.RunEventTable.Inserted()+`)
	SELECT l.id, l.tenant_id, clock_timestamp(), 'confirming', '`+string(jobrun.Running)+`',
	  '`+string(jobrun.Running)+`', l.version + 1, l.attempt, @epoch::bigint, l.assigned_worker_id, '',
	       '`+jobrun.LeaseRanOut+`' FROM late l
)
UPDATE jobs.job_runs r
   SET version = r.version + 1, continuation_state = '`+string(jobrun.Confirming)+`',
     continuation_check_started_at = clock_timestamp(),
       continuation_check_deadline_at = clock_timestamp() + @confirm_for::bigint * interval '1 microsecond',
         updated_at = clock_timestamp()
  FROM late l WHERE r.id = l.id
RETURNING r.id`, nil, "confirm_for", "epoch")
)

// Orphan implements jobrun.Sweeps.
func (st *Sweeps) Orphan(ctx context.Context, t jobrun.Term, s jobrun.Settings, limit int) (jobrun.Swept, error) {
	backoff := s.Seconds(jobrun.OrphanBackoff).Microseconds()
	given, err := orphanUnconfirmed.run(ctx, st.db, t, limit, nil, backoff, t.Epoch)
	if err != nil {
		return given, err
	}
	unstarted, err := orphanUnstarted.run(ctx, st.db, t, limit, []any{s.Seconds(jobrun.ReassignAfter).Microseconds()},
		backoff, t.Epoch)
	return both(given, unstarted), err
}

// Doubt implements jobrun.Sweeps.
func (st *Sweeps) Doubt(ctx context.Context, t jobrun.Term, s jobrun.Settings, limit int) (jobrun.Swept, error) {
	return st.doubt(ctx, t, s, limit)
}

var (
	quiet = `w.state` + jobdb.Is(jobrun.WorkerActive, jobrun.WorkerDraining) + `
	  AND w.heartbeat_at <= clock_timestamp() - @after::bigint * interval '1 microsecond'`
	gone = `w.state` + jobdb.Is(jobrun.WorkerLost) + `
	  AND w.lost_at <= clock_timestamp() - @after::bigint * interval '1 microsecond'`
)

// moveWorkers creates a sweep that applies change to the workers that meet condition.
func moveWorkers(doing, condition, change string) move {
	return newMove(doing, `SELECT w.id FROM jobs.workers w
	  WHERE w.state <> '`+string(jobrun.WorkerDetached)+`' AND `+condition+` LIMIT @limit`, `
WITH late AS MATERIALIZED (
	SELECT w.id FROM jobs.workers w WHERE w.id = ANY (@ids::uuid[]) AND `+condition+`
	  ORDER BY w.id FOR NO KEY UPDATE OF w SKIP LOCKED
)
UPDATE jobs.workers w SET `+change+`, version = w.version + 1 FROM late l WHERE w.id = l.id
RETURNING w.id`, []string{"after"})
}

var (
	loseWorkers = moveWorkers("mark silent workers as LOST", quiet, `state = '`+string(jobrun.WorkerLost)+`',
	  lost_at = clock_timestamp(), reason = 'its heartbeats stopped'`)
	detachWorkers = moveWorkers("detach workers", gone, `state = '`+string(jobrun.WorkerDetached)+`',
	  detached_at = clock_timestamp(), reason = 'its heartbeats stopped and did not come back'`)
)

// WatchWorkers implements jobrun.Sweeps. A LOST worker has the whole grace period to come back,
// even after a period without a leader.
func (st *Sweeps) WatchWorkers(ctx context.Context, t jobrun.Term, s jobrun.Settings, limit int) (jobrun.Swept, error) {
	detached, err := detachWorkers.run(ctx, st.db, t, limit, []any{s.Seconds(jobrun.DetachGrace).Microseconds()})
	if err != nil {
		return detached, err
	}
	lost, err := loseWorkers.run(ctx, st.db, t, limit, []any{s.Seconds(jobrun.HeartbeatTTL).Microseconds()})
	return both(detached, lost), err
}

// Swept implements jobrun.Sweeps. It also deletes standbys that have not been seen for an hour.
func (st *Sweeps) Swept(ctx context.Context, t jobrun.Term) error {
	return postgres.Wrap("record a round of the leader", st.db.AsLeader(ctx, t, func(tx *sqlx.Tx) error {
		return st.db.ExecIn(ctx, tx, `
WITH forgotten AS (
	DELETE FROM jobs.schedulers s WHERE s.seen_at < clock_timestamp() - interval '1 hour'
)
UPDATE jobs.leader SET swept_at = clock_timestamp()
  WHERE name = 'default' AND leader_id = $1 AND epoch = $2`, t.LeaderID, t.Epoch)
	}))
}
