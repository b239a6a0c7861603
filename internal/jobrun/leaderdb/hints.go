package leaderdb

import (
	"context"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/postgres"
)

// UseHints makes the sweeps consult hints before they put a run in doubt (J-24). Call it before the
// first sweep.
func (st *Sweeps) UseHints(hints jobrun.LeaseHints) { st.hints = hints }

// silentFences finds the same runs as doubtSilent, and the fences of those whose lease expired less
// than $2 microseconds ago. Only these may be spared.
var silentFences = `
SELECT r.id, r.assigned_worker_id, r.attempt, r.lease_token,
  r.lease_expires_at > clock_timestamp() - $2::bigint * interval '1 microsecond'
  FROM jobs.job_runs r WHERE r.phase` + jobdb.WithWorker + ` AND ` + silent + ` LIMIT $1`

// doubt puts silent runs in doubt, except those whose worker is alive according to the hints, for
// example because it sent a heartbeat while the database was unavailable. A run is spared for at
// most one lease after its own has expired, whatever the hints say, so a wrong hint only delays the
// detection of a dead worker.
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
