
WITH locked AS MATERIALIZED (
	SELECT m.id, m.next_retry_at, m.seq, coalesce(octet_length(m.payload_raw), 0) AS size FROM dlq.dlq_messages m
	 WHERE m.status = 'PENDING' AND m.next_retry_at <= clock_timestamp() AND m.target ->> 'kind' = ANY ($1::text[])
	   AND (NOT m.ordered OR NOT EXISTS (SELECT 1 FROM dlq.dlq_messages o WHERE o.tenant_id = m.tenant_id AND o.original_topic = m.original_topic AND coalesce(o.order_key, o.message_key) = coalesce(m.order_key, m.message_key)
		   AND o.seq < m.seq AND o.ordered AND o.status IN ('PENDING', 'RETRYING')))
	   AND NOT (m.source IN ('KAFKA', 'REST') AND NOT m.retry_asked AND (coalesce((SELECT p.hold_all FROM dlq.dlq_policies p WHERE p.tenant_id = m.tenant_id AND p.topic = ''), false) OR NOT coalesce((SELECT p.auto_retry FROM dlq.dlq_policies p WHERE p.tenant_id = m.tenant_id AND p.topic = m.original_topic), (SELECT p.auto_retry FROM dlq.dlq_policies p WHERE p.tenant_id = m.tenant_id AND p.topic = ''), $5::boolean)))
	   AND NOT coalesce((SELECT true FROM dlq.dlq_redrives d JOIN dlq.dlq_redrive_items i ON i.redrive_id = d.id AND i.message_id = m.id
	  WHERE d.tenant_id = m.tenant_id AND d.started_at IS NOT NULL AND d.ended_at IS NULL AND i.state IN ('WAITING', 'TAKEN', 'FAILED', 'SKIPPED') LIMIT 1), false)
	 ORDER BY m.next_retry_at, m.seq LIMIT $3
	 FOR NO KEY UPDATE OF m SKIP LOCKED
), due AS (
	SELECT s.id FROM (SELECT l.id, sum(l.size) OVER (ORDER BY l.next_retry_at, l.seq) - l.size AS before FROM locked l) AS s WHERE s.before < $4
)
UPDATE dlq.dlq_messages m
   SET status = 'RETRYING', resolution = NULL, terminal_at = NULL, next_retry_at = NULL, held_retry_at = NULL, retry_asked = false, last_retry_at = clock_timestamp(), updated_at = clock_timestamp(),
       retry_token = overlay(gen_random_uuid()::text PLACING '8' FROM 15)::uuid, retry_lease_until = clock_timestamp() + $2 * interval '1 microsecond',
       attempts = m.attempts + 1, version = m.version + 1
  FROM due WHERE m.id = due.id AND m.status || '' = 'PENDING'
RETURNING m.id, m.tenant_id, m.seq, m.version, m.original_topic, m.error_message, m.retry_count, m.max_retries, m.status, m.created_at, m.updated_at, m.last_retry_at, m.source, m.payload_raw, m.payload_encoding, m.message_key, m.headers, m.dlq_topic, m.dlq_partition, m.dlq_offset, m.original_partition, m.original_offset, m.original_timestamp, m.consumer_group, m.error_type, m.error_class, m.error_stack, m.fingerprint, m.saga_id, m.step_index, m.step_name, m.step_action, m.job_run_id, m.webhook_id, m.delivery_id, m.correlation_id, m.trace_id, m.dedupe_key, m.labels, m.assignee, m.note, m.resolution, m.next_retry_at, m.terminal_at, m.retry_token, m.retry_lease_until, m.held_retry_at, m.retry_asked, m.redrive_id, m.target, m.revision, m.ordered, m.root_id, m.parent_id, m.generation, m.dlq_topic_id, m.attempts