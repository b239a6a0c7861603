package leaderdb

import (
	"context"
	"database/sql"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/jobrun/jobqueue"
	"github.com/skald-saga/skald/internal/postgres"
)

// withheld is the reason why a slot with alias r must not run although its run was created: its job
// was paused or disabled after that. NULL means that the slot may run.
var withheld = `
  LEFT JOIN LATERAL (
	SELECT CASE WHEN d.deleted_at IS NOT NULL THEN 'the job was deleted' WHEN NOT d.enabled THEN 'the job is disabled'
	            WHEN d.pause_reason = '' THEN 'paused' ELSE 'paused: ' || d.pause_reason END AS why
	  FROM jobs.job_definitions d
	 WHERE d.id = r.definition_id -- alone: by its tenant as well it would be looked for among all of the tenant's
	   AND (NOT d.enabled OR d.deleted_at IS NOT NULL OR d.paused_at <= r.scheduled_for
	   AND (d.paused_until IS NULL OR r.scheduled_for < d.paused_until))
	 OFFSET 0
  ) AS h ON r.trigger` + jobdb.Is(jobrun.ByTime) + ` AND r.state || ''` + jobdb.Is(jobrun.Pending)

// ready is the condition that a run was waiting only for its time and that this time has come. It
// covers runs without a key, and orphaned runs, which still hold their key, unless their loss
// budget is exhausted or a cancel was requested. It is used only outside of a transaction, where
// now() is the current time. With clock_timestamp() no index could be used, and all slots that were
// created ahead of time would be read.
var ready = `r.admitted_at IS NULL
  AND (r.phase` + jobdb.WaitsAgain + ` OR r.phase` + jobdb.Waits + ` AND r.concurrency_key IS NULL)
  AND r.available_at <= now()
   AND r.cancel_requested_at IS NULL
   AND (r.state || ''` + jobdb.Is(jobrun.Pending) + ` OR r.losses_used < r.max_losses)`

var findReady = `
SELECT r.id, h.why FROM jobs.job_runs r` + withheld + ` WHERE ` + ready + ` ORDER BY r.available_at, r.id LIMIT $1`

// admitReady admits the runs that were found, except slots whose job has since been paused or
// disabled. The next round skips those.
var admitReady = `
WITH due AS MATERIALIZED (
	SELECT r.id FROM jobs.job_runs r` + withheld + `
	 WHERE r.id = ANY ($1::uuid[]) AND r.admitted_at IS NULL
	   AND r.state || ''` + jobdb.Is(jobrun.From(jobrun.Assigned, jobrun.Worker)...) + ` AND h.why IS NULL
	   ORDER BY r.id FOR NO KEY UPDATE OF r SKIP LOCKED
)
UPDATE jobs.job_runs r SET admitted_at = clock_timestamp(), updated_at = clock_timestamp() FROM due WHERE r.id = due.id
RETURNING r.tenant_id, r.queue`

// Admit implements jobrun.Sweeps.
func (st *Sweeps) Admit(ctx context.Context, t jobrun.Term, _ jobrun.Settings, limit int) (jobrun.Swept, error) {
	due, err := st.admitDue(ctx, t, limit)
	if err != nil {
		return due, postgres.Wrap("admit job runs", err)
	}
	keyed, err := st.admitKeys(ctx, t, limit)
	return both(due, keyed), postgres.Wrap("admit job runs with concurrency keys", err)
}

// decisions groups the runs that a sweep has found by the action to take.
type decisions struct {
	admit []uuid.UUID
	ask   []jobrun.Admission
	end   []uuid.UUID                  // if they have started in the meantime, the next round handles them
	ends  map[uuid.UUID]jobrun.Decided // one for each run in end
}

func (d *decisions) add(a jobrun.Admission) {
	switch a.Step {
	case jobrun.StepAdmit:
		d.admit = append(d.admit, a.ID)
	case jobrun.StepAskCancel:
		d.ask = append(d.ask, a)
	case jobrun.StepSkip, jobrun.StepCancel:
		if d.ends == nil {
			d.ends = map[uuid.UUID]jobrun.Decided{}
		}
		d.end, d.ends[a.ID] = append(d.end, a.ID), jobrun.Decided{Step: a.Step, Reason: a.Reason}
	}
}

