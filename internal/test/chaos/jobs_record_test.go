package chaos

import (
	"context"
	"database/sql"
	"slices"
	"time"
)

// jobRecord contains everything that is known about job runs after a campaign. The judge uses
// nothing else, so that each of its rules can be tested with a forged record.
type jobRecord struct {
	// These fields come from the database.
	runs      map[string]*jobRow
	moves     []move
	reigns    []leaderTerm
	held      []interval // periods in which a node was stopped
	attempts  []attemptRow
	decisions []decision
	published []publishedRow
	letters   map[string]int  // dead letters, by run
	detached  map[string]bool // workers that an operator has detached

	// These fields come from the clients and the workers.
	jobs    []*job
	asked   []*wish
	journal []entry
	lives   map[string]life
	logs    map[string]string // text by run, attempt and seq, as the API shows it
	sagas   []sagaRow
}

// jobRow is the final state of a run.
type jobRow struct {
	id, job, trigger, state        string
	version                        int64
	scheduled, available, created  time.Time
	finished                       *time.Time
	attempt, failures, losses, max int
	worker, token                  string
	epoch                          int64
	started                        *time.Time
	canceling                      bool
	errorCode, retryOf, root       string
	retry                          int
	key, policy, event, idempotent string
	saga                           string
	resultToken                    string
	retryable                      bool
	logRef                         string
	chunks                         int
}

type attemptRow struct {
	run             string
	number          int
	worker, token   string
	epoch           int64
	assigned, ended time.Time
	outcome         string
}

// decision is an event of a run, together with the leader at the time it was written.
type decision struct {
	run, kind, from, to, reason, actor string
	at                                 time.Time
	version                            int64
	attempt                            int
	epoch                              int64
	worker                             string
	ledEpoch                           int64
	leader                             string
}

// publishedRow is an event and the runs that it triggered.
type publishedRow struct {
	id, kind, dedupe, source string
	processed                bool
	deliveries               int
	runs                     int
}

func (r *jobRecord) read(ctx context.Context, db *sql.DB) error {
	r.runs, r.letters, r.detached = map[string]*jobRow{}, map[string]int{}, map[string]bool{}
	if err := r.readHistory(ctx, db); err != nil {
		return err
	}
	for _, read := range []func(context.Context, *sql.DB) error{r.readRuns, r.readAttempts, r.readDecisions, r.readEvents,
		r.readRest, r.readSagas} {
		if err := read(ctx, db); err != nil {
			return err
		}
	}
	// Skald's built-in jobs are not part of the campaign, and no worker's journal mentions them.
	r.moves = slices.DeleteFunc(r.moves, func(m move) bool { return r.runs[m.run] == nil })
	r.attempts = slices.DeleteFunc(r.attempts, func(a attemptRow) bool { return r.runs[a.run] == nil })
	r.decisions = slices.DeleteFunc(r.decisions, func(d decision) bool { return r.runs[d.run] == nil })
	return nil
}

func (r *jobRecord) readRuns(ctx context.Context, db *sql.DB) error {
	return each(ctx, db, `
		SELECT id, definition_name, trigger, state, version, scheduled_for, available_at, created_at, finished_at, attempt, failures_used, losses_used, max_losses,
		       coalesce(assigned_worker_id::text, ''), coalesce(lease_token::text, ''), coalesce(leader_epoch, 0), started_at, cancel_requested_at IS NOT NULL,
		       coalesce(error_code, ''), coalesce(retry_of_run_id::text, ''), root_run_id, retry_number, coalesce(concurrency_key, ''), concurrency_policy,
		       coalesce(event_id::text, ''), idempotency_key, coalesce(saga_id::text, ''), coalesce(result->>'token', ''), coalesce((error->>'retryable')::boolean, false), coalesce(log_ref, ''),
		       (SELECT count(*) FROM jobs.job_run_logs l WHERE l.run_id = r.id)
		  FROM jobs.job_runs r WHERE definition_name NOT LIKE 'system.%'`, func(rows *sql.Rows) error {
		var j jobRow
		err := rows.Scan(
			&j.id,
			&j.job,
			&j.trigger,
			&j.state,
			&j.version,
			&j.scheduled,
			&j.available,
			&j.created,
			&j.finished,
			&j.attempt,
			&j.failures,
			&j.losses,
			&j.max,
			&j.worker,
			&j.token,
			&j.epoch,
			&j.started,
			&j.canceling,
			&j.errorCode,
			&j.retryOf,
			&j.root,
			&j.retry,
			&j.key,
			&j.policy,
			&j.event,
			&j.idempotent,
			&j.saga,
			&j.resultToken,
			&j.retryable,
			&j.logRef,
			&j.chunks,
		)
		r.runs[j.id] = &j
		return err
	})
}

