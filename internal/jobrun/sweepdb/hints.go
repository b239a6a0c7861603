package sweepdb

import (
	"context"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// UseHints makes the sweeps ask hints before they put a run in doubt (J-24). It must be
// called before the first sweep.
func (st *Sweeps) UseHints(hints jobrun.LeaseHints) { st.hints = hints }

// silentFences finds what doubtSilent finds, with the fences of runs whose lease
// ended less than $2 ago, in microseconds: only those may be spared.
const silentFences = `
SELECT r.id, r.assigned_worker_id, r.attempt, r.lease_token, r.lease_expires_at > clock_timestamp() - $2::bigint * interval '1 microsecond'
  FROM jobs.job_runs r WHERE r.phase = 'HELD' AND ` + silent + ` LIMIT $1`

// doubt puts silent runs in doubt, but for those whose worker was heard of all the
// same, as hints tell: while the database was away, say. A run is spared for at
// most one lease after its own has ended, whatever hints say; so a wrong hint
// delays, and a worker that is dead is found out.
func (st *Sweeps) doubt(ctx context.Context, t jobrun.Term, s jobrun.Settings, limit int) (jobrun.Swept, error) {
	args := []any{s.Seconds(jobrun.ConfirmFor).Microseconds(), t.Epoch}
	if st.hints == nil {
		return doubtSilent.run(ctx, st.db, t, limit, nil, args...)
	}
	rows, err := st.db.QueryWrite(ctx, silentFences, limit, s.Seconds(jobrun.RunLease).Microseconds())
	if err != nil {
		return jobrun.Swept{}, postgres.Wrap(doubtSilent.doing, err)
	}
	var ids postgres.BinaryColumn
	var perhaps []jobrun.RunFence
	n := 0
	err = postgres.EachRow(rows, func() error {
		var f jobrun.RunFence
		var recent bool
		err := rows.Scan(&f.RunID, &f.Fence.WorkerID, &f.Fence.Attempt, &f.Fence.LeaseToken, &recent)
		if n++; recent {
			perhaps = append(perhaps, f)
		} else {
			ids.UUID(f.RunID)
		}
		return err
	})
	if err != nil {
		return jobrun.Swept{}, postgres.Wrap(doubtSilent.doing, err)
	}
	for i, alive := range st.hints.Alive(ctx, perhaps) {
		if !alive {
			ids.UUID(perhaps[i].RunID)
		}
	}
	if ids.N == 0 {
		return jobrun.Swept{}, nil
	}
	moved, err := doubtSilent.these(ctx, st.db, t, ids.Parameter(), args...)
	moved.More = n == limit && moved.Moved > 0
	return moved, err
}
