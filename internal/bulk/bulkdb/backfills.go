package bulkdb

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// RunBulks is jobrun.BulkOperations on PostgreSQL. Rows are locked in this order: the backfill or
// bulk, then runs by id.
type RunBulks struct {
	db   *jobdb.DB
	jobs *jobdb.Jobs

	backfills, bulks round
}

// NewRunBulks returns the backfills and bulks of jobs.
func NewRunBulks(db *jobdb.DB, jobs *jobdb.Jobs) *RunBulks { return &RunBulks{db: db, jobs: jobs} }

var _ jobrun.BulkOperations = (*RunBulks)(nil)

// backfills is the storage of backfills.
var backfills = kind[jobrun.Backfill]{
	name:    "backfill",
	plural:  "backfills",
	table:   "jobs.backfills",
	columns: backfillTable.Selected("b"),
	scan:    backfillTable.One,
	head:    func(b *jobrun.Backfill) *bulk.Head { return &b.Head },
	move:    (*jobrun.Backfill).Moved,
	audits:  operator.JobBackfill,
}

var insertBackfill = postgres.Named(`
INSERT INTO jobs.backfills (`+backfillTable.Inserted()+`)
VALUES (`+backfillTable.Values("b")+`)
    ON CONFLICT (id) DO NOTHING`,
	backfillTable.As("b"))

// CreateBackfill implements jobrun.BulkOperations.
func (st *RunBulks) CreateBackfill(
	ctx context.Context, b jobrun.Backfill, by operator.Action,
) (stored jobrun.Backfill, created bool, err error) {
	return backfills.create(ctx, st.db, b, by, creation[jobrun.Backfill]{
		stored: func(ctx context.Context, tenant, id uuid.UUID) (jobrun.Backfill, error) {
			b, _, err := st.GetBackfill(ctx, tenant, id)
			return b, err
		},
		insert: insertBackfill, row: func(b *jobrun.Backfill) postgres.Bound { return backfillTable.Row(b) },
	})
}

// activeOf counts the runs of a backfill that have not ended.
func activeOf(tenant, backfill string) string {
	return `(SELECT count(*) FROM jobs.job_runs r
  WHERE r.tenant_id = ` + tenant + ` AND r.backfill_id = ` + backfill + ` AND r.phase` + jobdb.Unfinished + `)`
}

var getBackfill = postgres.OfTenant(`SELECT `+backfills.columns+`, `+activeOf("b.tenant_id", "b.id")+` AS active
  FROM jobs.backfills b WHERE b.tenant_id = tenant.id AND b.id = $2`, "")

// GetBackfill implements jobrun.BulkOperations.
func (st *RunBulks) GetBackfill(
	ctx context.Context, tenant, id uuid.UUID,
) (b jobrun.Backfill, active int64, err error) {
	counted := func(row postgres.Scanner, _ ...any) (jobrun.Backfill, error) { return backfillTable.One(row, &active) }
	b, err = backfills.get(ctx, st.db, tenant, id, getBackfill, counted)
	return b, active, err
}

// ListBackfills implements jobrun.BulkOperations.
func (st *RunBulks) ListBackfills(
	ctx context.Context, tenant, definition uuid.UUID, p page.ByTime,
) (page.Of[jobrun.Backfill], error) {
	var w postgres.Where
	w.Add("b.tenant_id = ? AND b.definition_id = ?", tenant, definition)
	return backfills.list(ctx, st.db, tenant, &w, p)
}

// MoveBackfill implements jobrun.BulkOperations. A canceled backfill ends before its runs are
// canceled, so that it creates no more runs. If the node dies in between, canceling the backfill
// again cancels them.
func (st *RunBulks) MoveBackfill(
	ctx context.Context, tenant, id uuid.UUID, on bulk.Verb, by operator.Action,
) (jobrun.Backfill, error) {
	b, err := backfills.moved(ctx, st.db, tenant, id, on, by)
	if err != nil || on != bulk.Cancel {
		return b, err
	}
	return b, postgres.Wrap("cancel the runs of a backfill", st.cancelWaiting(ctx, tenant, id, by))
}

// cancelWaiting cancels the runs of a backfill that were not started.
func (st *RunBulks) cancelWaiting(ctx context.Context, tenant, id uuid.UUID, by operator.Action) error {
	waiting, err := st.jobs.ListRuns(ctx, tenant,
		jobrun.Filter{BackfillID: id, States: []jobrun.State{jobrun.Pending, jobrun.Assigned, jobrun.Orphaned}},
		page.ByTime{Limit: 2 * jobrun.MaxBackfillActive})
	if err != nil {
		return err
	}
	for i := range waiting.Items {
		_, err := st.jobs.Operate(ctx, tenant, waiting.Items[i].ID, nil,
			// Runs that have started in the meantime are not canceled.
			jobrun.CancelRequested{Actor: by.Actor, Reason: "its backfill was canceled", Waiting: true})
		if err != nil && !jobdb.Ended(err) {
			return err
		}
	}
	return nil
}

// slotStates reads the states of slots from the runs of the schedule and of backfills, and from
// their retries.
var slotStates = `
SELECT first.slot, bool_or(run.state` + jobdb.Is(jobrun.ActiveStates...) + `), bool_or(run.state` +
	jobdb.Is(jobrun.Succeeded) + `), bool_or(run.state` + jobdb.Is(jobrun.UnsuccessfulStates...) + `)
  FROM (SELECT r.scheduled_for AS slot, r.id, r.state FROM jobs.job_runs r
         WHERE r.tenant_id = $1 AND r.definition_id = $2 AND r.scheduled_for = ANY ($3::timestamptz[])
           AND r.trigger` + jobdb.Is(jobrun.ByTime) + ` AND NOT r.withdrawn
        UNION ALL
        SELECT r.scheduled_for, r.id, r.state FROM jobs.job_runs r
         WHERE r.tenant_id = $1 AND r.definition_id = $2 AND r.scheduled_for = ANY ($3::timestamptz[])
           AND r.trigger` + jobdb.Is(jobrun.ByBackfill) + `) AS first
  CROSS JOIN LATERAL (SELECT first.state
        UNION ALL
        SELECT c.state FROM jobs.job_runs c
          WHERE c.tenant_id = $1 AND c.root_run_id = first.id AND c.retry_number > 0) AS run (state)
 GROUP BY first.slot`

// SlotStates implements jobrun.BulkOperations.
func (st *RunBulks) SlotStates(
	ctx context.Context, tenant, definition uuid.UUID, slots []time.Time,
) (states map[time.Time]jobrun.SlotState, err error) {
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		states, err = readSlots(ctx, tx, tenant, definition, slots)
		return err
	})
	return states, postgres.Wrap("read slots", err)
}

// readSlots reads the states of slots. It omits slots that never had a run.
func readSlots(
	ctx context.Context, tx *sqlx.Tx, tenantID, definition uuid.UUID, slots []time.Time,
) (map[time.Time]jobrun.SlotState, error) {
	texts := make([]string, len(slots))
	for i, slot := range slots {
		texts[i] = slot.UTC().Format(time.RFC3339Nano)
	}
	rows, err := tx.QueryContext(ctx, slotStates, tenantID, definition, postgres.TextArray(texts))
	if err != nil {
		return nil, err
	}
	states := make(map[time.Time]jobrun.SlotState, len(slots))
	return states, postgres.EachRow(rows, func() error {
		var slot time.Time
		var s jobrun.SlotState
		err := rows.Scan(&slot, &s.Active, &s.Succeeded, &s.Failed)
		states[slot.UTC()] = s
		return err
	})
}
