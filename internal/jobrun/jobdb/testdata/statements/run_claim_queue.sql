
WITH e AS MATERIALIZED (
	SELECT l.epoch, CASE WHEN NOT $10::boolean THEN set_config('synchronous_commit', 'off', true) END AS durable
	  FROM jobs.leader l WHERE l.name = 'default' AND l.expires_at > clock_timestamp()
), alone AS MATERIALIZED (
	SELECT CASE WHEN k.claim_id <> '' THEN pg_advisory_xact_lock(hashtextextended(k.worker::text || ' ' || k.claim_id, 0)) END
	  FROM unnest((SELECT $2::uuid[]), $3::text[]) AS k (worker, claim_id)
), w AS MATERIALIZED (
	SELECT w.id, k.claim_id, w.labels, w.commands, least(k.slots, least(w.max_runs, $6::bigint) -
	       (SELECT count(*) FROM jobs.job_runs h WHERE h.assigned_worker_id = k.worker AND h.phase = 'HELD')) AS room
	  FROM unnest((SELECT $2::uuid[]), $3::text[], $4::bigint[]) AS k (worker, claim_id, slots)
	 CROSS JOIN LATERAL (
		SELECT w.id, w.labels, w.commands, w.max_runs FROM jobs.workers w
		 WHERE w.tenant_id = $1
	  AND w.id = k.worker
	  AND w.state = 'ACTIVE'
	  AND w.heartbeat_at > clock_timestamp() - $7 * interval '1 microsecond'
		   AND $5 = ANY (w.queues) OFFSET 0) AS w
	 WHERE EXISTS (SELECT FROM e) AND (SELECT count(*) FROM alone) > 0 AND NOT EXISTS (SELECT FROM jobs.claims c
	                     WHERE c.worker_id = k.worker AND c.claim_id = k.claim_id)
), q AS MATERIALIZED (
	SELECT $5 AS queue, w.labels, w.commands FROM w WHERE w.room > 0 AND NOT EXISTS (SELECT FROM jobs.queues h
	 WHERE h.tenant_id = $1 AND h.name = $5 AND h.state = 'HELD') LIMIT 1
), seats AS MATERIALIZED (
	SELECT array_agg(w.id ORDER BY s.n, w.id) AS workers, count(*) AS n
	  FROM q CROSS JOIN w CROSS JOIN LATERAL generate_series(1, w.room) AS s (n)
	 WHERE w.labels = q.labels AND w.commands = q.commands
), locked AS MATERIALIZED (
	SELECT r.id, r.priority, r.scheduled_for, r.concurrency_key
	  FROM q CROSS JOIN LATERAL (
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
	 ORDER BY r.priority DESC, r.scheduled_for, r.id LIMIT (SELECT s.n FROM seats s) FOR NO KEY UPDATE OF r SKIP LOCKED) AS r
), numbered AS MATERIALIZED (
	SELECT l.id, row_number() OVER (ORDER BY l.priority DESC, l.scheduled_for, l.id) AS seat FROM (
	SELECT l.id,
	       l.priority,
	       l.scheduled_for,
	       l.concurrency_key,
	       row_number() OVER (PARTITION BY l.concurrency_key ORDER BY l.priority DESC, l.scheduled_for, l.id) AS nth
	  FROM locked l) AS l
	 WHERE l.concurrency_key IS NULL OR l.nth = 1
), chosen AS MATERIALIZED (
	SELECT n.id, s.workers[n.seat] AS worker FROM numbered n CROSS JOIN seats s
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