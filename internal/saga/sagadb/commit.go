package sagadb

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// commitSagas writes a batch of changes in one statement, so in one transaction.
// Each parameter is one column of the batch (decision 0005).
//
// locked finds the rows whose version and epoch still match and locks them in
// id and tenant order: two nodes with the same sagas in opposite order deadlocked once the
// planner used the index (40P01, 3 of 120 runs on 200,000 rows); small tables
// never show it. The rows of a change are matched to it by a hashed subplan: IS TRUE
// keeps the planner from turning it into a join, which without hash joins would cost
// the square of the batch. A RUNNING row is recognized by its missing end, not by its
// status: status has an index, and the planner read all rows of that status.
var commitSagas = commitStatement(operatedColumns{})

// commitOperated is commitSagas for a batch with a change made by an operator, or one that stores a
// declared output: four more columns, NULL for all other changes. They are in a statement of their
// own because few changes have any of them (decision 0023).
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

// operatedColumns is the SQL that commitOperated has in addition to commitSagas.
type operatedColumns struct {
	rows         []postgres.Params
	set, undoing string
}

func commitStatement(c operatedColumns) *postgres.Statement {
	heads := changeTable.As("c")
	text := fmt.Sprintf(commitTemplate, postgres.Unnest("c", append([]postgres.Params{heads}, c.rows...)...),
		postgres.Unnest("k", theKeys), c.set, c.undoing,
		postgres.Unnest("g", theLogs), logTable.Inserted(), logTable.Stored(""), insertEvents,
		dueAt("l.next_run_at", "l.updated_at"),
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
	   SET%[3]s version = l.version, state = l.state, current_step = l.current_step,
	       step_attempt = l.attempt, step_failures = l.failures, step_uncertain = l.uncertain,
	       lease_owner = l.owner,
	       lease_epoch = l.epoch,
	       next_run_at = CASE WHEN l.next_run_at = s.next_run_at THEN s.next_run_at ELSE %[9]s END,
	       error = l.error::jsonb, end_cause = l.end_cause, clean = l.clean,
	       needs_attention = l.attention, attention_reason = l.attention_reason,
	       compensation_timeout_ms = l.comp_ms, compensation_expired = l.comp_expired,
	       compensation_timeout_at = CASE WHEN l.comp_starts THEN now() + l.comp_ms * interval '1 ms'
	                                      %[4]sELSE s.compensation_timeout_at END,
	       timed_out_at = l.timed_out_at, cancel_requested_at = l.cancel_at,
	       started_at = l.started_at, completed_at = l.completed_at, updated_at = l.updated_at
	  FROM locked l
	 WHERE s.id = l.id
	   AND s.tenant_id = l.tenant_id
	   AND (NOT l.keyed OR (l.id, l.tenant_id) IN (SELECT saga_id, tenant_id FROM keys))
	RETURNING s.id, s.tenant_id, CASE WHEN l.comp_starts THEN s.compensation_timeout_at END AS undo_until
), logs AS MATERIALIZED (
	SELECT * FROM %[5]s
	 WHERE ((g.saga_id, g.tenant_id) IN (SELECT id, tenant_id FROM moved)) IS TRUE
), logged AS (
	INSERT INTO saga.saga_step_logs (%[6]s)
	SELECT %[7]s
	  FROM logs WHERE NOT completes
), closed AS (
	UPDATE saga.saga_step_logs t
	   SET %[10]s
	  FROM logs g
	 WHERE g.completes
	   AND t.saga_id = g.saga_id
	   AND t.tenant_id = g.tenant_id
	   AND t.step_index = g.step_index
	   AND t.action = g.action
	   AND t.attempt = g.attempt
	   AND t.completed_at IS NULL
), told AS (%[8]s WHERE ((e.saga_id, e.tenant_id) IN (SELECT id, tenant_id FROM moved)) IS TRUE
)
SELECT id, tenant_id, undo_until FROM moved`

// changeBatch collects changes for commitSagas, or if operated for commitOperated.
type changeBatch struct {
	heads    *postgres.Batch[changeRow]
	keys     *postgres.Batch[keyRow]
	logs     *postgres.Batch[logRow]
	events   *eventBatch
	operated *postgres.Batch[operatedRow]

	head changeRow
	log  logRow
}

func (b *changeBatch) add(db *postgres.DB, c *saga.Change) (err error) {
	sealer := db.Keys.SealerFor(c.After.Tenant.ID, c.After.ID)
	b.head = changeRow{Change: c, keyed: c.Key != nil}
	if b.head.failure, err = sealedError(&sealer, fieldError, c.After.Error); err != nil {
		return err
	}
	b.heads.Add(&b.head)
	if c.Key != nil {
		b.keys.Add(&keyRow{c.After.ID, c.Key})
	}
	for i := range c.Logs {
		b.log = logRow{StepLog: &c.Logs[i], of: c.After.Ref()}
		if err := b.log.seal(&sealer); err != nil {
			return err
		}
		b.logs.Add(&b.log)
	}
	for i := range c.Audit {
		if err := addEvent(db, b.events, &c.Audit[i]); err != nil {
			return err
		}
	}
	if b.operated == nil {
		return nil
	}
	row, err := sealOperated(&sealer, c)
	b.operated.Add(&row)
	return err
}

// sealOperated returns what is stored of an operator's change, sealed.
func sealOperated(sealer *envelope.Sealer, c *saga.Change) (row operatedRow, err error) {
	if row.Operated = c.Operated; row.Operated == nil {
		row.Operated = &saga.Operated{}
	}
	if row.Operated.Interventions {
		kept, err := sealInterventions(sealer, c.After.Interventions)
		if err != nil {
			return row, err
		}
		if row.interventions, err = json.Marshal(kept); err != nil {
			return row, fmt.Errorf("encode interventions: %w", err)
		}
	}
	if row.Operated.Result {
		row.result, err = postgres.Seal(sealer, fieldResult, c.After.Result)
	}
	return row, err
}

// Commit implements saga.Store.
func (st *Sagas) Commit(ctx context.Context, batch []saga.Change) ([]error, error) {
	seen := make(map[saga.Ref]bool, len(batch))
	for i := range batch {
		ref := batch[i].After.Ref()
		if seen[ref] {
			// PostgreSQL would apply one of the two and log both.
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
		if batch[i].Letter != nil || batch[i].Run != nil || batch[i].Steer != nil {
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
	if !slices.ContainsFunc(batch, func(c saga.Change) bool { return !isOnward(&c) }) {
		args, err = onwardColumns(db, batch)
		return commitOnward.Text, args, err
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

// onwardColumns returns commitOnward's arguments.
func onwardColumns(db *postgres.DB, batch []saga.Change) ([]any, error) {
	b := changeBatch{
		heads: onwardChange.Batch(len(batch)), logs: onwardLog.Batch(len(batch)),
		events: &eventBatch{Batch: onwardEvent.Batch(2 * len(batch))},
	}
	for i := range batch {
		if err := b.add(db, &batch[i]); err != nil {
			return nil, err
		}
	}
	return commitOnward.Args(b.heads, b.logs, b.events), nil
}

// movedSagas returns the sagas whose changes were written, and sets the deadlines of their compensations in batch.
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
