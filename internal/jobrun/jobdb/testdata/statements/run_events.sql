
	INSERT INTO jobs.job_run_events (run_id, tenant_id, at, kind, from_state, to_state, version, attempt, epoch, worker_id, actor, reason)
	SELECT run_id, tenant_id, at, kind, from_state, to_state, version, attempt, epoch, worker_id, actor, reason
	  FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[], $10::uuid[], $11::text[], $12::text[]) AS e (run_id, tenant_id, at, kind, from_state, to_state, version, attempt, epoch, worker_id, actor, reason)