
WITH locked AS MATERIALIZED (
	SELECT x.tenant_id, x.place, x.seq, x.resolution, x.size
	  FROM unnest($3::uuid[]) AS c (id)
	 CROSS JOIN LATERAL (
		SELECT m.tenant_id, m.ctid AS place, m.seq, coalesce(m.resolution, '') AS resolution, coalesce(octet_length(m.payload_raw), 0) AS size
		  FROM dlq.dlq_messages m
		 WHERE m.id = c.id AND (m.status || '' = 'PENDING' OR m.status || '' = 'DEAD' AND $4)
		OFFSET 0 FOR NO KEY UPDATE OF m SKIP LOCKED) AS x
	 WHERE x.tenant_id = $1
), was AS MATERIALIZED (
	SELECT s.tenant_id, s.place, s.resolution FROM (
		SELECT l.tenant_id, l.place, l.resolution, sum(l.size) OVER (ORDER BY l.seq) - l.size AS before FROM locked l) AS s
	 WHERE s.before < $6
)
UPDATE dlq.dlq_messages m
   SET status = 'RETRYING', resolution = NULL, terminal_at = NULL, next_retry_at = NULL, held_retry_at = NULL, retry_asked = false, last_retry_at = clock_timestamp(), updated_at = clock_timestamp(),
       retry_token = overlay(gen_random_uuid()::text PLACING '8' FROM 15)::uuid, retry_lease_until = clock_timestamp() + $2 * interval '1 microsecond',
       attempts = m.attempts + 1, version = m.version + 1, redrive_id = $5
  FROM was WHERE m.ctid = was.place AND m.tenant_id = was.tenant_id
RETURNING m.id, m.tenant_id, m.seq, m.version, m.original_topic, m.error_message, m.retry_count, m.max_retries, m.status, m.created_at, m.updated_at, m.last_retry_at, m.source, m.payload_raw, m.payload_encoding, m.message_key, m.headers, m.dlq_topic, m.dlq_partition, m.dlq_offset, m.original_partition, m.original_offset, m.original_timestamp, m.consumer_group, m.error_type, m.error_class, m.error_stack, m.fingerprint, m.saga_id, m.step_index, m.step_name, m.step_action, m.job_run_id, m.webhook_id, m.delivery_id, m.correlation_id, m.trace_id, m.dedupe_key, m.labels, m.assignee, m.note, m.resolution, m.next_retry_at, m.terminal_at, m.retry_token, m.retry_lease_until, m.held_retry_at, m.retry_asked, m.redrive_id, m.target, m.revision, m.ordered, m.root_id, m.parent_id, m.generation, m.dlq_topic_id, m.attempts, was.resolution