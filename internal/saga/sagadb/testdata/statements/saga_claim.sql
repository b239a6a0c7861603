
WITH RECURSIVE dead AS MATERIALIZED (
	SELECT id
	  FROM saga.engine_nodes
	 WHERE lease_until <= now() AND id <> $1 -- a node that has lost its own lease would take the same ones again and again
), later AS ( -- tenants with unowned sagas and the first due time of each, after $3
	SELECT f.tenant_id, f.next_run_at
	  FROM (SELECT s.tenant_id, s.next_run_at
	  FROM saga.saga_states s
	 WHERE s.completed_at IS NULL AND s.lease_owner IS NULL AND s.tenant_id > (SELECT $3::uuid) ORDER BY s.lease_owner, s.tenant_id, s.next_run_at NULLS FIRST LIMIT 1) f
	UNION ALL
	SELECT n.tenant_id, n.next_run_at
	  FROM later t
	 CROSS JOIN LATERAL (SELECT s.tenant_id, s.next_run_at
	  FROM saga.saga_states s
	 WHERE s.completed_at IS NULL AND s.lease_owner IS NULL AND s.tenant_id > t.tenant_id ORDER BY s.lease_owner, s.tenant_id, s.next_run_at NULLS FIRST LIMIT 1) n
), earlier AS ( -- and those up to $3
	SELECT f.tenant_id, f.next_run_at
	  FROM (SELECT s.tenant_id, s.next_run_at
	  FROM saga.saga_states s
	 WHERE s.completed_at IS NULL AND s.lease_owner IS NULL AND s.tenant_id <= (SELECT $3::uuid) ORDER BY s.lease_owner, s.tenant_id, s.next_run_at NULLS FIRST LIMIT 1) f
	UNION ALL
	SELECT n.tenant_id, n.next_run_at
	  FROM earlier t
	 CROSS JOIN LATERAL (SELECT s.tenant_id, s.next_run_at
	  FROM saga.saga_states s
	 WHERE s.completed_at IS NULL AND s.lease_owner IS NULL
	                     AND s.tenant_id > t.tenant_id
	                     AND s.tenant_id <= (SELECT $3::uuid) ORDER BY s.lease_owner, s.tenant_id, s.next_run_at NULLS FIRST LIMIT 1) n
), turns AS MATERIALIZED (
	SELECT t.tenant_id FROM (
		SELECT tenant_id
		  FROM later
		 WHERE next_run_at <= now()
		 UNION ALL
		 SELECT tenant_id
		  FROM earlier
		 WHERE next_run_at <= now()
	) t LIMIT $2
), waiting AS MATERIALIZED (
	SELECT w.id, w.tenant_id, false AS taken FROM turns t CROSS JOIN LATERAL (
		SELECT s.id, s.tenant_id FROM saga.saga_states s
		 WHERE s.completed_at IS NULL
		   AND s.suspended_at IS NULL
		   AND s.lease_owner IS NULL
		   AND s.tenant_id = t.tenant_id
		   AND s.next_run_at <= now()
		 ORDER BY s.lease_owner, s.next_run_at NULLS FIRST
		 LIMIT (SELECT ($2 + count(*) - 1) / greatest(count(*), 1) FROM turns) FOR UPDATE SKIP LOCKED) w
	 LIMIT $2
), estates AS MATERIALIZED ( -- dead nodes and the tenants whose sagas they left behind
	SELECT d.id AS owner, t.tenant_id FROM dead d CROSS JOIN LATERAL (
		WITH RECURSIVE heirs AS (
			SELECT f.tenant_id FROM (SELECT s.tenant_id FROM saga.saga_states s WHERE s.completed_at IS NULL AND s.lease_owner = d.id ORDER BY s.lease_owner, s.tenant_id, s.next_run_at NULLS FIRST LIMIT 1) f
			UNION ALL
			SELECT n.tenant_id
			  FROM heirs t
			 CROSS JOIN LATERAL (SELECT s.tenant_id FROM saga.saga_states s WHERE s.completed_at IS NULL AND s.lease_owner = d.id AND s.tenant_id > t.tenant_id ORDER BY s.lease_owner, s.tenant_id, s.next_run_at NULLS FIRST LIMIT 1) n
		) SELECT tenant_id FROM heirs) t
	 ORDER BY t.tenant_id <= (SELECT $3::uuid), t.tenant_id LIMIT $2
), left_behind AS MATERIALIZED (
	SELECT o.id, o.tenant_id, true AS taken FROM estates d CROSS JOIN LATERAL (
		SELECT s.id, s.tenant_id, s.version FROM saga.saga_states s
		 WHERE s.completed_at IS NULL AND s.suspended_at IS NULL AND s.lease_owner = d.owner AND s.tenant_id = d.tenant_id
		 ORDER BY s.next_run_at NULLS FIRST, s.created_at, s.id
		 LIMIT (SELECT ($2 + count(*) - 1) / greatest(count(*), 1) FROM estates) FOR UPDATE SKIP LOCKED) o
	  -- A row that its owner still changed after this statement began is locked in
	  -- its newest version, while the step log of that change is not visible here
	  -- and could not be closed: left for the next claim.
	  JOIN saga.saga_states seen ON seen.id = o.id AND seen.tenant_id = o.tenant_id AND seen.version = o.version
	 LIMIT $2
), picked AS MATERIALIZED (
	SELECT id, tenant_id, taken FROM left_behind UNION ALL SELECT id, tenant_id, taken FROM waiting LIMIT $2
), runs AS MATERIALIZED ( -- job runs go on, whichever node drives their sagas (decision 0039)
	SELECT p.id, p.tenant_id FROM picked p JOIN saga.saga_step_logs l ON l.saga_id = p.id AND l.tenant_id = p.tenant_id
	 WHERE p.taken AND l.completed_at IS NULL AND l.outcome_code = 'job_run'
), closed AS (
	UPDATE saga.saga_step_logs l
	   SET status = 'FAILED', completed_at = now(), updated_at = now(), outcome_code = 'owner_lost',
	       error = jsonb_build_object('code', 'owner_lost', 'message',
	                                  'the node that made this call was lost; the call is repeated',
	                                  'type', 'network', 'retryable', true, 'timestamp', now())
	  FROM picked p
	 WHERE p.taken
	   AND l.saga_id = p.id
	   AND l.tenant_id = p.tenant_id
	   AND l.completed_at IS NULL -- RUNNING; see commitSagas
	   AND l.outcome_code IS DISTINCT FROM 'job_run'
)
UPDATE saga.saga_states s
   SET lease_owner = $1, lease_epoch = s.lease_epoch + 1, version = s.version + 1, updated_at = now(),
       next_run_at = CASE WHEN p.taken AND s.next_run_at > now() THEN s.next_run_at END,
       started_at = coalesce(s.started_at, now()),
       step_attempt = CASE WHEN p.taken AND (s.id, s.tenant_id) NOT IN (SELECT id, tenant_id FROM runs)
                           OR s.step_attempt = 0 THEN s.step_attempt + 1 ELSE s.step_attempt END,
       step_uncertain = s.step_uncertain OR (p.taken AND (s.id, s.tenant_id) NOT IN (SELECT id, tenant_id FROM runs))
  FROM picked p
 WHERE s.id = p.id AND s.tenant_id = p.tenant_id
RETURNING s.id, s.tenant_id, s.tenant_in_keys, s.tenant_region, s.tenant_major, s.tenant_minor, s.saga_type, s.workflow_name, s.workflow_version, s.name, s.description, s.business_key, s.correlation_id, s.initiated_by, s.trace_id, s.span_id, s.tracestate, s.baggage, s.payload, s.metadata, s.retry_policy, s.interventions, s.result_data, s.state, s.current_step, s.total_steps, s.step_attempt, s.step_failures, s.step_uncertain, s.version, s.lease_owner, s.lease_epoch, s.next_run_at, s.error, s.end_cause, s.clean, s.needs_attention, s.attention_reason, s.timeout_ms, s.compensation_timeout_ms, s.timeout_at, s.compensation_timeout_at, s.compensation_expired, s.timed_out_at, s.cancel_requested_at, s.suspended_at, s.created_at, s.started_at, s.completed_at, s.updated_at