func (st *Sweeps) admitDue(ctx context.Context, t jobrun.Term, limit int) (jobrun.Swept, error) {
	var d decisions
	n := 0
	rows, err := st.db.QueryWrite(ctx, findReady, limit)
	if err != nil {
		return jobrun.Swept{}, err
	}
	err = postgres.EachRow(rows, func() error {
		a := jobrun.Admission{Step: jobrun.StepAdmit}
		var why sql.NullString
		if err := rows.Scan(&a.ID, &why); err != nil {
			return err
		}
		if why.Valid {
			a.Step, a.Reason = jobrun.StepSkip, why.String
		}
		d.add(a)
		n++
		return nil
	})
	if err != nil {
		return jobrun.Swept{}, err
	}
	moved, err := st.carryOut(ctx, t, &d)
	return jobrun.Swept{Moved: moved, More: n == limit && moved > 0}, err
}

// carryOut executes decisions, each group in its own transaction: ends before admissions, so that
// keys are free.
func (st *Sweeps) carryOut(ctx context.Context, t jobrun.Term, d *decisions) (moved int, err error) {
	if len(d.end) > 0 {
		moved, err = endRuns(ctx, st.db, t, d.end, func(r *jobrun.Run) jobrun.Event { return d.ends[r.ID] })
		if err != nil {
			return moved, err
		}
	}
	n, err := st.askToStop(ctx, t, d.ask)
	if moved += n; err != nil || len(d.admit) == 0 {
		return moved, err
	}
	awake := map[jobqueue.TenantQueue]struct{}{}
	var ids postgres.BinaryColumn
	for _, id := range d.admit {
		ids.UUID(id)
	}
	n = 0
	err = st.db.AsLeader(ctx, t, func(tx *sqlx.Tx) error {
		rows, err := st.db.QueryIn(ctx, tx, admitReady, ids.Parameter())
		if err != nil {
			return err
		}
		return postgres.EachRow(rows, func() error {
			var p jobqueue.TenantQueue
			err := rows.Scan(&p.Tenant, &p.Queue)
			awake[p] = struct{}{}
			n++
			return err
		})
	})
	if err != nil {
		return moved, err
	}
	for p := range awake {
		st.db.Hub.Admitted(p.Tenant, p.Queue)
	}
	return moved + n, nil
}

// askToStop asks the workers of running runs to stop them.
func (st *Sweeps) askToStop(ctx context.Context, t jobrun.Term, asked []jobrun.Admission) (n int, err error) {
	if len(asked) == 0 {
		return 0, nil
	}
	var ids, reasons postgres.BinaryColumn
	for _, a := range asked {
		ids.UUID(a.ID)
		reasons.Text(jobrun.StoredReason(a.Reason))
	}
	err = st.db.AsLeader(ctx, t, func(tx *sqlx.Tx) error {
		rows, err := st.db.QueryIn(ctx, tx, `
WITH old AS MATERIALIZED (
	SELECT r.id, r.tenant_id, r.version, r.attempt, r.assigned_worker_id, a.reason
	  FROM unnest($1::uuid[], $2::text[]) AS a (id, reason) JOIN jobs.job_runs r ON r.id = a.id
	 WHERE r.state || ''`+jobdb.Is(jobrun.Running)+` AND r.cancel_requested_at IS NULL
	   ORDER BY r.id FOR NO KEY UPDATE OF r SKIP LOCKED
), told AS (
	INSERT INTO jobs.job_run_events (`+jobdb.RunEventTable.Inserted()+`)
	SELECT o.id, o.tenant_id, clock_timestamp(), 'cancel_requested', '', '', o.version + 1, o.attempt, $3::bigint,
	  o.assigned_worker_id, '', o.reason FROM old o
)
UPDATE jobs.job_runs r
   SET version = r.version + 1, cancel_requested_at = clock_timestamp(), cancel_reason = o.reason,
     updated_at = clock_timestamp()
  FROM old o WHERE r.id = o.id
RETURNING r.id`, ids.Parameter(), reasons.Parameter(), t.Epoch)
		if err != nil {
			return err
		}
		n = 0
		return postgres.EachRow(rows, func() error { n++; return nil })
	})
	return n, err
}