func (r *jobRecord) readAttempts(ctx context.Context, db *sql.DB) error {
	return each(ctx, db, `
		SELECT run_id, attempt, worker_id, lease_token, leader_epoch, assigned_at, ended_at, outcome FROM jobs.job_run_attempts ORDER BY run_id, attempt`,
		func(rows *sql.Rows) error {
			var a attemptRow
			err := rows.Scan(&a.run, &a.number, &a.worker, &a.token, &a.epoch, &a.assigned, &a.ended, &a.outcome)
			r.attempts = append(r.attempts, a)
			return err
		})
}

func (r *jobRecord) readDecisions(ctx context.Context, db *sql.DB) error {
	return each(ctx, db, `
		SELECT e.run_id, e.kind, e.from_state, e.to_state, e.reason, e.actor, e.at, e.version, e.attempt, e.epoch, coalesce(e.worker_id::text, ''),
		       coalesce(d.epoch, 0), coalesce(d.leader::text, '')
		  FROM jobs.job_run_events e LEFT JOIN chaos.decisions d ON d.event_id = e.id ORDER BY e.id`, func(rows *sql.Rows) error {
		var d decision
		err := rows.Scan(
			&d.run,
			&d.kind,
			&d.from,
			&d.to,
			&d.reason,
			&d.actor,
			&d.at,
			&d.version,
			&d.attempt,
			&d.epoch,
			&d.worker,
			&d.ledEpoch,
			&d.leader,
		)
		r.decisions = append(r.decisions, d)
		return err
	})
}

func (r *jobRecord) readEvents(ctx context.Context, db *sql.DB) error {
	return each(ctx, db, `
		SELECT e.id, e.event_type, coalesce(e.dedupe_key, ''), coalesce(e.source_run_id::text, ''), e.processed_at IS NOT NULL,
		       (SELECT count(*) FROM jobs.event_deliveries d WHERE d.event_id = e.id),
		       (SELECT count(*) FROM jobs.job_runs r WHERE r.event_id = e.id AND r.trigger = 'EVENT')
		  FROM jobs.events e`, func(rows *sql.Rows) error {
		var p publishedRow
		err := rows.Scan(&p.id, &p.kind, &p.dedupe, &p.source, &p.processed, &p.deliveries, &p.runs)
		r.published = append(r.published, p)
		return err
	})
}

func (r *jobRecord) readRest(ctx context.Context, db *sql.DB) error {
	err := each(
		ctx,
		db,
		`SELECT job_run_id, count(*) FROM dlq.dlq_messages WHERE job_run_id IS NOT NULL GROUP BY job_run_id`,
		func(rows *sql.Rows) error {
			var id string
			var n int
			err := rows.Scan(&id, &n)
			r.letters[id] = n
			return err
		},
	)
	if err != nil {
		return err
	}
	return each(
		ctx,
		db,
		`SELECT subject FROM saga.audit_actions WHERE kind = 'job_worker' AND verb = 'detach'`,
		func(rows *sql.Rows) error {
			var id string
			err := rows.Scan(&id)
			r.detached[id] = true
			return err
		},
	)
}
