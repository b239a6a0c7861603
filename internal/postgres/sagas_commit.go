package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// commitSagas writes a batch of changes in one statement, so in one transaction.
// Each parameter is one column of the batch (decision 0005).
//
// locked finds the rows whose version and epoch still match and locks them in
// id and tenant order: two nodes with the same sagas in opposite order deadlocked once the
// planner used the index (40P01, 3 of 120 runs on 200,000 rows); small tables
// never show it. What belongs to a change is joined to it by a hashed subplan:
// IS TRUE keeps the planner from making a join of it, which without hash joins
// would cost the square of the batch. A RUNNING row is told by its missing end,
// because its status has an index: the planner read all rows of that status.
var commitSagas = commitStatement(operatedColumns{})

// commitOperated is commitSagas for a batch with a change of an operator, or
// one that stores a declared output: four columns more, NULL for all others.
// Two statements, because nearly no change has any of them (decision 0023).
var commitOperated = commitStatement(operatedColumns{
	arrays: ",\n\t\t$68::bool[], $69::bigint[], $70::text[], $71::text[]",
	names:  ", suspend, deadline_ms, interventions, result",
	set: `
	       suspended_at = CASE WHEN l.suspend THEN now() WHEN l.suspend IS NULL THEN s.suspended_at END,
	       timeout_at = CASE WHEN l.state IN (0, 1, 2) AND l.deadline_ms IS NOT NULL THEN now() + l.deadline_ms * interval '1 ms' ELSE s.timeout_at END,
	       interventions = coalesce(l.interventions::jsonb, s.interventions),
	       result_data = coalesce(l.result::jsonb, s.result_data),`,
	undoing: `WHEN l.state = 4 AND l.deadline_ms IS NOT NULL THEN now() + l.deadline_ms * interval '1 ms' `,
})

// operatedColumns is what commitOperated has beyond commitSagas.
type operatedColumns struct{ arrays, names, set, undoing string }

func commitStatement(c operatedColumns) string {
	return fmt.Sprintf(commitTemplate, c.arrays, c.names, c.set, c.undoing, insertEvents(50), dueAt("l.next_run_at", "l.updated_at"))
}

// dueAt is a time that a change or a new saga waits for, by the database's clock:
// the node's may be wrong, and the node gone when the saga is due. Where the two
// differ by less than five seconds, which the commit itself may take, it is the
// node's time, as the audit trail has it.
func dueAt(at, madeAt string) string {
	return fmt.Sprintf(`CASE WHEN abs(extract(epoch FROM now() - %[2]s)) < 5 THEN %[1]s ELSE now() + (%[1]s - %[2]s) END`, at, madeAt)
}

