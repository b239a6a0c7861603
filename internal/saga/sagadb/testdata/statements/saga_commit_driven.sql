
WITH locked AS MATERIALIZED (
	SELECT c.* FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bool[], $10::bigint[], $11::bigint[], $12::timestamptz[], $13::text[], $14::text[], $15::bool[], $16::bool[], $17::text[], $18::bigint[], $19::bool[], $20::bool[], $21::timestamptz[], $22::timestamptz[], $23::timestamptz[], $24::timestamptz[], $25::timestamptz[], $26::uuid[]) AS c (id, was, epoch_was, version, state, current_step, attempt, failures, uncertain, owner, epoch, next_run_at, error, end_cause, clean, attention, attention_reason, comp_ms, comp_starts, comp_expired, timed_out_at, cancel_at, started_at, completed_at, updated_at, tenant_id)
	  JOIN saga.saga_states s ON s.id = c.id AND s.tenant_id = c.tenant_id
	 WHERE s.version = c.was AND s.lease_epoch = c.epoch_was
	 ORDER BY s.id, s.tenant_id
	   FOR UPDATE OF s
), moved AS (
	UPDATE saga.saga_states s
	   SET
	       version = l.version, state = l.state, current_step = l.current_step,
	       step_attempt = l.attempt, step_failures = l.failures, step_uncertain = l.uncertain,
	       lease_owner = l.owner,
	       lease_epoch = l.epoch,
	       next_run_at = CASE WHEN l.next_run_at = s.next_run_at THEN s.next_run_at
	                          ELSE CASE WHEN abs(extract(epoch FROM now() - l.updated_at)) < 5 THEN l.next_run_at
	                         ELSE now() + (l.next_run_at - l.updated_at) END END,
	       error = l.error::jsonb, end_cause = l.end_cause, clean = l.clean,
	       needs_attention = l.attention, attention_reason = l.attention_reason,
	       compensation_timeout_ms = l.comp_ms, compensation_expired = l.comp_expired,
	       compensation_timeout_at = CASE WHEN l.comp_starts THEN now() + l.comp_ms * interval '1 ms'
	                                      ELSE s.compensation_timeout_at END,
	       timed_out_at = l.timed_out_at, cancel_requested_at = l.cancel_at,
	       started_at = l.started_at, completed_at = l.completed_at, updated_at = l.updated_at
	  FROM locked l
	 WHERE s.id = l.id AND s.tenant_id = l.tenant_id
	RETURNING s.id, s.tenant_id, CASE WHEN l.comp_starts THEN s.compensation_timeout_at END AS undo_until
), logged AS (
	INSERT INTO saga.saga_step_logs (id, saga_id, tenant_id, step_index, step_name, action, attempt, status, final, outcome_code, request_payload, request_parts, response_payload, error, started_at, completed_at, duration_ms, updated_at)
	SELECT id, saga_id, tenant_id, step_index, step_name, action, attempt, status, final, outcome_code, request_payload::jsonb, request_parts, response_payload::jsonb, error::jsonb, started_at, completed_at, duration_ms, updated_at
	  FROM unnest($27::uuid[], $28::uuid[], $29::uuid[], $30::bigint[], $31::text[], $32::text[], $33::bigint[], $34::text[], $35::bool[], $36::text[], $37::text[], $38::bytea[], $39::text[], $40::text[], $41::timestamptz[], $42::timestamptz[], $43::bigint[], $44::timestamptz[]) AS g (id, saga_id, tenant_id, step_index, step_name, action, attempt, status, final, outcome_code, request_payload, request_parts, response_payload, error, started_at, completed_at, duration_ms, updated_at)
	 WHERE ((g.saga_id, g.tenant_id) IN (SELECT id, tenant_id FROM moved)) IS TRUE
), told AS (
	INSERT INTO saga.audit_events (saga_id, tenant_id, event_type, step_index, step_name, attempt, timestamp, event_data, old_state, new_state, error, actor, request_id, trace_id, span_id, digest)
	SELECT saga_id, tenant_id, event_type, step_index, step_name, attempt, timestamp, event_data::jsonb, old_state, new_state, error::jsonb, actor, request_id, trace_id, span_id, digest
	  FROM unnest($45::uuid[], $46::uuid[], $47::text[], $48::bigint[], $49::text[], $50::bigint[], $51::timestamptz[], $52::text[], $53::bigint[], $54::bigint[], $55::text[], $56::text[], $57::text[], $58::text[], $59::text[], $60::bytea[]) AS e (saga_id, tenant_id, event_type, step_index, step_name, attempt, timestamp, event_data, old_state, new_state, error, actor, request_id, trace_id, span_id, digest)
	 WHERE ((e.saga_id, e.tenant_id) IN (SELECT id, tenant_id FROM moved)) IS TRUE
)
SELECT id, tenant_id, undo_until FROM moved