WITH stored AS (
	INSERT INTO dlq.dlq_messages AS m (id, tenant_id, version, original_topic, error_message, retry_count, max_retries, payload, status, created_at, updated_at, last_retry_at, source, payload_raw, payload_encoding, message_key, headers, dlq_topic, dlq_partition, dlq_offset, original_partition, original_offset, original_timestamp, consumer_group, error_type, error_class, error_stack, fingerprint, terms, saga_id, step_index, step_name, step_action, job_run_id, webhook_id, delivery_id, correlation_id, trace_id, dedupe_key, labels, assignee, note, resolution, next_retry_at, terminal_at, redrive_id, target, revision, ordered, root_id, parent_id, generation, dlq_topic_id, order_key)
	SELECT l.id, l.tenant_id, l.version, l.original_topic, l.error_message, l.retry_count, l.max_retries, l.payload::jsonb, l.status, l.created_at, l.updated_at, l.last_retry_at, l.source, l.payload_raw, l.payload_encoding, l.message_key, l.headers, l.dlq_topic, l.dlq_partition, l.dlq_offset, l.original_partition, l.original_offset, l.original_timestamp, l.consumer_group, l.error_type, l.error_class, l.error_stack, l.fingerprint, ($61::integer[])[(l.terms >> 12)::integer + 1 : (l.terms >> 12)::integer + (l.terms & 4095)::integer], l.saga_id, l.step_index, l.step_name, l.step_action, l.job_run_id, l.webhook_id, l.delivery_id, l.correlation_id, l.trace_id, l.dedupe_key, l.labels::text[], l.assignee, l.note, l.resolution, l.next_retry_at, l.terminal_at, l.redrive_id, l.target::jsonb, l.revision, l.ordered, l.root_id, l.parent_id, l.generation, l.dlq_topic_id, l.order_key
	  FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::text[], $9::text[], $10::timestamptz[], $11::timestamptz[], $12::timestamptz[], $13::text[], $14::bytea[], $15::text[], $16::bytea[], $17::bytea[], $18::text[], $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[], $23::timestamptz[], $24::text[], $25::text[], $26::text[], $27::text[], $28::text[], $29::bigint[], $30::uuid[], $31::bigint[], $32::text[], $33::text[], $34::uuid[], $35::uuid[], $36::uuid[], $37::text[], $38::text[], $39::text[], $40::text[], $41::text[], $42::text[], $43::text[], $44::timestamptz[], $45::timestamptz[], $46::uuid[], $47::text[], $48::bigint[], $49::bool[], $50::uuid[], $51::uuid[], $52::bigint[], $53::uuid[], $54::bytea[]) WITH ORDINALITY AS l (id, tenant_id, version, original_topic, error_message, retry_count, max_retries, payload, status, created_at, updated_at, last_retry_at, source, payload_raw, payload_encoding, message_key, headers, dlq_topic, dlq_partition, dlq_offset, original_partition, original_offset, original_timestamp, consumer_group, error_type, error_class, error_stack, fingerprint, terms, saga_id, step_index, step_name, step_action, job_run_id, webhook_id, delivery_id, correlation_id, trace_id, dedupe_key, labels, assignee, note, resolution, next_retry_at, terminal_at, redrive_id, target, revision, ordered, root_id, parent_id, generation, dlq_topic_id, order_key, n)
	 WHERE (SELECT a.id
	          FROM dlq.dlq_messages_archive a
	         WHERE a.id = l.id) IS NULL -- NOT EXISTS would be a join, of the whole archive
	   AND (l.dlq_topic IS NULL OR (SELECT a.id FROM dlq.dlq_messages_archive a
	        WHERE a.tenant_id = l.tenant_id
	          AND a.dlq_topic = l.dlq_topic
	          AND a.dlq_partition = l.dlq_partition
	          AND a.dlq_offset = l.dlq_offset
	          AND a.dlq_topic_id = l.dlq_topic_id LIMIT 1) IS NULL)
	 ORDER BY l.dlq_topic, l.dlq_partition, l.dlq_offset, l.dlq_topic_id, l.n
	ON CONFLICT DO NOTHING
	RETURNING m.id, m.tenant_id, m.seq, m.original_topic, m.fingerprint, m.created_at
), known AS MATERIALIZED (
	SELECT g.tenant_id, g.fingerprint, g.state
	  FROM (SELECT DISTINCT tenant_id, fingerprint FROM stored) AS s
	  JOIN dlq.dlq_groups g ON g.tenant_id = s.tenant_id AND g.fingerprint = s.fingerprint
	 ORDER BY g.tenant_id, g.fingerprint
	   FOR NO KEY UPDATE OF g
), named AS MATERIALIZED (
	SELECT * FROM unnest($55::uuid[], $56::text[], $57::text[], $58::text[], $59::text[], $60::uuid[]) AS n (tenant_id, fingerprint, topic, error_type, message, regression)
), grouped AS (
	INSERT INTO dlq.dlq_groups AS g (tenant_id, fingerprint, topic, error_type, message, received, first_seen, last_seen,
	                                 sample_id, updated_at)
	SELECT u.tenant_id,
	       u.fingerprint,
	       max(u.topic),
	       max(u.error_type),
	       max(u.message),
	       count(u.id),
	       min(u.created_at),
	       max(u.created_at),
	       (array_agg(u.id ORDER BY u.seq DESC) FILTER (WHERE u.id IS NOT NULL))[1], max(u.created_at)
	  FROM (SELECT n.tenant_id, n.fingerprint, n.topic, n.error_type, n.message, NULL::uuid AS id, NULL::bigint AS seq,
	        NULL::timestamptz AS created_at
	          FROM named n
	        UNION ALL
	        SELECT s.tenant_id, s.fingerprint, NULL, NULL, NULL, s.id, s.seq, s.created_at FROM stored s) AS u
	 WHERE (SELECT count(*) FROM known) >= 0 -- which are locked first
	 GROUP BY u.tenant_id, u.fingerprint
	HAVING count(u.id) > 0
	 ORDER BY u.tenant_id, u.fingerprint
	ON CONFLICT (tenant_id, fingerprint) DO UPDATE
	   SET received = g.received + EXCLUDED.received, last_seen = greatest(g.last_seen, EXCLUDED.last_seen),
	       sample_id = CASE WHEN EXCLUDED.last_seen >= g.last_seen THEN EXCLUDED.sample_id ELSE g.sample_id END,
	       state = CASE g.state WHEN 'RESOLVED' THEN 'REGRESSED' ELSE g.state END,
	       version = CASE g.state WHEN 'RESOLVED' THEN g.version + 1 ELSE g.version END,
	       updated_at = CASE g.state WHEN 'RESOLVED' THEN EXCLUDED.updated_at ELSE g.updated_at END
), regressed AS (
	INSERT INTO saga.audit_actions (id, tenant_id, at, kind, subject, verb)
	SELECT n.regression, n.tenant_id, now(), 'dead_letter_group', n.fingerprint, 'regress'
	  FROM known k JOIN named n ON n.tenant_id = k.tenant_id AND n.fingerprint = k.fingerprint
	 WHERE k.state = 'RESOLVED'
), counted AS (
	INSERT INTO dlq.dlq_arrivals AS a (tenant_id, topic, minute, received)
	SELECT s.tenant_id, s.original_topic, date_trunc('minute', s.created_at, 'UTC') AS minute, count(*)
	  FROM stored s
	 GROUP BY 1, 2, 3
	 ORDER BY 1, 2, 3
	ON CONFLICT (tenant_id, topic, minute) DO UPDATE SET received = a.received + EXCLUDED.received
), told AS (
	INSERT INTO saga.audit_actions (id, tenant_id, at, kind, subject, verb, detail, actor, reason, request_id,
	                                credential_id, address, operation)
	SELECT a.id,
	       a.tenant_id,
	       now(),
	       'dead_letter',
	       CASE p.letters WHEN 1 THEN p.ids->>0 ELSE '*' END,
	       'push',
	       nullif(CASE WHEN p.letters > 1 THEN jsonb_build_object('letters', p.letters, 'ids', p.ids) ELSE '{}' END
	              || coalesce(nullif($70, ''), '{}')::jsonb, '{}'),
	       $64::text, $65::text, $66::text, $67::uuid, $68::text, $69::text
	  FROM unnest($62::uuid[], $63::uuid[]) AS a (id, tenant_id)
	 CROSS JOIN LATERAL (SELECT count(*) AS letters, jsonb_agg(s.id ORDER BY s.seq) AS ids
	                       FROM stored s
	                      WHERE s.tenant_id = a.tenant_id) AS p
	 WHERE p.letters > 0
) SELECT s.id, s.seq FROM stored s