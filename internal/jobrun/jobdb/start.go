package jobdb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// startRuns moves assigned runs to RUNNING (J-17, J-19, J-25), with a lease of the given number of
// microseconds. It returns the batch position of each run that it has started.
var startRuns = postgres.Named(`
UPDATE jobs.job_runs r
   SET state = 'RUNNING',
       version = r.version + 1,
       started_at = clock_timestamp(),
       updated_at = clock_timestamp(),
       leader_epoch = f.epoch,
       lease_expires_at = clock_timestamp() + @lease * interval '1 microsecond'
  FROM `+fences()+`
 WHERE `+fenced+movableTo(jobrun.Running, jobrun.Worker)+`
RETURNING f.n, r.version, r.started_at, r.lease_expires_at`, theFences, postgres.Single("lease"))

// started holds the fields of a run that a start changes.
type started struct {
	version   int64
	at, until time.Time
}

func (s *started) of(r jobrun.Run) jobrun.Run {
	r.State, r.Version, r.StartedAt, r.LeaseExpiresAt, r.UpdatedAt = jobrun.Running, s.version, new(s.at.UTC()),
		new(s.until.UTC()), s.at.UTC()
	return r
}

// Start implements jobrun.Work (W4), with one statement for the batch.
func (st *Jobs) Start(ctx context.Context, tenant uuid.UUID, fences []jobrun.RunFence) ([]jobrun.Done, error) {
	settings, err := st.settings(ctx)
	if err != nil {
		return nil, err
	}
	done, err := postgres.RetryCollision(func() ([]jobrun.Done, error) {
		return st.start(ctx, starting{tenant, fences, settings.Seconds(jobrun.RunLease)})
	})
	if err != nil {
		return nil, fmt.Errorf("start job runs: %w", err)
	}
	return done, nil
}

// starting is a batch of starts by workers of one tenant.
type starting struct {
	tenant uuid.UUID
	fences []jobrun.RunFence
	lease  time.Duration
}

func (b *starting) parameters(of []int) []any {
	batch := fenceTable.Batch(len(of))
	for _, i := range of {
		batch.Add(&fenceRow{b.tenant, b.fences[i].RunID, b.fences[i].Fence})
	}
	return startRuns.Args(batch, postgres.Values{b.lease.Microseconds()})
}

func (st *Jobs) start(ctx context.Context, b starting) ([]jobrun.Done, error) {
	if len(b.fences) == 0 {
		return nil, nil
	}
	order := make([]int, len(b.fences)) // in id order, the order in which all transactions lock runs
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return compareIDs(b.fences[i].RunID, b.fences[j].RunID) })
	rows, err := st.db.QueryWrite(ctx, startRuns.Text, b.parameters(order)...)
	if err != nil {
		return nil, err
	}
	out := make([]jobrun.Done, len(b.fences))
	settled := make([]bool, len(b.fences))
	err = postgres.EachRow(rows, func() error {
		var n int
		var s started
		err := rows.Scan(&n, &s.version, &s.at, &s.until)
		i := order[n-1]
		settled[i] = true
		out[i].Run = s.of(heldRun(b.tenant, b.fences[i].RunID, b.fences[i].Fence))
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range out {
		if settled[i] {
			continue
		}
		if out[i], err = st.startOne(ctx, b, i); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// startOne decides about a start that changed nothing: it either repeats an earlier start or is
// refused.
func (st *Jobs) startOne(ctx context.Context, b starting, i int) (d jobrun.Done, err error) {
	f := b.fences[i]
	c := workerCall{b.tenant, f.RunID, f.Fence, jobrun.CallStart}
	d.Run, d.Replayed, err = st.decide(ctx, c, func(tx *sqlx.Tx, r jobrun.Run, _ time.Time) (jobrun.Run, error) {
		rows, err := st.db.QueryIn(ctx, tx, startRuns.Text, b.parameters([]int{i})...)
		if err != nil {
			return r, err
		}
		var s started
		n := 0
		if err := postgres.EachRow(rows, func() error { return rows.Scan(&n, &s.version, &s.at, &s.until) }); err != nil {
			return r, err
		}
		if n == 0 {
			return r, fmt.Errorf("job run %s is %s and cannot be started by its worker", r.ID, r.State)
		}
		return s.of(r), nil
	})
	if fault.As(err) != nil {
		return jobrun.Done{Run: d.Run, Err: err}, nil
	}
	return d, err
}
