package sweepdb

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
	"github.com/skald-saga/skald/internal/postgres"
)

// bulksAtOnce is how many backfills, and how many bulks, move in one round.
const bulksAtOnce = 50

// backfillStep is how many slots one transaction looks at.
const backfillStep = 200

// bulkRef names a backfill or a bulk.
type bulkRef struct{ Tenant, ID uuid.UUID }

// running lists the backfills or bulks that go on, the oldest first.
func (st *Bulks) running(ctx context.Context, query string) (list []bulkRef, err error) {
	rows, err := st.db.QueryRead(ctx, query, bulksAtOnce)
	if err != nil {
		return nil, err
	}
	err = postgres.EachRow(rows, func() error {
		var m bulkRef
		err := rows.Scan(&m.Tenant, &m.ID)
		list = append(list, m)
		return err
	})
	return list, err
}

// Backfill implements jobrun.BulkOperations.
func (st *Bulks) Backfill(ctx context.Context, t jobrun.Term, s jobrun.Settings, limit int) (all jobrun.Swept, err error) {
	list, err := st.running(ctx, `SELECT b.tenant_id, b.id FROM jobs.backfills b WHERE b.state = 'RUNNING' ORDER BY b.created_at LIMIT $1`)
	if err != nil {
		return all, postgres.Outage("look for backfills", err)
	}
	for _, m := range list {
		swept, err := postgres.RetryCollision(func() (jobrun.Swept, error) { return st.backfill(ctx, t, s, m, min(limit, backfillStep)) })
		if err != nil {
			return all, postgres.Outage("advance a backfill", err)
		}
		all.Moved += swept.Moved
		all.More = all.More || swept.More
	}
	return all, nil
}

// backfill makes the next runs of one, in one transaction with how far it has come.
func (st *Bulks) backfill(ctx context.Context, t jobrun.Term, s jobrun.Settings, m bulkRef, limit int) (swept jobrun.Swept, err error) {
	var runs []jobrun.Run
	var created []bool
	err = st.db.AsLeader(ctx, t, func(tx *sqlx.Tx) error {
		runs, created, swept = nil, nil, jobrun.Swept{}
		b, err := scanBackfill(tx.QueryRowContext(ctx, `
			SELECT `+backfillColumns+` FROM jobs.backfills b WHERE b.tenant_id = $1 AND b.id = $2 AND b.state = 'RUNNING' FOR UPDATE SKIP LOCKED`, m.Tenant, m.ID))
		if errors.Is(err, sql.ErrNoRows) {
			return nil // it has ended, or somebody ends it
		}
		if err != nil {
			return err
		}
		// Counted by another statement, which sees what whoever had the lock before has made.
		var active int
		var now time.Time
		if err := tx.QueryRowContext(ctx, `SELECT `+activeOf("$1", "$2")+`, clock_timestamp()`, m.Tenant, m.ID).Scan(&active, &now); err != nil {
			return err
		}
		now = now.UTC()
		d, err := jobdb.ScanDefinition(tx.QueryRowContext(ctx, `SELECT `+jobdb.DefinitionColumns+` FROM jobs.job_definitions d WHERE d.tenant_id = $1 AND d.id = $2`, m.Tenant, b.DefinitionID))
		if err != nil {
			return fmt.Errorf("read the definition of a backfill: %w", err)
		}
		if d.DeletedAt != nil || d.Spec.Schedule == nil {
			b.State, b.EndedAt = jobrun.BulkCanceled, &now
			return putBackfill(ctx, tx, &b)
		}
		room := b.MaxActive - active
		if room <= 0 {
			return nil
		}
		slots, states, err := nextSlots(ctx, tx, &b, &d, limit)
		if err != nil {
			return err
		}
		moment := st.db.At(now)
		for _, slot := range slots {
			if room == len(runs) {
				break
			}
			if swept.Moved++; b.Reprocess.Wants(states[slot]) {
				runs = append(runs, b.Run(&d, slot, s, moment))
			} else {
				b.Skipped++
			}
			b.Cursor = &slot
		}
		swept.More = swept.Moved == limit && len(runs) < room
		if len(slots) == 0 && active == 0 {
			b.State, b.EndedAt = jobrun.BulkCompleted, &now
		} else if swept.Moved == 0 {
			return nil
		}
		if created, err = st.db.InsertRuns(ctx, tx, runs); err != nil {
			return err
		}
		for _, is := range created {
			if is {
				b.Created++
			}
		}
		return putBackfill(ctx, tx, &b)
	})
	if err == nil {
		st.db.RunsCreated(runs, created)
	}
	return swept, err
}

func nextSlots(ctx context.Context, tx *sqlx.Tx, b *jobrun.Backfill, d *jobrun.Definition, limit int) ([]time.Time, map[time.Time]jobrun.SlotState, error) {
	compiled, err := d.Spec.Schedule.Compile()
	if err != nil {
		return nil, nil, fmt.Errorf("stored schedule of a job: %w", err)
	}
	slots := b.Next(compiled, limit)
	if len(slots) == 0 {
		return nil, nil, nil
	}
	states, err := readSlots(ctx, tx, b.TenantID, b.DefinitionID, slots)
	return slots, states, err
}

// putBackfill stores how far a locked backfill has come. Its version counts what
// people see of it change.
func putBackfill(ctx context.Context, tx *sqlx.Tx, b *jobrun.Backfill) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE jobs.backfills b SET state = $3, version = b.version + 1, cursor_at = $4, created = $5, skipped = $6, ended_at = $7
		 WHERE b.tenant_id = $1 AND b.id = $2 AND b.state = 'RUNNING'`, b.TenantID, b.ID, b.State, b.Cursor, b.Created, b.Skipped, b.EndedAt)
	return err
}
