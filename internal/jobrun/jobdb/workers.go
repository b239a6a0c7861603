package jobdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// Workers is jobrun.Workers on PostgreSQL.
type Workers struct {
	db       *postgres.DB
	settings func(context.Context) (jobrun.Settings, error)
}

// NewWorkers returns the workers of db. settings returns the current settings.
func NewWorkers(db *postgres.DB, settings func(context.Context) (jobrun.Settings, error)) *Workers {
	return &Workers{db, settings}
}

var readWorker = postgres.OfTenant(`SELECT `+workerColumns+`
  FROM jobs.workers w
 WHERE w.tenant_id = tenant.id AND w.id = $2`, "")

// Worker implements jobrun.Workers.
func (st *Workers) Worker(ctx context.Context, tenant, id uuid.UUID) (w jobrun.WorkerProcess, err error) {
	err = st.db.ReadOne(ctx, tenant, readWorker, noWorker(), func(rows *sql.Rows) (err error) {
		w, err = workerTable.One(rows)
		return err
	}, id)
	return w, postgres.Wrap("read a worker", err)
}

func noWorker() error {
	return fault.New(fault.NotFound, jobrun.CodeWorkerUnknown, "there is no worker with this id")
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
	count, counted := fmt.Sprintf(`SELECT count(*)
	  FROM (SELECT w.id FROM jobs.workers w WHERE %s%s) AS few`, w.Text(), limit), w.Args
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		var total int64
		if p.Total {
			if err := tx.GetContext(ctx, &total, count, counted...); err != nil {
				return err
			}
		}
		l := postgres.NewestFirst{Columns: workerColumns, From: "jobs.workers w", At: "w.registered_at", ID: "w.id"}
		found, err = postgres.ReadPage(ctx, tx, l, &w, p, workerTable.One)
		found.Total = total
		found.CapTotal(p.TotalCap)
		return err
	})
	return found, postgres.Wrap("list workers", err)
}

var moveWorker = postgres.Named(`
UPDATE jobs.workers w
   SET state = @state::text,
       version = w.version + 1,
       reason = @reason,
       drain_at = @drain_at::timestamptz,
       lost_at = @lost_at::timestamptz,
       detached_at = @detached_at::timestamptz
 WHERE w.tenant_id = @tenant
   AND w.id = @id
   AND w.version = @version
RETURNING `+workerColumns,
	postgres.Single("tenant", "id", "state", "reason", "drain_at", "lost_at", "detached_at", "version"))

// Move implements jobrun.Workers.
func (st *Workers) Move(
	ctx context.Context, tenant, id uuid.UUID, to jobrun.WorkerState, by operator.Action,
) (w jobrun.WorkerProcess, err error) {
	settings, err := st.settings(ctx)
	if err != nil {
		return w, err
	}
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		w, err = workerTable.One(tx.QueryRowContext(ctx, `SELECT `+workerColumns+`
		  FROM jobs.workers w
		 WHERE w.tenant_id = $1 AND w.id = $2
		 FOR UPDATE`, tenant, id))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return noWorker()
		case err != nil:
			return err
		}
		var now time.Time
		if err := tx.GetContext(ctx, &now, `SELECT clock_timestamp()`); err != nil { // after locking
			return err
		}
		changed, err := w.Moved(to, now)
		if err != nil || !changed {
			return err
		}
		args := moveWorker.Args(postgres.Values{tenant, id, w.State, by.Reason, w.DrainAt, w.LostAt, w.DetachedAt,
			w.Version})
		w, err = workerTable.One(tx.QueryRowContext(ctx, moveWorker.Text, args...))
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
	return w, postgres.Wrap("change the state of a worker", err)
}

// doubtRuns ends the leases of the worker's runs at the moment when the doubt begins
// (jobrun.Released).
var doubtRuns = postgres.Named(`WITH doubted AS (
	UPDATE jobs.job_runs r
	   SET lease_expires_at = least(r.lease_expires_at, statement_timestamp()),
	       version = r.version + 1,
	       updated_at = statement_timestamp(),
	       continuation_state = CASE r.state
	                                 WHEN '`+string(jobrun.Running)+`' THEN '`+string(jobrun.Confirming)+`'
	                                 ELSE '`+string(jobrun.NoDoubt)+`' END,
	       continuation_check_started_at = CASE r.state
	                                            WHEN '`+string(jobrun.Running)+`'
	                                            THEN coalesce(r.continuation_check_started_at,
	                                                          statement_timestamp()) END,
	       continuation_check_deadline_at = CASE r.state
	                                             WHEN '`+string(jobrun.Running)+`'
	                                             THEN coalesce(r.continuation_check_deadline_at,
	                                                           statement_timestamp() + make_interval(secs => @confirm))
	                                             END
	 WHERE r.tenant_id = @tenant AND r.assigned_worker_id = @worker AND r.phase`+WithWorker+`
	RETURNING r.id, r.tenant_id, r.state, r.version, r.attempt)
	INSERT INTO jobs.job_run_events (run_id, tenant_id, at, kind, from_state, to_state, version, attempt, worker_id, actor,
	                                 reason)
	SELECT d.id,
	       d.tenant_id,
	       statement_timestamp(),
	       '`+string(jobrun.WasDoubted)+`',
	       d.state,
	       d.state,
	       d.version,
	       d.attempt,
	       @worker,
	       @actor,
	       '`+jobrun.WasDetached+`'
	  FROM doubted d WHERE d.state`+Is(jobrun.Running), postgres.Single("tenant", "worker", "confirm", "actor"))

// doubtRunsOf puts the runs of a worker in doubt: started runs become CONFIRMING, and the leader's
// next sweep orphans those that have not been started.
func doubtRunsOf(ctx context.Context, tx *sqlx.Tx, tenant, worker uuid.UUID, s jobrun.Settings, actor string) error {
	_, err := tx.ExecContext(ctx, doubtRuns.Text,
		doubtRuns.Args(postgres.Values{tenant, worker, s.Number(jobrun.ConfirmFor), actor})...)
	return err
}

var _ jobrun.Workers = (*Workers)(nil)
