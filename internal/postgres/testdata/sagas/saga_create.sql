
WITH runnable AS MATERIALIZED (
	SELECT c.* FROM unnest(
		$1::uuid[], $2::uuid[], $3::text[], $4::bigint[], $5::bigint[], $6::text[],
		$7::text[], $8::bigint[], $9::bool[], $10::text[], $11::text[],
		$12::text[], $13::text[], $14::text[], $15::text[], $16::text[],
		$17::text[], $18::text[], $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[],
		$23::timestamptz[], $24::bigint[], $25::bigint[], $26::timestamptz[], $27::timestamptz[], $28::bool[], $51::text[], $52::bool[]) AS c (
		id, tenant_id, tenant_region, tenant_major, tenant_minor, saga_type,
		workflow_name, workflow_version, floating, name, description,
		business_key, correlation_id, initiated_by, trace_id, span_id,
		payload, metadata, total_steps, step_attempt, lease_owner, lease_epoch,
		next_run_at, timeout_ms, compensation_timeout_ms, created_at, started_at, keyed, retry_policy, tenant_in_keys)
	  JOIN saga.workflows w ON w.tenant_id = c.tenant_id AND w.name = c.workflow_name
	 WHERE w.enabled AND (NOT c.floating OR w.latest_version = c.workflow_version)
	   AND (SELECT a.id FROM saga.saga_states_archive a WHERE a.id = c.id AND a.tenant_id = c.tenant_id) IS NULL -- NOT EXISTS would be a join, of the whole archive
	   AND (c.business_key IS NULL OR (SELECT o.id FROM saga.saga_states o WHERE o.tenant_id = c.tenant_id AND o.workflow_name = c.workflow_name AND o.business_key = c.business_key AND o.business_key IS NOT NULL AND o.completed_at IS NULL) IS NULL)
), keys AS (
	INSERT INTO saga.idempotency_keys (saga_id, tenant_id, principal, route, key, request_hash)
	SELECT * FROM unnest($29::uuid[], $30::uuid[], $31::text[], $32::text[], $33::text[], $34::bytea[]) AS k (id, tenant, principal, route, key, hash)
	 WHERE ((k.id, k.tenant) IN (SELECT id, tenant_id FROM runnable)) IS TRUE
	 ORDER BY k.tenant, k.principal, k.route, k.key
	ON CONFLICT DO NOTHING
	RETURNING saga_id, tenant_id
), stored AS (
	INSERT INTO saga.saga_states (
	id, tenant_id, tenant_region, tenant_major, tenant_minor, saga_type, workflow_name, workflow_version,
	name, description, business_key, correlation_id, initiated_by, trace_id, span_id, payload, metadata,
	total_steps, step_attempt, lease_owner, lease_epoch, next_run_at, timeout_ms, compensation_timeout_ms,
	timeout_at, created_at, updated_at, started_at, retry_policy, tenant_in_keys)
SELECT id, tenant_id, tenant_region, tenant_major, tenant_minor, saga_type, workflow_name, workflow_version,
	name, description, business_key, correlation_id, initiated_by, trace_id, span_id, payload::jsonb, metadata::jsonb,
	total_steps, step_attempt, lease_owner, lease_epoch, CASE WHEN abs(extract(epoch FROM now() - created_at)) < 5 THEN next_run_at ELSE now() + (next_run_at - created_at) END, timeout_ms, compensation_timeout_ms,
	now() + timeout_ms * interval '1 ms', created_at, created_at, started_at, retry_policy::jsonb, tenant_in_keys
  FROM runnable
 WHERE NOT keyed OR (id, tenant_id) IN (SELECT saga_id, tenant_id FROM keys)
RETURNING id, tenant_id, timeout_at
), told AS (
	INSERT INTO saga.audit_events (saga_id, tenant_id, event_type, step_index, step_name, attempt, timestamp, event_data,
	       old_state, new_state, error, actor, request_id, trace_id, span_id, digest)
	SELECT saga_id, tenant_id, event_type, step_index, step_name, attempt, at, data::jsonb,
	       old_state, new_state, error::jsonb, actor, request_id, trace_id, span_id, digest
	  FROM unnest($35::uuid[], $36::uuid[], $37::text[], $38::bigint[], $39::text[], $40::bigint[], $41::timestamptz[], $42::text[], $43::bigint[], $44::bigint[], $45::text[], $46::text[], $47::text[], $48::text[], $49::text[], $50::bytea[]) AS e (
	       saga_id, tenant_id, event_type, step_index, step_name, attempt, at, data,
	       old_state, new_state, error, actor, request_id, trace_id, span_id, digest) WHERE ((e.saga_id, e.tenant_id) IN (SELECT id, tenant_id FROM stored)) IS TRUE
)
SELECT id, tenant_id, timeout_at FROM stored