const commitTemplate = `
WITH locked AS MATERIALIZED (
	SELECT c.* FROM unnest(
		$1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
		$7::bigint[], $8::bigint[], $9::bool[], $10::bigint[], $11::bigint[], $12::timestamptz[],
		$13::text[], $14::text[], $15::bool[], $16::bool[], $17::text[],
		$18::bigint[], $19::bool[], $20::bool[], $21::timestamptz[], $22::timestamptz[],
		$23::timestamptz[], $24::timestamptz[], $25::timestamptz[], $26::bool[], $66::uuid[]%[1]s) AS c (
		id, was, epoch_was, version, state, current_step,
		attempt, failures, uncertain, owner, epoch, next_run_at,
		error, end_cause, clean, attention, attention_reason,
		comp_ms, comp_starts, comp_expired, timed_out_at, cancel_at,
		started_at, completed_at, updated_at, keyed, tenant_id%[2]s)
	  JOIN saga.saga_states s ON s.id = c.id AND s.tenant_id = c.tenant_id
	 WHERE s.version = c.was AND s.lease_epoch = c.epoch_was
	 ORDER BY s.id, s.tenant_id
	   FOR UPDATE OF s
), keys AS (
	INSERT INTO saga.idempotency_keys (saga_id, tenant_id, principal, route, key, request_hash)
	SELECT * FROM unnest($27::uuid[], $28::uuid[], $29::text[], $30::text[], $31::text[], $32::bytea[]) AS k (id, tenant, principal, route, key, hash)
	 WHERE ((k.id, k.tenant) IN (SELECT id, tenant_id FROM locked)) IS TRUE
	 ORDER BY k.tenant, k.principal, k.route, k.key
	ON CONFLICT DO NOTHING
	RETURNING saga_id, tenant_id
), moved AS (
	UPDATE saga.saga_states s
	   SET%[3]s version = l.version, state = l.state, current_step = l.current_step,
	       step_attempt = l.attempt, step_failures = l.failures, step_uncertain = l.uncertain,
	       lease_owner = l.owner, lease_epoch = l.epoch, next_run_at = CASE WHEN l.next_run_at = s.next_run_at THEN s.next_run_at ELSE %[6]s END,
	       error = l.error::jsonb, end_cause = l.end_cause, clean = l.clean,
	       needs_attention = l.attention, attention_reason = l.attention_reason,
	       compensation_timeout_ms = l.comp_ms, compensation_expired = l.comp_expired,
	       compensation_timeout_at = CASE WHEN l.comp_starts THEN now() + l.comp_ms * interval '1 ms' %[4]sELSE s.compensation_timeout_at END,
	       timed_out_at = l.timed_out_at, cancel_requested_at = l.cancel_at,
	       started_at = l.started_at, completed_at = l.completed_at, updated_at = l.updated_at
	  FROM locked l
	 WHERE s.id = l.id AND s.tenant_id = l.tenant_id AND (NOT l.keyed OR (l.id, l.tenant_id) IN (SELECT saga_id, tenant_id FROM keys))
	RETURNING s.id, s.tenant_id
), logs AS MATERIALIZED (
	SELECT * FROM unnest(
		$33::uuid[], $34::uuid[], $35::bigint[], $36::text[], $37::text[], $38::bigint[], $39::text[], $40::bool[], $41::text[],
		$42::text[], $43::text[], $44::text[], $45::timestamptz[], $46::timestamptz[], $47::bigint[], $48::timestamptz[], $49::bool[], $67::uuid[]) AS g (
		id, saga_id, step, name, action, attempt, status, final, outcome,
		request, response, error, started_at, completed_at, ms, updated_at, completes, tenant_id)
	 WHERE ((g.saga_id, g.tenant_id) IN (SELECT id, tenant_id FROM moved)) IS TRUE
), logged AS (
	INSERT INTO saga.saga_step_logs (id, saga_id, tenant_id, step_index, step_name, action, attempt, status, final, outcome_code,
	       request_payload, response_payload, error, started_at, completed_at, duration_ms, updated_at)
	SELECT id, saga_id, tenant_id, step, name, action, attempt, status, final, outcome,
	       request::jsonb, response::jsonb, error::jsonb, started_at, completed_at, ms, updated_at
	  FROM logs WHERE NOT completes
), closed AS (
	UPDATE saga.saga_step_logs t
	   SET status = g.status, final = g.final, outcome_code = g.outcome, request_payload = g.request::jsonb,
	       response_payload = g.response::jsonb, error = g.error::jsonb, completed_at = g.completed_at, duration_ms = g.ms, updated_at = g.updated_at
	  FROM logs g
	 WHERE g.completes AND t.saga_id = g.saga_id AND t.tenant_id = g.tenant_id AND t.step_index = g.step AND t.action = g.action AND t.attempt = g.attempt
	   AND t.completed_at IS NULL
), told AS (%[5]s WHERE ((e.saga_id, e.tenant_id) IN (SELECT id, tenant_id FROM moved)) IS TRUE
)
SELECT id, tenant_id FROM moved`

