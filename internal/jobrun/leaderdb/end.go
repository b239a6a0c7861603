package leaderdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// ending is a sweep that ends runs by the rules (jobrun.Apply). find returns the ids of candidates;
// the rules decide about each run after it is locked.
type ending struct {
	doing string
	find  *postgres.Statement
}

// newEnding creates an ending from a statement with @limit and the parameters in by.
func newEnding(doing, find string, by ...string) ending {
	return ending{doing, postgres.Named(find, postgres.Single(append([]string{"limit"}, by...)...))}
}

// run ends the runs that were found, all in one transaction. If one of them cannot be stored, it
// ends them one by one, so that this run does not block the others.
func (e ending) run(
	ctx context.Context, db *jobdb.DB, t jobrun.Term, limit int, in jobrun.Event, by ...any,
) (s jobrun.Swept, err error) {
	rows, err := db.QueryWrite(ctx, e.find.Text, e.find.Args(append(postgres.Values{limit}, by...))...)
	if err != nil {
		return s, postgres.Wrap(e.doing, err)
	}
	var ids []uuid.UUID
	err = postgres.EachRow(rows, func() error {
		var id uuid.UUID
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
	if err != nil || len(ids) == 0 {
		return s, postgres.Wrap(e.doing, err)
	}
	s.Moved, err = endRuns(ctx, db, t, ids, func(*jobrun.Run) jobrun.Event { return in })
	s.More = len(ids) == limit && s.Moved > 0
	return s, postgres.Wrap(e.doing, err)
}

// endRuns applies in to runs, as the leader, and returns how many of them it has changed.
func endRuns(
	ctx context.Context, db *jobdb.DB, t jobrun.Term, ids []uuid.UUID, in func(*jobrun.Run) jobrun.Event,
) (int, error) {
	n, err := endTogether(ctx, db, t, ids, in)
	if err == nil || len(ids) == 1 || postgres.Collided(err) || ctx.Err() != nil || fault.As(err) != nil {
		return n, err
	}
	var errs []error
	for i := range ids {
		one, err := endTogether(ctx, db, t, ids[i:i+1], in)
		if err != nil {
			errs = append(errs, fmt.Errorf("job run %s: %w", ids[i], err))
		}
		if n += one; len(errs) == maxRefused {
			break // the runs did not cause the error
		}
	}
	return n, errors.Join(errs...)
}

// maxRefused is how many runs of a batch may fail to be stored before the remaining ones wait for
// the next round.
const maxRefused = 10

func endTogether(
	ctx context.Context, db *jobdb.DB, t jobrun.Term, ids []uuid.UUID, in func(*jobrun.Run) jobrun.Event,
) (int, error) {
	var list postgres.BinaryColumn
	for _, id := range ids {
		list.UUID(id)
	}
	var ended []jobrun.Run
	err := db.AsLeader(ctx, t, func(tx *sqlx.Tx) error {
		ended = ended[:0]
		runs, now, err := lockRuns(ctx, db, tx, list.Parameter())
		if err != nil {
			return err
		}
		for i := range runs {
			m := db.At(now)
			m.Epoch = t.Epoch
			c, err := db.ApplyToRun(ctx, tx, &runs[i], in(&runs[i]), m)
			if fault.IsCode(err, jobrun.CodeConflict) {
				continue // it has changed since it was found
			}
			if err != nil {
				return err
			}
			if c.Changes() {
				ended = append(ended, c.After)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for i := range ended {
		db.RunEnded(&ended[i])
	}
	return len(ended), nil
}

// lockRuns locks the runs $1 in id order and returns them with the time. It skips runs that others
// have locked, and runs that cannot be decrypted, because ending them may require their content.
func lockRuns(ctx context.Context, db *jobdb.DB, tx *sqlx.Tx, ids any) (runs []jobrun.Run, now time.Time, err error) {
	rows, err := db.QueryIn(ctx, tx, `
SELECT `+jobdb.RunColumns+`, clock_timestamp() FROM jobs.job_runs r
 WHERE r.id = ANY ($1::uuid[]) AND r.finished_at IS NULL ORDER BY r.id FOR NO KEY UPDATE OF r SKIP LOCKED`, ids)
	if err != nil {
		return nil, now, err
	}
	err = postgres.EachRow(rows, func() error {
		r, err := db.ScanRun(rows, &now)
		if errors.Is(err, envelope.ErrUnreadable) {
			return db.PassOver(ctx, err)
		}
		runs = append(runs, r)
		return err
	})
	return runs, now, err
}

var (
	exhausted = `r.state || ''` + jobdb.Movable(jobrun.Orphaned, jobrun.Failed, jobrun.Leader) + `
	  AND r.losses_used >= r.max_losses AND r.cancel_requested_at IS NULL`
	overdue = `r.state || ''` + jobdb.Movable(jobrun.Running, jobrun.TimedOut, jobrun.Leader) + ` AND r.timeout_ms > 0
   AND r.started_at <= clock_timestamp() - r.timeout_ms * interval '1 millisecond'
      - @grace::bigint * interval '1 microsecond'`
	stubborn = `r.state || ''` + jobdb.Movable(jobrun.Running, jobrun.Canceled, jobrun.Leader) + `
	  AND r.cancel_requested_at <= clock_timestamp() - @grace::bigint * interval '1 microsecond'`
	unwanted = `r.state || ''` + jobdb.Movable(jobrun.Orphaned, jobrun.Canceled, jobrun.Leader) + `
	  AND r.cancel_requested_at IS NOT NULL`

	// givenUp reads the index of runs that wait for their time, in any order.
	givenUp = `SELECT r.id FROM jobs.job_runs r WHERE r.phase` + jobdb.WaitsAgain + ` AND r.admitted_at IS NULL AND `
)

var (
	endLost     = newEnding("end lost job runs", givenUp+exhausted+` LIMIT @limit`)
	endOverdue  = newEnding("end overdue job runs", inHand+overdue+` LIMIT @limit`, "grace")
	endStubborn = newEnding("end canceled job runs", inHand+stubborn+` LIMIT @limit`, "grace")
	endUnwanted = newEnding("end canceled job runs", givenUp+unwanted+` LIMIT @limit`)
)

// Lose implements jobrun.Sweeps.
func (st *Sweeps) Lose(ctx context.Context, t jobrun.Term, _ jobrun.Settings, limit int) (jobrun.Swept, error) {
	return endLost.run(ctx, st.db, t, limit, jobrun.LossesExhausted{})
}

// TimeOut implements jobrun.Sweeps.
func (st *Sweeps) TimeOut(ctx context.Context, t jobrun.Term, s jobrun.Settings, limit int) (jobrun.Swept, error) {
	return endOverdue.run(ctx, st.db, t, limit, jobrun.TimeoutPassed{Settings: s},
		s.Seconds(jobrun.TimeoutGrace).Microseconds())
}

// EndCanceled implements jobrun.Sweeps. Runs that were orphaned in the meantime end immediately,
// because no worker executes them.
func (st *Sweeps) EndCanceled(ctx context.Context, t jobrun.Term, s jobrun.Settings, limit int) (jobrun.Swept, error) {
	in := jobrun.CancelExpired{Settings: s}
	lost, err := endUnwanted.run(ctx, st.db, t, limit, in)
	if err != nil {
		return lost, err
	}
	fenced, err := endStubborn.run(ctx, st.db, t, limit, in, s.Seconds(jobrun.CancelGrace).Microseconds())
	return both(lost, fenced), err
}

var (
	silent = `r.state || ''` + jobdb.Is(jobrun.Running) + ` AND r.continuation_state` + jobdb.Is(jobrun.NoDoubt) + `
	  AND r.lease_expires_at <= clock_timestamp()`

	// inHand reads the index of runs held by workers, which is small, in any order.
	inHand = `SELECT r.id FROM jobs.job_runs r WHERE r.phase` + jobdb.WithWorker + ` AND `
)

func both(a, b jobrun.Swept) jobrun.Swept {
	return jobrun.Swept{Moved: a.Moved + b.Moved, More: a.More || b.More}
}
