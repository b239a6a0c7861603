package sagadb

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// commitSagas writes a batch of changes in one statement, and so in one transaction. Each parameter
// is one column of the batch (decision 0005).
//
// locked finds the rows whose version and epoch still match, and locks them in id and tenant order.
// Without that order, two nodes that wrote the same sagas in opposite order deadlocked once the
// planner used the index (40P01, 3 of 120 runs on 200,000 rows); small tables never show this. A
// hashed subplan matches rows to their change. IS TRUE keeps the planner from turning it into a
// join, whose cost without hash joins would be quadratic in the size of the batch. A RUNNING row is
// recognized by its missing end rather than its status: status has an index, and with it the
// planner read all rows of that status.
var commitSagas = commitStatement(operatedColumns{})

// commitOperated is commitSagas for a batch that contains an operator's change or a change that
// stores a declared output. It has four more columns, which are NULL for all other changes. It is a
// separate statement because few changes have any of these columns (decision 0023).
var commitOperated = commitStatement(operatedColumns{
	rows: []postgres.Params{operatedTable.As("o")},
	set: `
	       suspended_at = CASE WHEN l.suspend THEN now() WHEN l.suspend IS NULL THEN s.suspended_at END,
	       timeout_at = CASE WHEN ` + isForward("l.state") + `
	                         AND l.deadline_ms IS NOT NULL THEN now() + l.deadline_ms * interval '1 ms'
	                           ELSE s.timeout_at END,
	       interventions = coalesce(l.interventions::jsonb, s.interventions),
	       result_data = coalesce(l.result::jsonb, s.result_data),`,
	undoing: `WHEN ` + is("l.state", saga.Compensating) + `
	  AND l.deadline_ms IS NOT NULL THEN now() + l.deadline_ms * interval '1 ms' `,
})

// operatedColumns is the SQL that commitOperated has in addition to that of commitSagas.
type operatedColumns struct {
	rows         []postgres.Params
	set, undoing string
}

func commitStatement(c operatedColumns) *postgres.Statement {
	heads := changeTable.As("c")
	text := fmt.Sprintf(commitTemplate, postgres.Unnest("c", append([]postgres.Params{heads}, c.rows...)...),
		postgres.Unnest("k", theKeys), c.set+changedHead(c.undoing),
		postgres.Unnest("g", theLogs), logTable.Inserted(), logTable.Stored(""), insertEvents,
		completedLog.SetFrom("g", "saga_id", "tenant_id", "step_index", "action", "attempt"))
	return postgres.Named(text, append([]postgres.Params{heads, theKeys, theLogs, theEvents}, c.rows...)...)
}

const commitTemplate = `
WITH locked AS MATERIALIZED (
	SELECT c.* FROM %[1]s
	  JOIN saga.saga_states s ON s.id = c.id AND s.tenant_id = c.tenant_id
	 WHERE s.version = c.was AND s.lease_epoch = c.epoch_was
	 ORDER BY s.id, s.tenant_id
	   FOR UPDATE OF s
), keys AS (
	INSERT INTO saga.idempotency_keys (saga_id, tenant_id, principal, route, key, request_hash)
	SELECT * FROM %[2]s
	 WHERE ((k.id, k.tenant) IN (SELECT id, tenant_id FROM locked)) IS TRUE
	 ORDER BY k.tenant, k.principal, k.route, k.key
	ON CONFLICT DO NOTHING
	RETURNING saga_id, tenant_id
), moved AS (
	UPDATE saga.saga_states s
	   SET%[3]s
	  FROM locked l
	 WHERE s.id = l.id
	   AND s.tenant_id = l.tenant_id
	   AND (NOT l.keyed OR (l.id, l.tenant_id) IN (SELECT saga_id, tenant_id FROM keys))
	RETURNING s.id, s.tenant_id, ` + undoUntil + `
), logs AS MATERIALIZED (
	SELECT * FROM %[4]s
	 WHERE ((g.saga_id, g.tenant_id) IN (SELECT id, tenant_id FROM moved)) IS TRUE
), logged AS (
	INSERT INTO saga.saga_step_logs (%[5]s)
	SELECT %[6]s
	  FROM logs WHERE NOT completes
), closed AS (
	UPDATE saga.saga_step_logs t
	   SET %[8]s
	  FROM logs g
	 WHERE g.completes
	   AND t.saga_id = g.saga_id
	   AND t.tenant_id = g.tenant_id
	   AND t.step_index = g.step_index
	   AND t.action = g.action
	   AND t.attempt = g.attempt
	   AND t.completed_at IS NULL
), told AS (%[7]s WHERE ((e.saga_id, e.tenant_id) IN (SELECT id, tenant_id FROM moved)) IS TRUE
)
SELECT id, tenant_id, undo_until FROM moved`

