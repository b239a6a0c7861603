
WITH f AS MATERIALIZED (
	SELECT * FROM unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::bigint[], $8::timestamptz[], $9::timestamptz[], $10::timestamptz[], $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::bigint[], $17::text[], $18::bigint[], $19::bigint[], $20::uuid[], $21::text[], $22::text[], $23::timestamptz[], $24::timestamptz[]) WITH ORDINALITY AS f (tenant_id, id, token, status, resolution, retry_count, next_retry_at, terminal_at, at, number, revision, target, outcome, error, status_code, written_topic, written_partition, written_offset, redrive_id, actor, actor_name, started_at, ended_at, n)
), ended AS (
	UPDATE dlq.dlq_messages m
	   SET status = f.status, retry_count = f.retry_count, next_retry_at = f.next_retry_at, terminal_at = f.terminal_at,
	       resolution = CASE WHEN f.resolution = 'REDRIVEN' AND EXISTS (
	              SELECT 1 FROM dlq.dlq_messages b
	               WHERE b.tenant_id = m.tenant_id
	                 AND b.root_id = m.root_id
	                 AND b.generation > 0
	                 AND b.generation = m.generation + 1
	                 AND b.parent_id = m.id)
	         THEN 'BOUNCED' ELSE f.resolution END,
	       retry_token = NULL, retry_lease_until = NULL, updated_at = f.at, version = m.version + 1
	  FROM f
	 WHERE m.tenant_id = f.tenant_id
	   AND m.id = f.id
	   AND m.status || '' = 'RETRYING'
	   AND m.retry_token = f.token
	   AND (NOT $1 OR m.retry_lease_until < clock_timestamp())
	RETURNING f.n, coalesce(m.resolution, '') AS resolution
), noted AS (
	INSERT INTO dlq.dlq_attempts AS a (message_id, tenant_id, token, number, revision, target, outcome, error, status_code, written_topic, written_partition, written_offset, redrive_id, actor, actor_name, started_at, ended_at)
	SELECT f.id, f.tenant_id, f.token, f.number, f.revision, f.target::jsonb, f.outcome, f.error, f.status_code, f.written_topic, f.written_partition, f.written_offset, f.redrive_id, f.actor, f.actor_name, f.started_at, f.ended_at
	  FROM f JOIN dlq.dlq_messages m ON m.tenant_id = f.tenant_id AND m.id = f.id
	 WHERE NOT $1 OR f.n IN (SELECT e.n FROM ended e)
	ON CONFLICT (message_id, number) DO UPDATE
	   SET outcome = EXCLUDED.outcome,
	       error = EXCLUDED.error,
	       status_code = EXCLUDED.status_code,
	       ended_at = EXCLUDED.ended_at,
	       written_topic = EXCLUDED.written_topic,
	       written_partition = EXCLUDED.written_partition,
	       written_offset = EXCLUDED.written_offset
	 WHERE a.token = EXCLUDED.token AND a.outcome = 'ABANDONED'
)
SELECT e.n, e.resolution FROM ended e
UNION ALL
SELECT f.n, coalesce(m.resolution, '') FROM f
  JOIN dlq.dlq_attempts a ON a.message_id = f.id AND a.tenant_id = f.tenant_id AND a.number = f.number
  JOIN dlq.dlq_messages m ON m.tenant_id = f.tenant_id AND m.id = f.id
 WHERE a.token = f.token
   AND a.outcome = f.outcome
   AND a.ended_at = f.ended_at
   AND f.n NOT IN (SELECT e.n FROM ended e)