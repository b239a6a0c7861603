
WITH runnable AS MATERIALIZED (
	SELECT c.* FROM unnest($1::uuid[], $2::uuid[], $3::bool[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::bigint[], $10::bool[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::text[], $21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[], $25::timestamptz[], $26::bigint[], $27::bigint[], $28::timestamptz[], $29::timestamptz[], $30::bool[]) AS c (id, tenant_id, tenant_in_keys, tenant_region, tenant_major, tenant_minor, saga_type, workflow_name, workflow_version, floating, name, description, business_key, correlation_id, initiated_by, trace_id, span_id, payload, metadata, retry_policy, total_steps, step_attempt, lease_owner, lease_epoch, next_run_at, timeout_ms, compensation_timeout_ms, created_at, started_at, keyed)
	  JOIN saga.workflows w ON w.tenant_id = c.tenant_id AND w.name = c.workflow_name
	 WHERE w.enabled AND (NOT c.floating OR w.latest_version = c.workflow_version)
	   AND (SELECT a.id
	          FROM saga.saga_states_archive a
	         WHERE a.id = c.id AND a.tenant_id = c.tenant_id) IS NULL -- NOT EXISTS would be a join, of the whole archive
	   AND (c.business_key IS NULL OR (SELECT o.id FROM saga.saga_states o WHERE o.tenant_id = c.tenant_id AND o.workflow_name = c.workflow_name AND o.business_key = c.business_key AND o.business_key IS NOT NULL AND o.completed_at IS NULL) IS NULL)
), keys AS (
	INSERT INTO saga.idempotency_keys (saga_id, tenant_id, principal, route, key, request_hash)
	SELECT * FROM unnest($31::uuid[], $32::uuid[], $33::text[], $34::text[], $35::text[], $36::bytea[]) AS k (id, tenant, principal, route, key, hash)
	 WHERE ((k.id, k.tenant) IN (SELECT id, tenant_id FROM runnable)) IS TRUE
	 ORDER BY k.tenant, k.principal, k.route, k.key
	ON CONFLICT DO NOTHING
	RETURNING saga_id, tenant_id
), stored AS (
	INSERT INTO saga.saga_states (id, tenant_id, tenant_in_keys, tenant_region, tenant_major, tenant_minor, saga_type, workflow_name, workflow_version, name, description, business_key, correlation_id, initiated_by, trace_id, span_id, payload, metadata, retry_policy, total_steps, step_attempt, lease_owner, lease_epoch, next_run_at, timeout_ms, compensation_timeout_ms, timeout_at, created_at, started_at, updated_at)
SELECT id, tenant_id, tenant_in_keys, tenant_region, tenant_major, tenant_minor, saga_type, workflow_name, workflow_version, name, description, business_key, correlation_id, initiated_by, trace_id, span_id, payload::jsonb, metadata::jsonb, retry_policy::jsonb, total_steps, step_attempt, lease_owner, lease_epoch, CASE WHEN abs(extract(epoch FROM now() - created_at)) < 5 THEN next_run_at
	                         ELSE now() + (next_run_at - created_at) END, timeout_ms, compensation_timeout_ms, now() + timeout_ms * interval '1 ms', created_at, started_at, created_at
  FROM runnable
 WHERE NOT keyed OR (id, tenant_id) IN (SELECT saga_id, tenant_id FROM keys)
RETURNING id, tenant_id, timeout_at
), told AS (
	INSERT INTO saga.audit_events (saga_id, tenant_id, event_type, step_index, step_name, attempt, timestamp, event_data, old_state, new_state, error, actor, request_id, trace_id, span_id, digest)
	SELECT saga_id, tenant_id, event_type, step_index, step_name, attempt, timestamp, event_data::jsonb, old_state, new_state, error::jsonb, actor, request_id, trace_id, span_id, digest
	  FROM unnest($37::uuid[], $38::uuid[], $39::text[], $40::bigint[], $41::text[], $42::bigint[], $43::timestamptz[], $44::text[], $45::bigint[], $46::bigint[], $47::text[], $48::text[], $49::text[], $50::text[], $51::text[], $52::bytea[]) AS e (saga_id, tenant_id, event_type, step_index, step_name, attempt, timestamp, event_data, old_state, new_state, error, actor, request_id, trace_id, span_id, digest) WHERE ((e.saga_id, e.tenant_id) IN (SELECT id, tenant_id FROM stored)) IS TRUE
)
SELECT id, tenant_id, timeout_at FROM stored