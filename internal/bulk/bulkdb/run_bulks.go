package bulkdb

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

func scanBulk(row postgres.Scanner, more ...any) (jobrun.Bulk, error) {
	b, err := bulkTable.One(row, more...)
	b.Cursor = b.place()
	return b.Bulk, err
}

func rowOf(b *jobrun.Bulk) *bulkRow {
	return &bulkRow{*b, positionOf(b.Cursor)}
}

// bulks is the storage of bulk operations on runs.
var bulks = kind[jobrun.Bulk]{
	name:    "bulk operation on job runs",
	plural:  "bulk operations on job runs",
	table:   "jobs.bulks",
	columns: bulkTable.Selected("b"),
	scan:    scanBulk,
	head:    func(b *jobrun.Bulk) *bulk.Head { return &b.Head },
	move:    (*jobrun.Bulk).Moved,
	audits:  operator.JobBulk,
}

var insertBulk = postgres.Named(`
INSERT INTO jobs.bulks (`+bulkTable.Inserted()+`)
VALUES (`+bulkTable.Values("b")+`)
    ON CONFLICT (id) DO NOTHING`, bulkTable.As("b"))

// CreateBulk implements jobrun.BulkOperations.
func (st *RunBulks) CreateBulk(
	ctx context.Context, b jobrun.Bulk, by operator.Action,
) (stored jobrun.Bulk, created bool, err error) {
	return bulks.create(ctx, st.db, b, by, creation[jobrun.Bulk]{
		look:   func(tx *sqlx.Tx) (bulk.Seen, error) { return st.look(ctx, tx, &b) },
		stored: st.GetBulk,
		asked:  (*jobrun.Bulk).Requested,
		insert: insertBulk, row: func(b *jobrun.Bulk) postgres.Bound { return bulkTable.Row(rowOf(b)) },
	})
}

// look counts the runs that a bulk has not processed yet.
func (st *RunBulks) look(ctx context.Context, tx *sqlx.Tx, b *jobrun.Bulk) (bulk.Seen, error) {
	f, p := b.Scope(1)
	return st.jobs.Look(ctx, tx, b.TenantID, f, p)
}

// CountBulk implements jobrun.BulkOperations.
func (st *RunBulks) CountBulk(ctx context.Context, b jobrun.Bulk) (int64, error) {
	b.Before = b.Before.Add(bulk.Slack)
	return st.rest(ctx, &b)
}

// rest counts the runs that a bulk has not processed yet.
func (st *RunBulks) rest(ctx context.Context, b *jobrun.Bulk) (n int64, err error) {
	err = st.db.InTenant(ctx, b.TenantID, func(tx *sqlx.Tx) error {
		seen, err := st.look(ctx, tx, b)
		n = seen.Count
		return err
	})
	return n, postgres.Wrap("count the runs of a bulk operation", err)
}

var getBulk = postgres.OfTenant(`SELECT `+bulks.columns+` FROM jobs.bulks b
  WHERE b.tenant_id = tenant.id AND b.id = $2`, "")

// GetBulk implements jobrun.BulkOperations.
func (st *RunBulks) GetBulk(ctx context.Context, tenant, id uuid.UUID) (jobrun.Bulk, error) {
	return bulks.get(ctx, st.db, tenant, id, getBulk, scanBulk)
}

// ListBulks implements jobrun.BulkOperations.
func (st *RunBulks) ListBulks(
	ctx context.Context, tenant uuid.UUID, state bulk.State, p page.ByTime,
) (page.Of[jobrun.Bulk], error) {
	return bulks.inState(ctx, st.db, tenant, state, p)
}

// MoveBulk implements jobrun.BulkOperations.
func (st *RunBulks) MoveBulk(
	ctx context.Context, tenant, id uuid.UUID, on bulk.Verb, by operator.Action,
) (jobrun.Bulk, error) {
	return bulks.moved(ctx, st.db, tenant, id, on, by)
}

// bulkStep is the number of runs that one transaction processes.
const bulkStep = 100

// Bulk implements jobrun.BulkOperations.
func (st *RunBulks) Bulk(ctx context.Context, t jobrun.Term, s jobrun.Settings, limit int) (jobrun.Swept, error) {
	return bulks.step(ctx, st.db, &st.bulks, func(m bulkRef) (jobrun.Swept, error) {
		return st.bulk(ctx, t, s, m, min(limit, bulkStep))
	})
}

