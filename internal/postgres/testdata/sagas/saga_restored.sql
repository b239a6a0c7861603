
	INSERT INTO saga.audit_events (saga_id, tenant_id, event_type, step_index, step_name, attempt, timestamp, event_data,
	       old_state, new_state, error, actor, request_id, trace_id, span_id, digest)
	SELECT saga_id, tenant_id, event_type, step_index, step_name, attempt, at, data::jsonb,
	       old_state, new_state, error::jsonb, actor, request_id, trace_id, span_id, digest
	  FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::timestamptz[], $8::text[], $9::bigint[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::bytea[]) AS e (
	       saga_id, tenant_id, event_type, step_index, step_name, attempt, at, data,
	       old_state, new_state, error, actor, request_id, trace_id, span_id, digest)