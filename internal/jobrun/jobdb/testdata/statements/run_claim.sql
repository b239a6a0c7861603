
WITH e AS MATERIALIZED (
	SELECT l.epoch, CASE WHEN NOT $10::boolean THEN set_config('synchronous_commit', 'off', true) END AS durable
	  FROM jobs.leader l WHERE l.name = 'default' AND l.expires_at > clock_timestamp()
), alone AS MATERIALIZED (
	SELECT CASE WHEN $5::text <> '' THEN pg_advisory_xact_lock(hashtextextended($2::uuid::text || ' ' || $5::text, 0)) END
), w AS MATERIALIZED (
	SELECT w.id, $5 AS claim_id, w.labels, w.commands, w.queues, least($3::bigint, least(w.max_runs, $6::bigint) -
	       (SELECT count(*) FROM jobs.job_runs h WHERE h.assigned_worker_id = $2 AND h.phase = 'HELD')) AS room
	  FROM jobs.workers w
	 WHERE w.tenant_id = $1
	  AND w.id = $2
	  AND w.state = 'ACTIVE'
	  AND w.heartbeat_at > clock_timestamp() - $7 * interval '1 microsecond'
	   AND EXISTS (SELECT FROM e) AND EXISTS (SELECT FROM alone) AND NOT EXISTS (SELECT FROM jobs.claims k
	                     WHERE k.worker_id = $2 AND k.claim_id = $5)
), q AS MATERIALIZED (
	SELECT DISTINCT q.queue, w.labels, w.commands, w.room
	  FROM w
	 CROSS JOIN unnest(w.queues) AS q (queue)
	 WHERE w.room > 0 AND ($4::text[] IS NULL OR q.queue = ANY ($4::text[])) AND NOT EXISTS (SELECT FROM jobs.queues h
	 WHERE h.tenant_id = $1 AND h.name = q.queue AND h.state = 'HELD')
), front AS MATERIALIZED (
	SELECT q.queue FROM q CROSS JOIN LATERAL (
	SELECT r.id, r.priority, r.scheduled_for, r.concurrency_key
	  FROM jobs.job_runs r
	 WHERE r.tenant_id = $1
	   AND r.queue = q.queue
	   AND r.phase IN ('PENDING', 'ORPHANED')
	   AND r.admitted_at IS NOT NULL
	   AND NOT r.held
	   AND r.cancel_requested_at IS NULL
	   AND r.required_labels <@ q.labels
	   AND (q.commands = '{}' OR r.command_name = ANY (q.commands))
	   AND (r.concurrency_key IS NULL OR NOT $9 AND (SELECT o.id FROM jobs.job_runs o
	          WHERE o.tenant_id = $1
	            AND o.concurrency_key = r.concurrency_key
	            AND o.id <> r.id
	            AND o.phase IN ('HELD', 'ORPHANED')
	          LIMIT 1) IS NULL)
	 ORDER BY r.priority DESC, r.scheduled_for, r.id LIMIT q.room) AS r
	 WHERE (SELECT count(*) FROM q) > 1
	 ORDER BY r.priority DESC, r.scheduled_for, r.id LIMIT (SELECT w.room FROM w)
), places AS MATERIALIZED (
	SELECT q.queue, q.labels, q.commands, q.room FROM q WHERE (SELECT count(*) FROM q) = 1
	UNION ALL
	SELECT q.queue, q.labels, q.commands, least(q.room, (SELECT count(*) FROM front f WHERE f.queue = q.queue))
	  FROM q
	 WHERE (SELECT count(*) FROM q) > 1
), locked AS MATERIALIZED (
	SELECT r.id, r.priority, r.scheduled_for, r.concurrency_key
	  FROM places AS q CROSS JOIN LATERAL (
	SELECT r.id, r.priority, r.scheduled_for, r.concurrency_key
	  FROM jobs.job_runs r
	 WHERE r.tenant_id = $1
	   AND r.queue = q.queue
	   AND r.phase IN ('PENDING', 'ORPHANED')
	   AND r.admitted_at IS NOT NULL
	   AND NOT r.held
	   AND r.cancel_requested_at IS NULL
	   AND r.required_labels <@ q.labels
	   AND (q.commands = '{}' OR r.command_name = ANY (q.commands))
	   AND (r.concurrency_key IS NULL OR NOT $9 AND (SELECT o.id FROM jobs.job_runs o
	          WHERE o.tenant_id = $1
	            AND o.concurrency_key = r.concurrency_key
	            AND o.id <> r.id
	            AND o.phase IN ('HELD', 'ORPHANED')
	          LIMIT 1) IS NULL)
	 ORDER BY r.priority DESC, r.scheduled_for, r.id LIMIT q.room FOR NO KEY UPDATE OF r SKIP LOCKED) AS r
), chosen AS MATERIALIZED (
	SELECT l.id, $2::uuid AS worker FROM (
	SELECT l.id,
	       l.priority,
	       l.scheduled_for,
	       l.concurrency_key,
	       row_number() OVER (PARTITION BY l.concurrency_key ORDER BY l.priority DESC, l.scheduled_for, l.id) AS nth
	  FROM locked l) AS l
	 WHERE l.concurrency_key IS NULL OR l.nth = 1
), assigned AS (
	UPDATE jobs.job_runs r
	   SET state = CASE WHEN $10::boolean THEN 'RUNNING' ELSE 'ASSIGNED' END,
	       version = r.version + CASE WHEN $10::boolean THEN 2 ELSE 1 END,
	       attempt = r.attempt + 1,
	       assigned_worker_id = c.worker,
	       assigned_at = clock_timestamp(),
	       lease_token = gen_random_uuid(),
	       lease_expires_at = clock_timestamp() + $8 * interval '1 microsecond',
	       leader_epoch = e.epoch,
	       fencing_seq = nextval('jobs.fencing'),
	       started_at = CASE WHEN $10::boolean THEN clock_timestamp() END,
	       continuation_state = 'NONE',
	       continuation_check_started_at = NULL,
	       continuation_check_deadline_at = NULL, progress = NULL, updated_at = clock_timestamp()
	  FROM chosen c CROSS JOIN e
	 WHERE r.id = c.id AND r.tenant_id = $1
	RETURNING r.id, r.tenant_id, r.definition_id, r.definition_name, r.spec_version, r.command_name, r.version, r.state, r.trigger, r.scheduled_for, r.available_at, r.admitted_at, r.queue, r.priority, r.required_labels, r.labels, r.args, r.idempotency_key, r.concurrency_key, r.concurrency_policy, r.timeout_ms, r.attempt, r.failures_used, r.losses_used, r.max_losses, r.assigned_worker_id, r.assigned_at, r.lease_token, r.lease_expires_at, r.leader_epoch, r.fencing_seq, r.started_at, r.finished_at, r.continuation_state, r.continuation_check_started_at, r.continuation_check_deadline_at, r.cancel_requested_at, r.cancel_reason, r.progress, r.checkpoint, r.exit_code, r.result, r.error, r.resource_cpu_seconds_total, r.resource_peak_rss_bytes, r.resource_io_read_bytes, r.resource_io_write_bytes, r.log_bytes, r.log_ref, r.log_sha256, r.root_run_id, r.retry_of_run_id, r.retry_number, r.saga_id, r.saga_step, r.saga_action, r.event_id, r.letter_id, r.backfill_id, r.correlation_id, r.trace_id, r.tracestate, r.baggage, r.created_at, r.updated_at, r.initiated_by, r.initiated_as
), kept AS (
	INSERT INTO jobs.claims (worker_id, claim_id, tenant_id, run_ids, created_at)
	SELECT w.id, w.claim_id, $1, array_agg(r.id), clock_timestamp()
	  FROM w
	  JOIN assigned r ON r.assigned_worker_id = w.id
	 WHERE w.claim_id <> ''
	 GROUP BY w.id, w.claim_id
)
SELECT r.id, r.tenant_id, r.definition_id, r.definition_name, r.spec_version, r.command_name, r.version, r.state, r.trigger, r.scheduled_for, r.available_at, r.admitted_at, r.queue, r.priority, r.required_labels, r.labels, r.args, r.idempotency_key, r.concurrency_key, r.concurrency_policy, r.timeout_ms, r.attempt, r.failures_used, r.losses_used, r.max_losses, r.assigned_worker_id, r.assigned_at, r.lease_token, r.lease_expires_at, r.leader_epoch, r.fencing_seq, r.started_at, r.finished_at, r.continuation_state, r.continuation_check_started_at, r.continuation_check_deadline_at, r.cancel_requested_at, r.cancel_reason, r.progress, r.checkpoint, r.exit_code, r.result, r.error, r.resource_cpu_seconds_total, r.resource_peak_rss_bytes, r.resource_io_read_bytes, r.resource_io_write_bytes, r.log_bytes, r.log_ref, r.log_sha256, r.root_run_id, r.retry_of_run_id, r.retry_number, r.saga_id, r.saga_step, r.saga_action, r.event_id, r.letter_id, r.backfill_id, r.correlation_id, r.trace_id, r.tracestate, r.baggage, r.created_at, r.updated_at, r.initiated_by, r.initiated_as FROM assigned r