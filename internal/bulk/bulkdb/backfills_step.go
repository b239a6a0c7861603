package bulkdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/postgres"
)

// backfillStep is the number of slots that one transaction processes.
const backfillStep = 200

// Backfill implements jobrun.BulkOperations.
func (st *RunBulks) Backfill(ctx context.Context, t jobrun.Term, s jobrun.Settings, limit int) (jobrun.Swept, error) {
	return backfills.step(ctx, st.db, &st.backfills, func(m bulkRef) (jobrun.Swept, error) {
		return st.backfill(ctx, t, s, m, min(limit, backfillStep))
	})
}

// backfill creates the next runs of one backfill and stores its progress, in one transaction.
func (st *RunBulks) backfill(
	ctx context.Context, t jobrun.Term, s jobrun.Settings, m bulkRef, limit int,
) (swept jobrun.Swept, err error) {
	var runs []jobrun.Run
	var created []bool
	err = st.db.AsLeader(ctx, t, func(tx *sqlx.Tx) error {
		runs, created, swept = nil, nil, jobrun.Swept{}
		b, err := backfillTable.One(tx.QueryRowContext(ctx, `
			SELECT `+backfills.columns+` FROM jobs.backfills b
			  WHERE b.tenant_id = $1 AND b.id = $2
			    AND b.state`+jobdb.Is(bulk.Running)+` FOR UPDATE SKIP LOCKED`, m.Tenant, m.ID))
		if errors.Is(err, sql.ErrNoRows) {
			return nil // it has ended, or another transaction is ending it
		}
		if err != nil {
			return err
		}
		// A separate statement counts the runs, so that it sees those created by the previous
		// holder of the lock.
		var active int
		var now time.Time
		row := tx.QueryRowContext(ctx, `SELECT `+activeOf("$1", "$2")+`, clock_timestamp()`, m.Tenant, m.ID)
		if err := row.Scan(&active, &now); err != nil {
			return err
		}
		d, err := jobdb.DefinitionTable.One(tx.QueryRowContext(ctx, readDefinition, m.Tenant, b.DefinitionID))
		if err != nil {
			return fmt.Errorf("read the definition of a backfill: %w", err)
		}
		switch own, definition := b.Damaged(&d); {
		case own:
			return errDamaged
		case definition:
			return nil // it waits until the definition is repaired
		}
		step, err := b.NextStep(&d, active, limit)
		if err != nil {
			return err
		}
		var states map[time.Time]jobrun.SlotState
		if len(step.Slots) > 0 {
			if states, err = readSlots(ctx, tx, b.TenantID, b.DefinitionID, step.Slots); err != nil {
				return err
			}
		}
		var changed bool
		if runs, swept, changed = b.Take(&step, states, &d, s, st.db.At(now)); !changed {
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

var (
	backfillProgress = backfillTable.Only("id", "tenant_id", "state", "version", "cursor_at", "created", "skipped",
		"ended_at")
	saveBackfill = postgres.Named(`
		UPDATE jobs.backfills b SET `+backfillProgress.Set("b", "id", "tenant_id")+`
		 WHERE b.tenant_id = @b.tenant_id AND b.id = @b.id AND b.state`+jobdb.Is(bulk.Running), backfillProgress.As("b"))
)

// putBackfill stores the progress of a locked backfill.
func putBackfill(ctx context.Context, tx *sqlx.Tx, b *jobrun.Backfill) error {
	_, err := tx.ExecContext(ctx, saveBackfill.Text, saveBackfill.Args(backfillProgress.Row(b))...)
	return err
}