// Commit implements saga.Store.
func (st *Sagas) Commit(ctx context.Context, batch []saga.Change) ([]error, error) {
	seen := make(map[saga.Ref]bool, len(batch))
	for i := range batch {
		ref := batch[i].After.Ref()
		if seen[ref] {
			// PostgreSQL would apply only one of the two and log both.
			return nil, fmt.Errorf("commit: two changes of saga %s in one batch", ref.ID)
		}
		seen[ref] = true
	}
	moved, err := postgres.RetryCollision(func() (map[saga.Ref]bool, error) { return st.update(ctx, batch) })
	switch {
	case err == nil:
	case postgres.DataError(err) && len(batch) > 1:
		return postgres.OneByOne(batch, func(one []saga.Change) ([]error, error) { return st.Commit(ctx, one) })
	case postgres.Violates(err, businessKeyIndex):
		return st.whyNotReopened(ctx, &batch[0])
	case postgres.DataError(err):
		return []error{fault.New(fault.Invalid, saga.CodeUnstorable, "the database refused this change of saga %s", batch[0].After.ID).Because(err)}, nil
	default:
		return nil, fmt.Errorf("commit sagas: %w", err)
	}
	results := make([]error, len(batch))
	for i := range batch {
		if moved[batch[i].After.Ref()] {
			continue
		}
		if results[i], err = st.whyNotMoved(ctx, &batch[i]); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (st *Sagas) update(ctx context.Context, batch []saga.Change) (map[saga.Ref]bool, error) {
	for i := range batch {
		if batch[i].Letter != nil || batch[i].Run != nil || batch[i].Steer != nil || batch[i].Park != "" {
			return st.updateWithLetters(ctx, batch)
		}
	}
	query, args, err := changeColumns(st.db, batch)
	if err != nil {
		return nil, err
	}
	rows, err := st.db.QueryWrite(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return movedSagas(rows, batch)
}

func (st *Sagas) whyNotMoved(ctx context.Context, c *saga.Change) (conflict, outage error) {
	if c.Key != nil {
		state, _, err := st.Key(ctx, *c.Key)
		if err != nil {
			return nil, err
		}
		if state != saga.KeyNew {
			return saga.KeyUsed(), nil
		}
	}
	return c.Stale(), nil
}

// changeColumns returns the statement and its arguments.
func changeColumns(db *postgres.DB, batch []saga.Change) (query string, args []any, err error) {
	if narrow := narrowest(batch); narrow != nil {
		args, err = narrow.columns(db, batch)
		return narrow.Text, args, err
	}
	b := changeBatch{
		heads: changeTable.Batch(len(batch)), keys: keyTable.Batch(0), logs: logTable.Batch(len(batch)),
		events: newEventBatch(len(batch)),
	}
	if slices.ContainsFunc(batch, func(c saga.Change) bool { return c.Operated != nil }) {
		b.operated = operatedTable.Batch(len(batch))
	}
	for i := range batch {
		if err := b.add(db, &batch[i]); err != nil {
			return "", nil, err
		}
	}
	if b.operated != nil {
		return commitOperated.Text, commitOperated.Args(b.heads, b.keys, b.logs, b.events, b.operated), nil
	}
	return commitSagas.Text, commitSagas.Args(b.heads, b.keys, b.logs, b.events), nil
}

// movedSagas returns the sagas whose changes were written, and sets the deadlines of their
// compensations in batch.
func movedSagas(rows *sql.Rows, batch []saga.Change) (map[saga.Ref]bool, error) {
	moved, undoUntil := make(map[saga.Ref]bool, len(batch)), map[saga.Ref]*time.Time(nil)
	err := postgres.EachRow(rows, func() error {
		var ref saga.Ref
		var until *time.Time
		err := rows.Scan(&ref.ID, &ref.Tenant, &until)
		moved[ref] = true
		if until != nil {
			if undoUntil == nil {
				undoUntil = map[saga.Ref]*time.Time{}
			}
			postgres.UTC(until)
			undoUntil[ref] = until
		}
		return err
	})
	for i := range batch {
		if c := &batch[i]; c.StartsCompensation {
			c.After.CompensationTimeoutAt = undoUntil[c.After.Ref()]
		}
	}
	return moved, err
}
