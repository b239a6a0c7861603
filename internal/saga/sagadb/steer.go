package sagadb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/saga"
)

const (
	unendedOfChain = `
SELECT r.id
  FROM jobs.job_runs r
 WHERE r.tenant_id = $1 AND (r.id = $2 OR r.root_run_id = $2 AND r.retry_number > 0) AND r.finished_at IS NULL
 ORDER BY r.retry_number DESC LIMIT 1`

	lockLetterOfSaga = `SELECT FROM dlq.dlq_messages m WHERE m.tenant_id = $1 AND m.id = $2 FOR NO KEY UPDATE`

	holdRun = `UPDATE jobs.job_runs r
	   SET held = $3, updated_at = clock_timestamp()
	 WHERE r.tenant_id = $1 AND r.id = $2 AND r.held <> $3`
)

// steeredRun is a locked run that a change ends or holds.
type steeredRun struct {
	jobrun.Run
	now time.Time
}

// lockSteered locks the runs that changes end or hold, and then the letters of the runs that will
// end. Both are locked before the sagas, as everywhere. The result is indexed by the change's index
// in the batch. A chain whose last run has ended is left out: its end has advanced the saga or is
// about to.
func (st *Sagas) lockSteered(ctx context.Context, tx *sqlx.Tx, batch []saga.Change) (map[int]steeredRun, error) {
	var runs map[int]steeredRun
	for i := range batch {
		c := &batch[i]
		if c.Steer == nil {
			continue
		}
		r, found, err := st.lockUnended(ctx, tx, c.After.Tenant.ID, c.Steer.ID)
		if err != nil {
			return nil, fmt.Errorf("lock the job run of saga %s: %w", c.After.ID, err)
		}
		if !found {
			continue
		}
		if runs == nil {
			runs = map[int]steeredRun{}
		}
		runs[i] = r
		if letter := c.After.DeadLetter(); c.Steer.Stop && letter != uuid.Nil {
			if _, err := tx.ExecContext(ctx, lockLetterOfSaga, r.TenantID, letter); err != nil {
				return nil, err
			}
		}
	}
	return runs, nil
}

// lockUnended locks the unended run of a chain. If the run is being ended, it is locked until its
// retry exists; the retry is then looked up.
func (st *Sagas) lockUnended(ctx context.Context, tx *sqlx.Tx, tenant,
	root uuid.UUID) (r steeredRun, found bool, err error) {
	for {
		var id uuid.UUID
		err := tx.QueryRowContext(ctx, unendedOfChain, tenant, root).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return r, false, nil
		}
		if err == nil {
			r.Run, r.now, err = st.jobs.LockRun(ctx, tx, tenant, id)
		}
		if err != nil || !r.State.Terminal() {
			return r, err == nil, err
		}
	}
}

// steer ends and holds the runs of the changes that were written. The end of a run that no worker
// had advances its saga immediately, unless the saga has ended. after must be called after the
// commit.
func (st *Sagas) steer(ctx context.Context, tx *sqlx.Tx, batch []saga.Change, runs map[int]steeredRun,
	moved map[saga.Ref]bool) (after func(), err error) {
	var ended []jobrun.Run
	jobs := jobdb.NewJobs(st.jobs, st.steps.settings)
	for i, r := range runs {
		c := &batch[i]
		if !moved[c.After.Ref()] {
			continue
		}
		if hold := c.Steer.Hold; hold != nil {
			if err := st.db.ExecIn(ctx, tx, holdRun, r.TenantID, r.ID, *hold); err != nil {
				return nil, err
			}
		}
		if c.Steer.Stop {
			o, err := jobs.Apply(ctx, tx, &r.Run, jobrun.CancelRequested{Actor: c.Steer.Actor, Reason: c.Steer.Why}, r.now)
			if err != nil {
				return nil, fmt.Errorf("cancel the job run of saga %s: %w", c.After.ID, err)
			}
			ended = append(ended, o.After)
		}
	}
	return func() {
		for i := range ended {
			st.jobs.RunEnded(&ended[i])
		}
		for i, r := range runs {
			if hold := batch[i].Steer.Hold; hold != nil && !*hold {
				st.jobs.Hub.Admitted(r.TenantID, r.Queue)
			}
		}
	}, nil
}
