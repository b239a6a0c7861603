SELECT s.* FROM (SELECT set_config('skald.tenant_id', $1::text, true)::uuid AS id OFFSET 0) AS tenant
 CROSS JOIN LATERAL (SELECT l.id, l.saga_id, l.tenant_id, l.step_index, l.step_name, l.action, l.attempt, l.status, l.final, l.outcome_code,
	l.request_payload, l.response_payload, l.error, l.started_at, l.completed_at, l.duration_ms, l.updated_at FROM saga.saga_step_logs l
 WHERE l.saga_id = $2 AND l.tenant_id = tenant.id OFFSET 0) AS s ORDER BY step_index, started_at, attempt