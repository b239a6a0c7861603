SELECT s.* FROM (SELECT set_config('skald.tenant_id', $1::text, true)::uuid AS id OFFSET 0) AS tenant
 CROSS JOIN LATERAL (
SELECT m.id, m.tenant_id, m.seq, m.version, m.source, m.original_topic, m.original_partition, m.original_offset,
	m.original_timestamp, m.dlq_topic, m.dlq_partition, m.dlq_offset, m.consumer_group, m.error_message, m.error_type, m.error_class,
	m.error_stack, m.message_key, m.headers, m.payload_raw, m.payload_encoding, m.fingerprint, m.saga_id, m.step_index, m.step_name,
	m.step_action, m.job_run_id, m.webhook_id, m.delivery_id, m.correlation_id, m.trace_id, m.dedupe_key, m.labels, m.assignee, m.note,
	m.status, m.resolution, m.retry_count, m.max_retries, m.next_retry_at, m.last_retry_at, m.terminal_at, m.retry_token,
	m.retry_lease_until, m.redrive_id, m.target, m.revision, m.ordered, m.root_id, m.parent_id, m.generation, m.created_at, m.updated_at,
	m.dlq_topic_id, m.held_retry_at, m.retry_asked, NULL::timestamptz AS archived_at, NULL::text AS archive_reason
  FROM dlq.dlq_messages m WHERE m.tenant_id = tenant.id AND m.id = $2
UNION ALL
SELECT m.id, m.tenant_id, m.seq, m.version, m.source, m.original_topic, m.original_partition, m.original_offset,
	m.original_timestamp, m.dlq_topic, m.dlq_partition, m.dlq_offset, m.consumer_group, m.error_message, m.error_type, m.error_class,
	m.error_stack, m.message_key, m.headers, m.payload_raw, m.payload_encoding, m.fingerprint, m.saga_id, m.step_index, m.step_name,
	m.step_action, m.job_run_id, m.webhook_id, m.delivery_id, m.correlation_id, m.trace_id, m.dedupe_key, m.labels, m.assignee, m.note,
	m.status, m.resolution, m.retry_count, m.max_retries, m.next_retry_at, m.last_retry_at, m.terminal_at, m.retry_token,
	m.retry_lease_until, m.redrive_id, m.target, m.revision, m.ordered, m.root_id, m.parent_id, m.generation, m.created_at, m.updated_at,
	m.dlq_topic_id, m.held_retry_at, m.retry_asked, m.archived_at, m.archive_reason
  FROM dlq.dlq_messages_archive m WHERE m.tenant_id = tenant.id AND m.id = $2 OFFSET 0) AS s 