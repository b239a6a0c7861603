package jobdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/rest/page"
)

// Workers is jobrun.Workers on PostgreSQL.
type Workers struct {
	db       *postgres.DB
	settings func(context.Context) (jobrun.Settings, error)
}

// NewWorkers returns the workers of db. settings returns the settings as they
// stand.
func NewWorkers(db *postgres.DB, settings func(context.Context) (jobrun.Settings, error)) *Workers {
	return &Workers{db, settings}
}

const workerColumns = `w.id, w.tenant_id, w.version, w.state, w.name, w.node, w.pid, w.sdk, w.sdk_version, w.labels, w.queues, w.commands, w.max_runs,
       w.principal, w.running, w.load, w.heartbeat_seq, w.registered_at, w.heartbeat_at, w.drain_at, w.lost_at, w.detached_at, w.reason`

func scanWorker(row postgres.Scanner) (w jobrun.WorkerProcess, err error) {
	err = row.Scan(&w.ID, &w.TenantID, &w.Version, &w.State, &w.Name, &w.Node, &w.PID, &w.SDK, &w.SDKVersion,
		(*pq.StringArray)(&w.Labels), (*pq.StringArray)(&w.Queues), (*pq.StringArray)(&w.Commands), &w.MaxRuns,
		&w.Principal, &w.Running, &w.Load, &w.HeartbeatSeq, &w.RegisteredAt, &w.HeartbeatAt, &w.DrainAt, &w.LostAt,
		&w.DetachedAt, &w.Reason)
	postgres.UTC(&w.RegisteredAt, &w.HeartbeatAt, w.DrainAt, w.LostAt, w.DetachedAt)
	return w, err
}

var readWorker = postgres.OfTenant(`SELECT `+workerColumns+` FROM jobs.workers w WHERE w.tenant_id = tenant.id AND w.id = $2`, "")

// Worker implements jobrun.Workers.
func (st *Workers) Worker(ctx context.Context, tenant, id uuid.UUID) (w jobrun.WorkerProcess, err error) {
	err = st.db.ReadOne(ctx, tenant, readWorker, noWorker(), func(rows *sql.Rows) (err error) {
		w, err = scanWorker(rows)
		return err
	}, id)
	return w, postgres.Outage("read a worker", err)
}

func noWorker() error {
	return fault.New(fault.NotFound, jobrun.CodeWorkerUnknown, "there is no worker of this id")
}

// ListWorkers implements jobrun.Workers.
func (st *Workers) ListWorkers(
	ctx context.Context, tenant uuid.UUID, states []jobrun.WorkerState, p page.ByTime,
) (found page.Of[jobrun.WorkerProcess], err error) {
	w := postgres.Where{}
	w.Add("w.tenant_id = ?", tenant)
	if len(states) > 0 {
		names := make([]string, len(states))
		for i, s := range states {
			names[i] = string(s)
		}
		w.Add("w.state = ANY(?::text[])", pq.Array(names))
	}
	limit := ""
	if p.TotalCap > 0 {
		limit = fmt.Sprintf(" LIMIT %d", p.TotalCap+1)
	}
	count, counted := fmt.Sprintf(`SELECT count(*) FROM (SELECT w.id FROM jobs.workers w WHERE %s%s) AS few`, w.Text(), limit), w.Args
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		var total int64
		if p.Total {
			if err := tx.GetContext(ctx, &total, count, counted...); err != nil {
				return err
			}
		}
		l := postgres.NewestFirst{Columns: workerColumns, From: "jobs.workers w", At: "w.registered_at", ID: "w.id"}
		found, err = postgres.ReadPage(ctx, tx, l, &w, p, scanWorker)
		found.Total = total
		found.CapTotal(p.TotalCap)
		return err
	})
	return found, postgres.Outage("list workers", err)
}

// Move implements jobrun.Workers.
func (st *Workers) Move(
	ctx context.Context, tenant, id uuid.UUID, to jobrun.WorkerState, by operator.Action,
) (w jobrun.WorkerProcess, err error) {
	settings, err := st.settings(ctx)
	if err != nil {
		return w, err
	}
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		w, err = scanWorker(tx.QueryRowxContext(ctx, `SELECT `+workerColumns+` FROM jobs.workers w WHERE w.tenant_id = $1 AND w.id = $2 FOR UPDATE`, tenant, id))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return noWorker()
		case err != nil:
			return err
		}
		changed, err := w.Moved(to)
		if err != nil || !changed {
			return err
		}
		w, err = scanWorker(tx.QueryRowxContext(ctx, `UPDATE jobs.workers w SET state = $3::text, version = w.version + 1, reason = $4,
			       drain_at = CASE WHEN $5 THEN coalesce(w.drain_at, clock_timestamp()) END,
			       lost_at = CASE WHEN $3::text = 'LOST' THEN w.lost_at END,
			       detached_at = CASE WHEN $3::text = 'DETACHED' THEN clock_timestamp() END
			 WHERE w.tenant_id = $1 AND w.id = $2 AND w.version = $6 RETURNING `+workerColumns,
			tenant, id, w.State, by.Reason, w.DrainAt != nil || to == jobrun.WorkerDraining, w.Version))
		if err != nil {
			return err
		}
		if to == jobrun.WorkerDetached {
			if err := doubtRunsOf(ctx, tx, tenant, id, settings, by.Actor); err != nil {
				return err
			}
		}
		return auditdb.PutAction(ctx, tx, by)
	})
	return w, postgres.Outage("change the state of a worker", err)
}

// doubtRunsOf ends the leases of what a worker has: it is CONFIRMING if it runs,
// and given up by the leader's next sweep if it was not started.
func doubtRunsOf(ctx context.Context, tx *sqlx.Tx, tenant, worker uuid.UUID, s jobrun.Settings, actor string) error {
	_, err := tx.ExecContext(ctx, `WITH doubted AS (
		UPDATE jobs.job_runs r SET lease_expires_at = least(r.lease_expires_at, clock_timestamp()), version = r.version + 1, updated_at = clock_timestamp(),
		       continuation_state = CASE r.state WHEN 'RUNNING' THEN 'CONFIRMING' ELSE 'NONE' END,
		       continuation_check_started_at = CASE r.state WHEN 'RUNNING' THEN coalesce(r.continuation_check_started_at, clock_timestamp()) END,
		       continuation_check_deadline_at = CASE r.state WHEN 'RUNNING' THEN coalesce(r.continuation_check_deadline_at, clock_timestamp() + make_interval(secs => $3)) END
		 WHERE r.tenant_id = $1 AND r.assigned_worker_id = $2 AND r.phase = 'HELD'
		RETURNING r.id, r.tenant_id, r.state, r.version, r.attempt)
		INSERT INTO jobs.job_run_events (run_id, tenant_id, at, kind, from_state, to_state, version, attempt, worker_id, actor, reason)
		SELECT d.id, d.tenant_id, clock_timestamp(), $4, d.state, d.state, d.version, d.attempt, $2, $5, '`+jobrun.WasDetached+`'
		  FROM doubted d WHERE d.state = 'RUNNING'`,
		tenant, worker, s.Number(jobrun.ConfirmFor), string(jobrun.WasDoubted), actor)
	return err
}

var _ jobrun.Workers = (*Workers)(nil)