// concurrencyKey is a concurrency key of a tenant.
type concurrencyKey struct {
	tenant uuid.UUID
	key    string
}

// Keys are read in pages, in index order. Each page continues after the last one, so that keys
// whose runs only wait cannot block others. Stepping through the index takes one look-up per key,
// however many runs wait for it.
//
// A key whose first runs all have the policy QUEUE needs no decision while one of its runs has
// started or may start, unless another run has just become due. Such a key is skipped.
var findKeys = `
WITH RECURSIVE keys AS (
	(SELECT r.tenant_id, r.concurrency_key FROM jobs.job_runs r
	  WHERE ` + waitsForKey + ` AND (r.tenant_id, r.concurrency_key) > ($2, $3)
	  ORDER BY r.tenant_id, r.concurrency_key LIMIT 1)
	UNION ALL
	SELECT n.tenant_id, n.concurrency_key FROM keys k CROSS JOIN LATERAL (
		SELECT r.tenant_id, r.concurrency_key FROM jobs.job_runs r
		  WHERE ` + waitsForKey + ` AND (r.tenant_id, r.concurrency_key) > (k.tenant_id, k.concurrency_key)
		 ORDER BY r.tenant_id, r.concurrency_key LIMIT 1) AS n
)
SELECT k.tenant_id, k.concurrency_key, NOT (` + busyKey + `
       AND (SELECT r.available_at FROM jobs.job_runs r WHERE ` + ofKey + ` AND r.available_at <= now()
       ORDER BY r.available_at DESC, r.id DESC LIMIT 1) < now() - interval '10 seconds'
       AND NOT EXISTS (SELECT 1 FROM (
	SELECT r.concurrency_policy FROM jobs.job_runs r WHERE ` + ofKey + ` AND r.available_at <= now()
	  ORDER BY r.available_at, r.id LIMIT 20) AS f
	 WHERE f.concurrency_policy <> 'queue'))
  FROM (SELECT * FROM keys LIMIT $1) AS k`

var (
	// waitsForKey and ofKey use the index of runs that wait for keys. They compare admitted_at in a
	// form that no other index has.
	waitsForKey = `r.phase` + jobdb.Waits + ` AND r.concurrency_key IS NOT NULL AND r.available_at <= now()
	  AND ` + notAdmitted
	ofKey = `r.tenant_id = k.tenant_id AND r.concurrency_key = k.concurrency_key
	  AND r.phase` + jobdb.Waits + ` AND ` + notAdmitted
	notAdmitted = `coalesce(r.admitted_at, 'infinity') = 'infinity'`

	busyKey = `(EXISTS (SELECT 1 FROM jobs.job_runs o
	  WHERE o.tenant_id = k.tenant_id AND o.concurrency_key = k.concurrency_key AND o.phase` + jobdb.HoldsKey + `)
       OR EXISTS (SELECT 1 FROM jobs.job_runs o
       WHERE o.tenant_id = k.tenant_id AND o.concurrency_key = k.concurrency_key AND o.phase` + jobdb.Waits + `
                     AND coalesce(o.admitted_at, 'infinity') < 'infinity'))`
)

// candidatesOfKey bounds the number of runs of one key that are read per round. More runs may wait
// (jobrun.MaxQueueLimit).
const candidatesOfKey = "1100"