// bulk processes the next runs of one bulk operation and stores its progress, in one transaction.
// The runs are found before that transaction with the tenant's role, because the list relies on
// row-level security.
func (st *RunBulks) bulk(
	ctx context.Context, t jobrun.Term, s jobrun.Settings, m bulkRef, limit int,
) (jobrun.Swept, error) {
	b, err := st.GetBulk(ctx, m.Tenant, m.ID)
	if err != nil || b.State != bulk.Running {
		return jobrun.Swept{}, err
	}
	if b.Unreadable {
		return jobrun.Swept{}, errDamaged
	}
	f, p := b.Scope(limit)
	found, err := st.jobs.ListRuns(ctx, m.Tenant, f, p)
	if err != nil {
		return jobrun.Swept{}, err
	}
	all, err := bulkFound(&b.Head, b.Matched, len(found.Items), func() (int64, error) { return st.rest(ctx, &b) })
	if err != nil {
		return jobrun.Swept{}, err
	}
	ids := make([]uuid.UUID, len(found.Items))
	for i := range found.Items {
		ids[i] = found.Items[i].ID
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	var made, canceled []jobrun.Run
	err = st.db.AsLeader(ctx, t, func(tx *sqlx.Tx) error {
		made, canceled = nil, nil
		after, done := b, 0
		var version int64
		var now time.Time
		row := tx.QueryRowContext(ctx, `SELECT b.version, clock_timestamp() FROM jobs.bulks b
		  WHERE b.tenant_id = $1 AND b.id = $2 AND b.state`+
			jobdb.Is(bulk.Running)+` FOR UPDATE`, m.Tenant, m.ID)
		if err := row.Scan(&version, &now); err != nil {
			if errors.Is(err, sql.ErrNoRows) {
				return nil // canceled in the meantime
			}
			return err
		}
		if version != b.Version {
			return nil // another node has processed these runs
		}
		if after.Halts(all) {
			return bulks.halt(ctx, st.db, tx, &after.Head, now.UTC())
		}
		for _, id := range ids {
			change, again, err := st.dealWith(ctx, tx, &b, id, s)
			switch {
			case err != nil:
				return err
			case change != nil:
				canceled = append(canceled, change.After)
				done++
			case again != nil:
				made = append(made, *again)
				done++
			}
		}
		after.Advance(found, done, now.UTC())
		return putBulk(ctx, tx, &after)
	})
	if err != nil {
		return jobrun.Swept{}, err
	}
	st.db.RunsCreated(made, slices.Repeat([]bool{true}, len(made)))
	for i := range canceled {
		st.db.RunEnded(&canceled[i])
	}
	return jobrun.Swept{Moved: len(ids), More: found.More}, nil
}

var (
	bulkProgress = bulkTable.Only("id", "tenant_id", "state", "version", "cursor_at", "cursor_id", "matched", "done",
		"skipped", "ended_at")
	saveBulk = postgres.Named(`
		UPDATE jobs.bulks b SET `+bulkProgress.Set("b", "id", "tenant_id")+`
		 WHERE b.tenant_id = @b.tenant_id AND b.id = @b.id AND b.state`+jobdb.Is(bulk.Running), bulkProgress.As("b"))
)

// putBulk stores the progress of a locked bulk operation.
func putBulk(ctx context.Context, tx *sqlx.Tx, b *jobrun.Bulk) error {
	_, err := tx.ExecContext(ctx, saveBulk.Text, saveBulk.Args(bulkProgress.Row(rowOf(b)))...)
	return err
}

// dealWith cancels or reruns one run. It returns the change of the run, or the run that repeats it.
// Both are nil if it was too late, if the run's definition no longer exists, or if its policy
// forbids the rerun.
func (st *RunBulks) dealWith(
	ctx context.Context, tx *sqlx.Tx, b *jobrun.Bulk, id uuid.UUID, s jobrun.Settings,
) (canceled *jobrun.Change, made *jobrun.Run, err error) {
	r, now, err := st.db.LockRun(ctx, tx, b.TenantID, id)
	if err != nil {
		if fault.KindOf(err) == fault.NotFound {
			return nil, nil, nil // retention has deleted the run
		}
		return nil, nil, err
	}
	in, ask := b.Does(&r)
	switch {
	case in != nil:
		c, err := st.jobs.Apply(ctx, tx, &r, in, now)
		return &c, nil, err
	case ask == nil:
		return nil, nil, nil
	}
	d, err := jobdb.DefinitionTable.One(tx.QueryRowContext(ctx, readDefinition, b.TenantID, r.DefinitionID))
	if errors.Is(err, sql.ErrNoRows) || err == nil && (d.DeletedAt != nil || d.Unreadable) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	again := jobrun.New(&d, *ask, s, st.db.At(now))
	created, err := st.db.InsertRuns(ctx, tx, []jobrun.Run{again})
	if err != nil || !created[0] {
		return nil, nil, err
	}
	return nil, &again, nil
}
