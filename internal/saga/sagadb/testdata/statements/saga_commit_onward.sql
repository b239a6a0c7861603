
WITH locked AS MATERIALIZED (
	SELECT c.* FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bool[], $11::bigint[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[], $15::uuid[]) AS c (id, was, epoch_was, version, state, current_step, attempt, owner, epoch, clean, comp_ms, started_at, completed_at, updated_at, tenant_id)
	  JOIN saga.saga_states s ON s.id = c.id AND s.tenant_id = c.tenant_id
	 WHERE s.version = c.was AND s.lease_epoch = c.epoch_was
	 ORDER BY s.id, s.tenant_id
	   FOR UPDATE OF s
), moved AS (
	UPDATE saga.saga_states s
	   SET
	       version = l.version, state = l.state, current_step = l.current_step,
	       step_attempt = l.attempt, step_failures = 0, step_uncertain = false,
	       lease_owner = l.owner, lease_epoch = l.epoch, next_run_at = NULL,
	       error = NULL, end_cause = NULL, clean = l.clean,
	       needs_attention = false, attention_reason = NULL,
	       compensation_timeout_ms = l.comp_ms, compensation_expired = false,
	       timed_out_at = NULL, cancel_requested_at = NULL,
	       started_at = l.started_at, completed_at = l.completed_at, updated_at = l.updated_at
	  FROM locked l
	 WHERE s.id = l.id AND s.tenant_id = l.tenant_id
	RETURNING s.id, s.tenant_id, NULL::timestamptz AS undo_until
), logged AS (
	INSERT INTO saga.saga_step_logs (id, saga_id, tenant_id, step_index, step_name, action, attempt, status, final, outcome_code, request_payload, request_parts, response_payload, started_at, completed_at, duration_ms, updated_at)
	SELECT id, saga_id, tenant_id, step_index, step_name, action, attempt, status, final, outcome_code, request_payload::jsonb, request_parts, response_payload::jsonb, started_at, completed_at, duration_ms, updated_at
	  FROM unnest($16::uuid[], $17::uuid[], $18::uuid[], $19::bigint[], $20::text[], $21::text[], $22::bigint[], $23::text[], $24::bool[], $25::text[], $26::text[], $27::bytea[], $28::text[], $29::timestamptz[], $30::timestamptz[], $31::bigint[], $32::timestamptz[]) AS g (id, saga_id, tenant_id, step_index, step_name, action, attempt, status, final, outcome_code, request_payload, request_parts, response_payload, started_at, completed_at, duration_ms, updated_at)
	 WHERE ((g.saga_id, g.tenant_id) IN (SELECT id, tenant_id FROM moved)) IS TRUE
), told AS (
	INSERT INTO saga.audit_events (saga_id, tenant_id, event_type, step_index, step_name, attempt, timestamp, old_state, new_state, trace_id, span_id, digest)
	SELECT saga_id, tenant_id, event_type, step_index, step_name, attempt, timestamp, old_state, new_state, trace_id, span_id, digest
	  FROM unnest($33::uuid[], $34::uuid[], $35::text[], $36::bigint[], $37::text[], $38::bigint[], $39::timestamptz[], $40::bigint[], $41::bigint[], $42::text[], $43::text[], $44::bytea[]) AS e (saga_id, tenant_id, event_type, step_index, step_name, attempt, timestamp, old_state, new_state, trace_id, span_id, digest)
	 WHERE ((e.saga_id, e.tenant_id) IN (SELECT id, tenant_id FROM moved)) IS TRUE
)
SELECT id, tenant_id, undo_until FROM moved