// keyCandidates reads the runs of keys about which AdmitKey decides, with the reason if a slot is
// withheld.
var keyCandidates = `
SELECT k.n, r.id, r.root_run_id, r.state, r.trigger, r.concurrency_policy, r.scheduled_for, r.available_at,
  r.available_at <= clock_timestamp(),
       r.state || '' <> '` + string(jobrun.Pending) + `'
         OR r.admitted_at IS NOT NULL, r.cancel_requested_at IS NOT NULL,
       coalesce((v.spec->>'queue_limit')::bigint, 0), coalesce((v.spec->>'retry_holds_key')::boolean, false), h.why
  FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS k (tenant_id, key, n)
 CROSS JOIN LATERAL (
	(SELECT o.* FROM jobs.job_runs o
	  WHERE o.tenant_id = k.tenant_id AND o.concurrency_key = k.key AND o.phase` + jobdb.HoldsKey + `)
	UNION ALL
	(SELECT w.* FROM jobs.job_runs w
	  WHERE w.tenant_id = k.tenant_id AND w.concurrency_key = k.key AND w.phase` + jobdb.Waits + `
	    AND (w.available_at <= clock_timestamp() OR w.trigger` + jobdb.Is(jobrun.ByRetry) + `)
	  ORDER BY w.available_at, w.id LIMIT ` + candidatesOfKey + `)
  ) AS r
  LEFT JOIN jobs.job_definition_versions v ON v.definition_id = r.definition_id AND v.tenant_id = r.tenant_id
    AND v.spec_version = r.spec_version` + withheld + `
 ORDER BY k.n`

// admitKeys admits runs for a page of keys. Only the leader admits runs with keys, so a key that
// was found free stays free. A key that was found busy may have become free since, which the next
// round sees.
func (st *Sweeps) admitKeys(ctx context.Context, t jobrun.Term, limit int) (jobrun.Swept, error) {
	st.mu.Lock()
	after := st.key
	st.mu.Unlock()
	page, last, n, err := st.keysAfter(ctx, after, limit)
	if err != nil {
		return jobrun.Swept{}, err
	}
	st.mu.Lock()
	st.key = concurrencyKey{}
	if n == limit {
		st.key = last
	}
	st.mu.Unlock()
	if len(page) == 0 {
		return jobrun.Swept{More: n == limit}, nil
	}
	d, err := st.decide(ctx, page)
	if err != nil {
		return jobrun.Swept{}, err
	}
	moved, err := st.carryOut(ctx, t, d)
	return jobrun.Swept{Moved: moved, More: n == limit || len(d.end) > 0}, err
}

// keysAfter returns those of the next n keys that need a decision, up to limit, and the last of the
// n keys.
func (st *Sweeps) keysAfter(
	ctx context.Context, after concurrencyKey, limit int,
) (page []concurrencyKey, last concurrencyKey, n int, err error) {
	rows, err := st.db.QueryWrite(ctx, findKeys, limit, after.tenant, after.key)
	if err != nil {
		return nil, last, 0, err
	}
	err = postgres.EachRow(rows, func() error {
		open := false
		err := rows.Scan(&last.tenant, &last.key, &open)
		if n++; open {
			page = append(page, last)
		}
		return err
	})
	return page, last, n, err
}

func (st *Sweeps) decide(ctx context.Context, page []concurrencyKey) (*decisions, error) {
	var tenants, keys postgres.BinaryColumn
	for _, k := range page {
		tenants.UUID(k.tenant)
		keys.Text(k.key)
	}
	rows, err := st.db.QueryWrite(ctx, keyCandidates, tenants.Parameter(), keys.Parameter())
	if err != nil {
		return nil, err
	}
	var d decisions
	of := make([][]jobrun.Candidate, len(page))
	err = postgres.EachRow(rows, func() error {
		var c jobrun.Candidate
		var n int
		var why sql.NullString
		err := rows.Scan(&n, &c.ID, &c.RootRunID, &c.State, &c.Trigger, &c.Policy, &c.ScheduledFor, &c.AvailableAt, &c.Due,
			&c.Admitted, &c.CancelRequested, &c.QueueLimit, &c.HoldsKey, &why)
		if err != nil {
			return err
		}
		postgres.UTC(&c.ScheduledFor, &c.AvailableAt)
		if why.Valid && !c.Admitted {
			d.add(jobrun.Admission{ID: c.ID, Step: jobrun.StepSkip, Reason: why.String})
			return nil
		}
		of[n-1] = append(of[n-1], c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, all := range of {
		for _, a := range jobrun.AdmitKey(all) {
			d.add(a)
		}
	}
	return &d, nil
}