// changeColumns makes the statement and its parameters, in the order of its lists.
func changeColumns(db *DB, batch []saga.Change) (query string, args []any, err error) {
	var head [26]column
	var tenants [2]column // of the heads, of the logs
	var more [4]column
	operated := slices.ContainsFunc(batch, func(c saga.Change) bool { return c.Operated != nil })
	var keys [6]column
	var logs [17]column
	var events eventColumns
	for i := range batch {
		c := &batch[i]
		s := &c.After.Saga
		head[0].uuid(s.ID)
		tenants[0].uuid(s.Tenant.ID)
		head[1].int(c.Before.Version)
		head[2].int(c.Before.Epoch)
		head[3].int(s.Version)
		head[4].int(int64(s.State))
		head[5].int(int64(s.CurrentStep))
		head[6].int(int64(s.Attempt))
		head[7].int(int64(s.Failures))
		head[8].bool(s.Uncertain)
		head[9].intOrNull(s.LeaseOwner)
		head[10].int(s.LeaseEpoch)
		head[11].timeOrNull(s.NextRunAt)
		place := db.keys.SealerFor(s.Tenant.ID, s.ID)
		if err := sealedError(&head[12], &place, fieldError, s.Error); err != nil {
			return "", nil, err
		}
		head[13].textOrNull((*string)(s.EndCause))
		head[14].boolOrNull(s.Clean)
		head[15].bool(s.NeedsAttention)
		head[16].textOrNull(s.AttentionReason)
		head[17].intOrNull(s.CompensationTimeoutMS)
		head[18].bool(c.StartsCompensation)
		head[19].bool(s.CompensationExpired)
		head[20].timeOrNull(s.TimedOutAt)
		head[21].timeOrNull(s.CancelRequestedAt)
		head[22].timeOrNull(s.StartedAt)
		head[23].timeOrNull(s.CompletedAt)
		head[24].time(s.UpdatedAt)
		head[25].bool(c.Key != nil)
		if c.Key != nil {
			keyColumns(&keys, s.ID, c.Key)
		}
		for j := range c.Logs {
			tenants[1].uuid(s.Tenant.ID)
			if err := logColumnsOf(&logs, &place, s.ID, &c.Logs[j]); err != nil {
				return "", nil, err
			}
		}
		for j := range c.Audit {
			if err := addEvent(db, &events, &c.Audit[j]); err != nil {
				return "", nil, err
			}
		}
		if operated {
			if err := operatedColumnsOf(&more, &place, c); err != nil {
				return "", nil, err
			}
		}
	}
	if operated {
		return commitOperated, parameters(head[:], keys[:], logs[:], events.columns[:], tenants[:], more[:]), nil
	}
	return commitSagas, parameters(head[:], keys[:], logs[:], events.columns[:], tenants[:]), nil
}

func operatedColumnsOf(c *[4]column, place *envelope.Sealer, change *saga.Change) error {
	o := change.Operated
	if o == nil {
		o = &saga.Operated{}
	}
	c[0].boolOrNull(o.Suspend)
	c[1].intOrNull(o.DeadlineInMS)
	var doc, result []byte
	if o.Interventions {
		kept, err := sealInterventions(place, change.After.Interventions)
		if err != nil {
			return err
		}
		if doc, err = json.Marshal(kept); err != nil {
			return fmt.Errorf("encode interventions: %w", err)
		}
	}
	if o.Result {
		result = change.After.Result
	}
	c[2].json(doc)
	return c[3].sealed(place, fieldResult, result)
}

func keyColumns(c *[6]column, id uuid.UUID, k *saga.IdempotencyKey) {
	c[0].uuid(id)
	c[1].uuid(k.TenantID)
	c[2].text(k.Principal)
	c[3].text(k.Route)
	c[4].text(k.Key)
	c[5].bytes(k.Hash)
}

func logColumnsOf(c *[17]column, place *envelope.Sealer, id uuid.UUID, l *saga.StepLog) error {
	c[0].uuid(l.ID)
	c[1].uuid(id)
	c[2].int(int64(l.StepIndex))
	c[3].text(l.StepName)
	c[4].text(string(l.Action))
	c[5].int(int64(l.Attempt))
	c[6].text(string(l.Status))
	c[7].bool(l.Final)
	c[8].textOrNull(l.Outcome)
	if err := c[9].sealed(place, logField(fieldRequest, l), l.Request); err != nil {
		return err
	}
	if err := c[10].sealed(place, logField(fieldResponse, l), l.Response); err != nil {
		return err
	}
	err := sealedError(&c[11], place, logField(fieldLogError, l), l.Error)
	c[12].time(l.StartedAt)
	c[13].timeOrNull(l.CompletedAt)
	c[14].intOrNull(l.DurationMS)
	c[15].time(l.UpdatedAt)
	c[16].bool(l.Completes)
	return err
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
	moved, err := retryCollision(func() (map[saga.Ref]bool, error) { return st.update(ctx, batch) })
	switch {
	case err == nil:
	case dataError(err) && len(batch) > 1:
		return oneByOne(batch, func(one []saga.Change) ([]error, error) { return st.Commit(ctx, one) })
	case violates(err, businessKeyIndex):
		return st.whyNotReopened(ctx, &batch[0])
	case dataError(err):
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
	rows, err := st.db.queryWrite(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return movedSagas(rows, len(batch))
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
