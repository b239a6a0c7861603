package sagadb

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

var (
	getArchived = `SELECT ` + sagaColumns + `, s.archived_at
	  FROM saga.saga_states_archive s
	 WHERE s.id = $1 AND s.tenant_id = $2`

	archivedLogs          = archivedLogsOf(logColumns, "")
	archivedLogsBrief     = archivedLogsOf(briefLogColumns, "")
	archivedLogsExplained = archivedLogsOf(explainedLogColumns, "")
	archivedLogsByID      = archivedLogsOf(logColumns, withSources)
)

func archivedLogsOf(columns, which string) string {
	return `
SELECT ` + columns + ` FROM saga.saga_step_logs_archive l WHERE l.saga_id = $1 AND l.tenant_id = $2` + which + `
 ORDER BY l.step_index, l.started_at, l.attempt`
}

// GetArchived implements saga.Archive. It reads the head and the logs from one snapshot, because a
// restore between the two reads would move the logs away.
func (st *Sagas) GetArchived(ctx context.Context, tenant, id uuid.UUID, want saga.Logs) (saga.Archived, error) {
	query, args := archivedLogs, []any{id, tenant}
	switch {
	case len(want.IDs) > 0:
		query, args = archivedLogsByID, append(args, pq.Array(want.IDs))
	case want.Explained:
		query = archivedLogsExplained
	case want.Brief:
		query = archivedLogsBrief
	}
	var a saga.Archived
	err := st.db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		rows, err := tx.QueryContext(ctx, getArchived, id, tenant)
		if err != nil {
			return err
		}
		found := false
		err = postgres.EachRow(rows, func() error { found = true; a, err = scanArchived(st.db, rows); return err })
		if err != nil || !found {
			return err
		}
		if rows, err = tx.QueryContext(ctx, query, args...); err != nil {
			return err
		}
		a.Logs = []saga.StepLog{}
		sealer := st.db.Keys.SealerFor(tenant, id)
		err = postgres.EachRow(rows, func() error {
			l, err := scanLog(rows, oneSealer(&sealer))
			if want.Explained {
				l.LeaveContent()
			}
			a.Logs = append(a.Logs, l)
			return shown(err)
		})
		if whole(want) {
			a.Logs = withRequests(&a.Saga, a.Logs, want)
		}
		return err
	})
	switch {
	case err != nil:
		return saga.Archived{}, fmt.Errorf("get archived saga: %w", err)
	case a.Saga.ID == uuid.Nil:
		return saga.Archived{}, saga.NotFound(id)
	}
	return a, nil
}

// scanArchived reads a row of sagaColumns, followed by archived_at.
func scanArchived(db *postgres.DB, row postgres.Scanner) (a saga.Archived, err error) {
	a.Saga, err = scanSaga(db, row, &a.ArchivedAt)
	postgres.UTC(&a.ArchivedAt)
	return a, shown(err)
}

// ListArchived implements saga.Archive.
func (st *Sagas) ListArchived(ctx context.Context, tenant uuid.UUID, f saga.Filter) (page.Of[saga.Archived], error) {
	if !archivable(&f) {
		return page.Of[saga.Archived]{}, nil
	}
	var total int64
	if f.Total {
		query, args := countArchived(tenant, f)
		err := st.db.ListTenant(ctx, tenant, query, func(rows *sql.Rows) error { return rows.Scan(&total) }, args...)
		if err != nil {
			return page.Of[saga.Archived]{}, fmt.Errorf("count archived sagas: %w", err)
		}
	}
	var read []saga.Archived
	query, args := listArchived(tenant, f)
	err := st.db.ListTenant(ctx, tenant, query, func(rows *sql.Rows) error {
		a, err := scanArchived(st.db, rows)
		read = append(read, a)
		return err
	}, args...)
	if err != nil {
		return page.Of[saga.Archived]{}, fmt.Errorf("list archived sagas: %w", err)
	}
	found := page.Cut(f.ByTime, read)
	found.Total = total
	return found, nil
}

// archivable reports whether an archived saga can match f. It removes the conditions from f that
// every archived saga meets: all of them have ended, and none needs attention.
func archivable(f *saga.Filter) bool {
	if f.NeedsAttention != nil && *f.NeedsAttention {
		return false
	}
	f.NeedsAttention = nil
	if f.States == nil {
		return true
	}
	f.States = slices.DeleteFunc(slices.Clone(f.States), func(s saga.State) bool { return !s.Terminal() })
	return len(f.States) > 0
}

func listArchived(tenant uuid.UUID, f saga.Filter) (query string, args []any) {
	from, w := archived(tenant, f)
	return fmt.Sprintf(`SELECT %s, s.archived_at FROM %s WHERE %s%s LIMIT %d OFFSET %d`,
		sagaColumns, from, w.Text(), orderOf(f), f.Limit+1, f.Offset), w.Args
}

func countArchived(tenant uuid.UUID, f saga.Filter) (query string, args []any) {
	f.After = nil
	from, w := archived(tenant, f)
	return "SELECT count(*) FROM " + from + " WHERE " + w.Text(), w.Args
}

// archived returns the table, as s, and the conditions that select the archived sagas of f.
func archived(tenant uuid.UUID, f saga.Filter) (from string, w sagaWhere) {
	from = "saga.saga_states_archive s"
	switch {
	case f.Assignee != "":
		from, w = assigned("saga.saga_states_archive", tenant, f)
		from += " s"
	case byMetadata(f):
		from = "saga.tenant_metadata_archive s"
	}
	w.sagas(tenant, f)
	if !f.EndedFrom.IsZero() { // updated_at is indexed, and archived sagas no longer change
		w.Add("s.updated_at >= ?", f.EndedFrom.Add(-longSettled))
	}
	return from, w
}

// Restore implements saga.Archive. The idempotency key and the event are stored in the transaction
// that moves the saga, or not at all.
func (st *Sagas) Restore(ctx context.Context, r saga.Restoration) error {
	restored, err := postgres.RetryCollision(func() (bool, error) { return st.restore(ctx, r) })
	switch {
	case err != nil:
		return postgres.Wrap("restore saga", err)
	case !restored:
		return saga.NotFound(r.SagaID)
	}
	return nil
}

func (st *Sagas) restore(ctx context.Context, r saga.Restoration) (restored bool, err error) {
	err = st.db.InWrite(ctx, func(tx *sqlx.Tx) error { // for column
		if err := tx.GetContext(ctx, &restored,
			`SELECT saga.restore_saga($1, $2)`, r.TenantID, r.SagaID); err != nil || !restored {
			return err
		}
		event := newEventBatch(1)
		if err := addEvent(st.db, event, &r.Event); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, insertBatch.Text, insertBatch.Args(event)...); err != nil {
			return err
		}
		if r.Key == nil {
			return nil
		}
		stored, err := storeKey(ctx, tx, r.Key, r.SagaID)
		if err == nil && !stored {
			err = saga.KeyUsed()
		}
		return err
	})
	return restored && err == nil, err
}
