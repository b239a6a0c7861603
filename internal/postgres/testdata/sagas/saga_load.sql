SELECT s.id, s.tenant_id, s.tenant_in_keys, s.tenant_region, s.tenant_major, s.tenant_minor, s.saga_type,
	s.workflow_name, s.workflow_version, s.name, s.description, s.business_key, s.correlation_id, s.initiated_by,
	s.trace_id, s.span_id, s.payload, s.metadata, s.retry_policy, s.interventions, s.result_data, s.state, s.current_step, s.total_steps,
	s.step_attempt, s.step_failures, s.step_uncertain, s.version, s.lease_owner, s.lease_epoch, s.next_run_at,
	s.error, s.end_cause, s.clean, s.needs_attention, s.attention_reason, s.timeout_ms, s.compensation_timeout_ms,
	s.timeout_at, s.compensation_timeout_at, s.compensation_expired, s.timed_out_at, s.cancel_requested_at,
	s.suspended_at, s.created_at, s.started_at, s.completed_at, s.updated_at FROM saga.saga_states s
 WHERE s.id = ANY ($1) AND ((s.id, s.tenant_id) IN (SELECT m.id, m.tenant_id FROM unnest($1::uuid[], $2::uuid[]) AS m (id, tenant_id))) IS TRUE