
SELECT l.id, l.saga_id, l.tenant_id, l.step_index, l.step_name, l.action, l.attempt, l.status, l.final, l.outcome_code, l.request_payload, l.request_parts, l.response_payload, l.error, l.started_at, l.completed_at, l.duration_ms, l.updated_at FROM saga.saga_step_logs l
 WHERE l.saga_id = ANY ($1) AND ((l.saga_id, l.tenant_id) IN (SELECT m.id, m.tenant_id FROM unnest($1::uuid[], $2::uuid[]) AS m (id, tenant_id))) IS TRUE
 ORDER BY l.step_index, l.started_at, l.attempt