package sagadb

import (
	"slices"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// narrow is a statement that writes the same as commitSagas, for changes that lack some of its
// parts. It has fewer parameters and leaves out the parts for idempotency keys and for logs of slow
// calls that are completed. The work that PostgreSQL does before the first row is half the cost of
// a small batch (decision 0092).
type narrow struct {
	*postgres.Statement
	heads  *postgres.Table[changeRow]
	logs   *postgres.Table[logRow]
	events *postgres.Table[eventRow]
}

// commitOnward is for batches in which every change is the usual one: a call succeeded, and its
// saga continues or completes. Its tables lack the columns that are empty whenever isOnward holds.
var commitOnward = newNarrow(
	changeTable.Without("failures", "uncertain", "next_run_at", "error", "end_cause", "attention",
		"attention_reason", "comp_starts", "comp_expired", "timed_out_at", "cancel_at", "keyed"),
	logTable.Without("error", "completes"),
	eventTable.Without("event_data", "error", "actor", "request_id"), `
	       version = l.version, state = l.state, current_step = l.current_step,
	       step_attempt = l.attempt, step_failures = 0, step_uncertain = false,
	       lease_owner = l.owner, lease_epoch = l.epoch, next_run_at = NULL,
	       error = NULL, end_cause = NULL, clean = l.clean,
	       needs_attention = false, attention_reason = NULL,
	       compensation_timeout_ms = l.comp_ms, compensation_expired = false,
	       timed_out_at = NULL, cancel_requested_at = NULL,
	       started_at = l.started_at, completed_at = l.completed_at, updated_at = l.updated_at`,
	"NULL::timestamptz AS undo_until")

// commitDriven is for batches of common changes: steps that were done, refused, retried or undone,
// ends of any kind, and the flags of cancels and deadlines.
var commitDriven = newNarrow(changeTable.Without("keyed"), logTable.Without("completes"), eventTable,
	changedHead(""), undoUntil)

func newNarrow(heads *postgres.Table[changeRow], logs *postgres.Table[logRow], events *postgres.Table[eventRow],
	set, until string) *narrow {
	c, g, e := heads.As("c"), logs.As("g"), events.As("e")
	return &narrow{heads: heads, logs: logs, events: events, Statement: postgres.Named(`
WITH locked AS MATERIALIZED (
	SELECT c.* FROM `+postgres.Unnest("c", c)+`
	  JOIN saga.saga_states s ON s.id = c.id AND s.tenant_id = c.tenant_id
	 WHERE s.version = c.was AND s.lease_epoch = c.epoch_was
	 ORDER BY s.id, s.tenant_id
	   FOR UPDATE OF s
), moved AS (
	UPDATE saga.saga_states s
	   SET`+set+`
	  FROM locked l
	 WHERE s.id = l.id AND s.tenant_id = l.tenant_id
	RETURNING s.id, s.tenant_id, `+until+`
), logged AS (
	INSERT INTO saga.saga_step_logs (`+logs.Inserted()+`)
	SELECT `+logs.Stored("")+`
	  FROM `+postgres.Unnest("g", g)+`
	 WHERE ((g.saga_id, g.tenant_id) IN (SELECT id, tenant_id FROM moved)) IS TRUE
), told AS (
	INSERT INTO saga.audit_events (`+events.Inserted()+`)
	SELECT `+events.Stored("")+`
	  FROM `+postgres.Unnest("e", e)+`
	 WHERE ((e.saga_id, e.tenant_id) IN (SELECT id, tenant_id FROM moved)) IS TRUE
)
SELECT id, tenant_id, undo_until FROM moved`, c, g, e)}
}

// columns returns the arguments for a batch.
func (n *narrow) columns(db *postgres.DB, batch []saga.Change) ([]any, error) {
	b := changeBatch{
		heads: n.heads.Batch(len(batch)), logs: n.logs.Batch(len(batch)),
		events: &eventBatch{Batch: n.events.Batch(2 * len(batch))},
	}
	for i := range batch {
		if err := b.add(db, &batch[i]); err != nil {
			return nil, err
		}
	}
	return n.Args(b.heads, b.logs, b.events), nil
}

// narrowest returns the narrowest statement that can write the whole batch, or nil if there is
// none.
func narrowest(batch []saga.Change) *narrow {
	n := commitOnward
	for i := range batch {
		switch c := &batch[i]; {
		case !isDriven(c):
			return nil
		case n == commitOnward && !isOnward(c):
			n = commitDriven
		}
	}
	return n
}

// isDriven reports whether commitDriven can write the whole change.
func isDriven(c *saga.Change) bool {
	return c.Key == nil && c.Operated == nil &&
		!slices.ContainsFunc(c.Logs, func(l saga.StepLog) bool { return l.Completes })
}

// isOnward reports whether commitOnward can write the whole change, given that commitDriven can.
func isOnward(c *saga.Change) bool {
	s := &c.After.Saga
	return !c.StartsCompensation && s.NextRunAt == nil &&
		s.Failures == 0 && !s.Uncertain && s.Error == nil && s.EndCause == nil &&
		!s.NeedsAttention && s.AttentionReason == nil && !s.CompensationExpired &&
		s.TimedOutAt == nil && s.CancelRequestedAt == nil &&
		!slices.ContainsFunc(c.Logs, func(l saga.StepLog) bool { return l.Error != nil }) &&
		!slices.ContainsFunc(c.Audit, func(e saga.AuditEvent) bool {
			return e.Data != nil || e.Error != nil || e.Actor != "" || e.RequestID != ""
		})
}
