package sagadb

import (
	"encoding/json"
	"fmt"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// changedHead returns the assignments that a change makes to its saga's row, from the row l of the
// batch. undoing adds cases to the deadline of the compensation.
func changedHead(undoing string) string {
	return `
	       version = l.version, state = l.state, current_step = l.current_step,
	       step_attempt = l.attempt, step_failures = l.failures, step_uncertain = l.uncertain,
	       lease_owner = l.owner,
	       lease_epoch = l.epoch,
	       next_run_at = CASE WHEN l.next_run_at = s.next_run_at THEN s.next_run_at
	                          ELSE ` + dueAt("l.next_run_at", "l.updated_at") + ` END,
	       error = l.error::jsonb, end_cause = l.end_cause, clean = l.clean,
	       needs_attention = l.attention, attention_reason = l.attention_reason,
	       compensation_timeout_ms = l.comp_ms, compensation_expired = l.comp_expired,
	       compensation_timeout_at = CASE WHEN l.comp_starts THEN now() + l.comp_ms * interval '1 ms'
	                                      ` + undoing + `ELSE s.compensation_timeout_at END,
	       timed_out_at = l.timed_out_at, cancel_requested_at = l.cancel_at,
	       started_at = l.started_at, completed_at = l.completed_at, updated_at = l.updated_at`
}

// undoUntil is the column that a statement returns for a written saga, to set the deadline in
// Change.After.
const undoUntil = `CASE WHEN l.comp_starts THEN s.compensation_timeout_at END AS undo_until`

// changeBatch collects the changes for one of the statements.
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

// sealOperated returns an operator's change as it is stored, sealed.
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
