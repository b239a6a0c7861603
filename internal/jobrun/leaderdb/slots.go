package leaderdb

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/postgres"
)

// advanceTable contains the progress of definitions through their slots.
var advanceTable = postgres.NewTable(
	postgres.UUID("id", func(a *jobrun.Advance) *uuid.UUID { return &a.Definition }),
	postgres.Int("version", func(a *jobrun.Advance) *int64 { return &a.Version }),
	postgres.Time("until", func(a *jobrun.Advance) *time.Time { return &a.Until }),
	postgres.TimeOrNil("next", func(a *jobrun.Advance) **time.Time { return &a.NextDueAt }),
)

// dueDefinitions finds definitions whose next slot is near. For a paused definition, a slot counts
// as near when it is due or lies outside of the pause; until then its outcome is open.
var dueDefinitions = `
SELECT ` + jobdb.DefinitionColumns + ` FROM jobs.job_definitions d
 WHERE d.next_due_at IS NOT NULL AND d.enabled AND d.deleted_at IS NULL AND d.next_due_at < $1::timestamptz
   AND (d.paused_at IS NULL OR d.next_due_at <= clock_timestamp() OR d.paused_until <= d.next_due_at)
 ORDER BY d.next_due_at LIMIT $2`

// Due implements jobrun.Sweeps.
func (st *Sweeps) Due(ctx context.Context, _ jobrun.Term, until time.Time, limit int) ([]jobrun.Definition, error) {
	return st.definitions(ctx, dueDefinitions, until, limit)
}

// Timed implements jobrun.Sweeps.
func (st *Sweeps) Timed(ctx context.Context, _ jobrun.Term, after uuid.UUID, limit int) ([]jobrun.Definition, error) {
	return st.definitions(ctx, `
SELECT `+jobdb.DefinitionColumns+` FROM jobs.job_definitions d
 WHERE d.id > $1 AND d.type = 'time' AND d.enabled AND d.deleted_at IS NULL ORDER BY d.id LIMIT $2`, after, limit)
}

// Now implements jobrun.Sweeps.
func (st *Sweeps) Now(ctx context.Context) (now time.Time, err error) {
	rows, err := st.db.QueryWrite(ctx, `SELECT clock_timestamp()`)
	if err != nil {
		return now, postgres.Wrap("read the time", err)
	}
	err = postgres.EachRow(rows, func() error { return rows.Scan(&now) })
	return now.UTC(), postgres.Wrap("read the time", err)
}

func (st *Sweeps) definitions(ctx context.Context, query string, args ...any) (all []jobrun.Definition, err error) {
	all, err = jobdb.DefinitionTable.All(st.db.QueryWrite(ctx, query, args...))
	return all, postgres.Wrap("read job definitions", err)
}

// advanceDefinitions stores the progress of definitions that have not changed since their slots
// were computed, and returns their ids. It does not change their version, which counts only changes
// made by users.
var advanceDefinitions = postgres.Named(`
WITH a AS MATERIALIZED (
	SELECT d.id, n.until, n.next FROM `+postgres.Unnest("n", advanceTable.As("n"))+`
	  JOIN jobs.job_definitions d ON d.id = n.id AND d.version = n.version
	 WHERE d.enabled AND d.deleted_at IS NULL ORDER BY d.id FOR NO KEY UPDATE OF d
)
UPDATE jobs.job_definitions d SET last_materialized_at = greatest(d.last_materialized_at, a.until),
  next_due_at = a.next FROM a WHERE d.id = a.id
RETURNING d.id`, advanceTable.As("n"))

// Materialize implements jobrun.Sweeps.
func (st *Sweeps) Materialize(
	ctx context.Context, t jobrun.Term, slots []jobrun.Slot, advances []jobrun.Advance,
) (made int, err error) {
	batch := advanceTable.Batch(len(advances))
	for i := range advances {
		batch.Add(&advances[i])
	}
	var runs []jobrun.Run
	var created []bool
	err = st.db.AsLeader(ctx, t, func(tx *sqlx.Tx) error {
		runs, made = runs[:0], 0
		rows, err := st.db.QueryIn(ctx, tx, advanceDefinitions.Text, advanceDefinitions.Args(batch)...)
		if err != nil {
			return err
		}
		current := map[uuid.UUID]bool{}
		err = postgres.EachRow(rows, func() error {
			var id uuid.UUID
			err := rows.Scan(&id)
			current[id] = true
			return err
		})
		if err != nil {
			return err
		}
		reasons := make([]string, 0, len(slots))
		for i := range slots {
			if s := &slots[i]; current[s.Run.DefinitionID] {
				runs, reasons = append(runs, s.Run), append(reasons, s.Reason)
			}
		}
		if created, err = st.db.InsertRuns(ctx, tx, runs); err != nil {
			return err
		}
		var told jobdb.RunEvents
		for i := range runs {
			r := &runs[i]
			if !created[i] {
				continue
			}
			made++
			if r.State == jobrun.Skipped {
				told.Add(r, jobrun.HistoryEvent{
					At:      r.CreatedAt,
					Kind:    jobrun.WasSkipped,
					To:      jobrun.Skipped,
					Version: r.Version,
					Epoch:   t.Epoch,
					Reason:  reasons[i],
				})
			}
		}
		return st.db.PutRunEvents(ctx, tx, &told)
	})
	if err != nil {
		return 0, postgres.Wrap("create the job runs of slots", err)
	}
	st.db.RunsCreated(runs, created)
	return made, nil
}
