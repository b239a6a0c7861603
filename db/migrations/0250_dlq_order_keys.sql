-- Sealed keys of letters cannot be compared. So an ordered letter has a keyed digest of
-- its key where there is encryption (decision 0053), and letters are kept in order by
-- that. 0252 makes the index for it.

-- +migrate Up
ALTER TABLE dlq.dlq_messages ADD COLUMN order_key bytea;
ALTER TABLE dlq.dlq_messages_archive ADD COLUMN order_key bytea;

-- The views for lists show what they showed, and the new column.
-- +migrate StatementBegin
DO $$
DECLARE shown text; columns text;
BEGIN
    FOREACH shown IN ARRAY ARRAY['messages', 'messages_archive'] LOOP
        SELECT string_agg('m.' || quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO columns
          FROM pg_attribute a WHERE a.attrelid = format('dlq.tenant_%s', shown)::regclass AND a.attnum > 0 AND NOT a.attisdropped;
        EXECUTE format('CREATE OR REPLACE VIEW dlq.tenant_%1$s AS SELECT %2$s, m.order_key FROM dlq.dlq_%1$s m
            WHERE m.tenant_id = (SELECT nullif(current_setting(''skald.tenant_id'', true), '''')::uuid)', shown, columns);
    END LOOP;
END;
$$;
-- +migrate StatementEnd
-- As in 0142, with the column.
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION dlq.archive_batch(p_days integer, p_default_days integer, p_limit integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    moved_rows integer;
BEGIN
    WITH doomed AS MATERIALIZED (
        SELECT m.id FROM dlq.dlq_messages m
          LEFT JOIN dlq.dlq_policies own ON own.tenant_id = m.tenant_id AND own.topic = m.original_topic
          LEFT JOIN dlq.dlq_policies common ON common.tenant_id = m.tenant_id AND common.topic = ''
         WHERE m.status IN ('RESOLVED', 'DEAD')
           AND m.terminal_at < clock_timestamp() - make_interval(days => coalesce(p_days, own.retention_days, common.retention_days, p_default_days)
               * CASE WHEN p_days IS NULL AND m.resolution IN ('EXHAUSTED', 'POISON') THEN 3 ELSE 1 END)
         ORDER BY m.terminal_at, m.id
         LIMIT p_limit
           FOR UPDATE OF m SKIP LOCKED
    ), moved AS (
        DELETE FROM dlq.dlq_messages m USING doomed d WHERE m.id = d.id
        RETURNING m.id, m.tenant_id, m.seq, m.version, m.original_topic, m.error_message, m.retry_count, m.max_retries, m.payload,
                  m.status, m.created_at, m.updated_at, m.last_retry_at, m.source, m.payload_raw, m.payload_encoding, m.message_key,
                  m.headers, m.dlq_topic, m.dlq_partition, m.dlq_offset, m.original_partition, m.original_offset, m.original_timestamp,
                  m.consumer_group, m.error_type, m.error_class, m.error_stack, m.fingerprint, m.terms, m.saga_id, m.step_index,
                  m.step_name, m.step_action, m.job_run_id, m.webhook_id, m.delivery_id, m.correlation_id, m.trace_id, m.dedupe_key,
                  m.labels, m.assignee, m.note, m.resolution, m.next_retry_at, m.terminal_at, m.retry_token, m.retry_lease_until,
                  m.attempts, m.redrive_id, m.target, m.revision, m.ordered, m.root_id, m.parent_id, m.generation, m.dlq_topic_id, m.held_retry_at, m.retry_asked, m.order_key
    )
    INSERT INTO dlq.dlq_messages_archive (
        id, tenant_id, seq, version, original_topic, error_message, retry_count, max_retries, payload, status, created_at,
        updated_at, last_retry_at, source, payload_raw, payload_encoding, message_key, headers, dlq_topic, dlq_partition,
        dlq_offset, original_partition, original_offset, original_timestamp, consumer_group, error_type, error_class,
        error_stack, fingerprint, terms, saga_id, step_index, step_name, step_action, job_run_id, webhook_id, delivery_id,
        correlation_id, trace_id, dedupe_key, labels, assignee, note, resolution, next_retry_at, terminal_at, retry_token,
        retry_lease_until, attempts, redrive_id, target, revision, ordered, root_id, parent_id, generation, dlq_topic_id,
        held_retry_at, retry_asked, order_key,
        archived_at, archive_reason)
    SELECT m.id, m.tenant_id, m.seq, m.version, m.original_topic, m.error_message, m.retry_count, m.max_retries, m.payload,
           m.status, m.created_at, m.updated_at, m.last_retry_at, m.source, m.payload_raw, m.payload_encoding, m.message_key,
           m.headers, m.dlq_topic, m.dlq_partition, m.dlq_offset, m.original_partition, m.original_offset, m.original_timestamp,
           m.consumer_group, m.error_type, m.error_class, m.error_stack, m.fingerprint, m.terms, m.saga_id, m.step_index,
           m.step_name, m.step_action, m.job_run_id, m.webhook_id, m.delivery_id, m.correlation_id, m.trace_id, m.dedupe_key,
           m.labels, m.assignee, m.note, m.resolution, m.next_retry_at, m.terminal_at, m.retry_token, m.retry_lease_until,
           m.attempts, m.redrive_id, m.target, m.revision, m.ordered, m.root_id, m.parent_id, m.generation, m.dlq_topic_id, m.held_retry_at, m.retry_asked, m.order_key,
           clock_timestamp(), 'RETENTION'
      FROM moved m;
    GET DIAGNOSTICS moved_rows = ROW_COUNT;
    RETURN moved_rows;
END;
$$;
-- +migrate StatementEnd
SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (250, 'digests of the keys of ordered dead letters');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 250;
-- +migrate StatementBegin
DO $$
DECLARE shown text; columns text;
BEGIN
    FOREACH shown IN ARRAY ARRAY['messages', 'messages_archive'] LOOP
        SELECT string_agg('m.' || quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO columns
          FROM pg_attribute a WHERE a.attrelid = format('dlq.tenant_%s', shown)::regclass AND a.attnum > 0 AND NOT a.attisdropped
           AND a.attname <> 'order_key';
        EXECUTE format('DROP VIEW dlq.tenant_%s', shown);
        EXECUTE format('CREATE VIEW dlq.tenant_%1$s AS SELECT %2$s FROM dlq.dlq_%1$s m
            WHERE m.tenant_id = (SELECT nullif(current_setting(''skald.tenant_id'', true), '''')::uuid)', shown, columns);
    END LOOP;
END;
$$;
-- +migrate StatementEnd
-- As in 0142.
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION dlq.archive_batch(p_days integer, p_default_days integer, p_limit integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    moved_rows integer;
BEGIN
    WITH doomed AS MATERIALIZED (
        SELECT m.id FROM dlq.dlq_messages m
          LEFT JOIN dlq.dlq_policies own ON own.tenant_id = m.tenant_id AND own.topic = m.original_topic
          LEFT JOIN dlq.dlq_policies common ON common.tenant_id = m.tenant_id AND common.topic = ''
         WHERE m.status IN ('RESOLVED', 'DEAD')
           AND m.terminal_at < clock_timestamp() - make_interval(days => coalesce(p_days, own.retention_days, common.retention_days, p_default_days)
               * CASE WHEN p_days IS NULL AND m.resolution IN ('EXHAUSTED', 'POISON') THEN 3 ELSE 1 END)
         ORDER BY m.terminal_at, m.id
         LIMIT p_limit
           FOR UPDATE OF m SKIP LOCKED
    ), moved AS (
        DELETE FROM dlq.dlq_messages m USING doomed d WHERE m.id = d.id
        RETURNING m.id, m.tenant_id, m.seq, m.version, m.original_topic, m.error_message, m.retry_count, m.max_retries, m.payload,
                  m.status, m.created_at, m.updated_at, m.last_retry_at, m.source, m.payload_raw, m.payload_encoding, m.message_key,
                  m.headers, m.dlq_topic, m.dlq_partition, m.dlq_offset, m.original_partition, m.original_offset, m.original_timestamp,
                  m.consumer_group, m.error_type, m.error_class, m.error_stack, m.fingerprint, m.terms, m.saga_id, m.step_index,
                  m.step_name, m.step_action, m.job_run_id, m.webhook_id, m.delivery_id, m.correlation_id, m.trace_id, m.dedupe_key,
                  m.labels, m.assignee, m.note, m.resolution, m.next_retry_at, m.terminal_at, m.retry_token, m.retry_lease_until,
                  m.attempts, m.redrive_id, m.target, m.revision, m.ordered, m.root_id, m.parent_id, m.generation, m.dlq_topic_id, m.held_retry_at, m.retry_asked
    )
    INSERT INTO dlq.dlq_messages_archive (
        id, tenant_id, seq, version, original_topic, error_message, retry_count, max_retries, payload, status, created_at,
        updated_at, last_retry_at, source, payload_raw, payload_encoding, message_key, headers, dlq_topic, dlq_partition,
        dlq_offset, original_partition, original_offset, original_timestamp, consumer_group, error_type, error_class,
        error_stack, fingerprint, terms, saga_id, step_index, step_name, step_action, job_run_id, webhook_id, delivery_id,
        correlation_id, trace_id, dedupe_key, labels, assignee, note, resolution, next_retry_at, terminal_at, retry_token,
        retry_lease_until, attempts, redrive_id, target, revision, ordered, root_id, parent_id, generation, dlq_topic_id,
        held_retry_at, retry_asked,
        archived_at, archive_reason)
    SELECT m.id, m.tenant_id, m.seq, m.version, m.original_topic, m.error_message, m.retry_count, m.max_retries, m.payload,
           m.status, m.created_at, m.updated_at, m.last_retry_at, m.source, m.payload_raw, m.payload_encoding, m.message_key,
           m.headers, m.dlq_topic, m.dlq_partition, m.dlq_offset, m.original_partition, m.original_offset, m.original_timestamp,
           m.consumer_group, m.error_type, m.error_class, m.error_stack, m.fingerprint, m.terms, m.saga_id, m.step_index,
           m.step_name, m.step_action, m.job_run_id, m.webhook_id, m.delivery_id, m.correlation_id, m.trace_id, m.dedupe_key,
           m.labels, m.assignee, m.note, m.resolution, m.next_retry_at, m.terminal_at, m.retry_token, m.retry_lease_until,
           m.attempts, m.redrive_id, m.target, m.revision, m.ordered, m.root_id, m.parent_id, m.generation, m.dlq_topic_id, m.held_retry_at, m.retry_asked,
           clock_timestamp(), 'RETENTION'
      FROM moved m;
    GET DIAGNOSTICS moved_rows = ROW_COUNT;
    RETURN moved_rows;
END;
$$;
-- +migrate StatementEnd
ALTER TABLE dlq.dlq_messages DROP COLUMN order_key;
ALTER TABLE dlq.dlq_messages_archive DROP COLUMN order_key;
SELECT saga.secure_tables();
