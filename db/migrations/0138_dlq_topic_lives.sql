-- Which life of its topic a letter was read from. A topic that is deleted and made
-- anew begins at offset 0 again under the same name, and so does one of another
-- cluster: its records took the places of those before them, and were passed over as
-- known. Kafka gives every life of a topic an id of its own (Metadata v10, Fetch v13),
-- which is part of the place now (docs/decisions/0044).
--
-- All zeros: not known. Letters from before this migration have that, those that
-- nodes of the last version store while nodes are replaced one by one, and those of
-- brokers before 3.1. A record at the place of such a letter is compared with it.
--
-- Letters wait while the indexes are made, some 2 s for a million of them.

-- +migrate Up
ALTER TABLE dlq.dlq_messages ADD COLUMN dlq_topic_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';
ALTER TABLE dlq.dlq_messages_archive ADD COLUMN dlq_topic_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';
ALTER TABLE dlq.dlq_messages_archive ALTER COLUMN dlq_topic_id DROP DEFAULT; -- the archive invents no value

CREATE UNIQUE INDEX idx_dlq_messages_place_new ON dlq.dlq_messages (tenant_id, dlq_topic, dlq_partition, dlq_offset, dlq_topic_id) WHERE dlq_topic IS NOT NULL;
DROP INDEX dlq.idx_dlq_messages_place;
ALTER INDEX dlq.idx_dlq_messages_place_new RENAME TO idx_dlq_messages_place;
CREATE INDEX idx_dlq_messages_archive_place_new ON dlq.dlq_messages_archive (tenant_id, dlq_topic, dlq_partition, dlq_offset, dlq_topic_id) WHERE dlq_topic IS NOT NULL;
DROP INDEX dlq.idx_dlq_messages_archive_place;
ALTER INDEX dlq.idx_dlq_messages_archive_place_new RENAME TO idx_dlq_messages_archive_place;

-- A node of the last version knows places without ids. What a newer one has stored
-- with an id must be known to it: such a row is passed over, as the index did it.
-- Newer nodes have looked before they store a place without an id.
-- +migrate StatementBegin
CREATE FUNCTION dlq.pass_over_known_place() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF EXISTS (SELECT FROM dlq.dlq_messages m
                WHERE m.tenant_id = NEW.tenant_id AND m.dlq_topic = NEW.dlq_topic AND m.dlq_partition = NEW.dlq_partition
                  AND m.dlq_offset = NEW.dlq_offset AND m.dlq_topic_id <> NEW.dlq_topic_id) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd
CREATE TRIGGER trg_dlq_messages_known_place BEFORE INSERT ON dlq.dlq_messages
    FOR EACH ROW WHEN (NEW.dlq_topic IS NOT NULL AND NEW.dlq_topic_id = '00000000-0000-0000-0000-000000000000')
    EXECUTE FUNCTION dlq.pass_over_known_place();

CREATE OR REPLACE VIEW dlq.tenant_messages AS
SELECT m.id, m.tenant_id, m.seq, m.version, m.original_topic, m.error_message, m.retry_count, m.max_retries, m.payload,
       m.status, m.created_at, m.updated_at, m.last_retry_at, m.source, m.payload_raw, m.payload_encoding, m.message_key,
       m.headers, m.dlq_topic, m.dlq_partition, m.dlq_offset, m.original_partition, m.original_offset, m.original_timestamp,
       m.consumer_group, m.error_type, m.error_class, m.error_stack, m.fingerprint, m.terms, m.saga_id, m.step_index,
       m.step_name, m.step_action, m.job_run_id, m.webhook_id, m.delivery_id, m.correlation_id, m.trace_id, m.dedupe_key,
       m.labels, m.assignee, m.note, m.resolution, m.next_retry_at, m.terminal_at, m.retry_token, m.retry_lease_until,
       m.attempts, m.redrive_id, m.target, m.revision, m.ordered, m.root_id, m.parent_id, m.generation, m.dlq_topic_id
  FROM dlq.dlq_messages m
 WHERE m.tenant_id = (SELECT nullif(current_setting('skald.tenant_id', true), '')::uuid);

CREATE OR REPLACE VIEW dlq.tenant_messages_archive AS
SELECT m.id, m.tenant_id, m.seq, m.version, m.original_topic, m.error_message, m.retry_count, m.max_retries, m.payload,
       m.status, m.created_at, m.updated_at, m.last_retry_at, m.source, m.payload_raw, m.payload_encoding, m.message_key,
       m.headers, m.dlq_topic, m.dlq_partition, m.dlq_offset, m.original_partition, m.original_offset, m.original_timestamp,
       m.consumer_group, m.error_type, m.error_class, m.error_stack, m.fingerprint, m.terms, m.saga_id, m.step_index,
       m.step_name, m.step_action, m.job_run_id, m.webhook_id, m.delivery_id, m.correlation_id, m.trace_id, m.dedupe_key,
       m.labels, m.assignee, m.note, m.resolution, m.next_retry_at, m.terminal_at, m.retry_token, m.retry_lease_until,
       m.attempts, m.redrive_id, m.target, m.revision, m.ordered, m.root_id, m.parent_id, m.generation, m.archived_at, m.archive_reason, m.dlq_topic_id
  FROM dlq.dlq_messages_archive m
 WHERE m.tenant_id = (SELECT nullif(current_setting('skald.tenant_id', true), '')::uuid);

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
                  m.attempts, m.redrive_id, m.target, m.revision, m.ordered, m.root_id, m.parent_id, m.generation, m.dlq_topic_id
    )
    INSERT INTO dlq.dlq_messages_archive (
        id, tenant_id, seq, version, original_topic, error_message, retry_count, max_retries, payload, status, created_at,
        updated_at, last_retry_at, source, payload_raw, payload_encoding, message_key, headers, dlq_topic, dlq_partition,
        dlq_offset, original_partition, original_offset, original_timestamp, consumer_group, error_type, error_class,
        error_stack, fingerprint, terms, saga_id, step_index, step_name, step_action, job_run_id, webhook_id, delivery_id,
        correlation_id, trace_id, dedupe_key, labels, assignee, note, resolution, next_retry_at, terminal_at, retry_token,
        retry_lease_until, attempts, redrive_id, target, revision, ordered, root_id, parent_id, generation, dlq_topic_id,
        archived_at, archive_reason)
    SELECT m.id, m.tenant_id, m.seq, m.version, m.original_topic, m.error_message, m.retry_count, m.max_retries, m.payload,
           m.status, m.created_at, m.updated_at, m.last_retry_at, m.source, m.payload_raw, m.payload_encoding, m.message_key,
           m.headers, m.dlq_topic, m.dlq_partition, m.dlq_offset, m.original_partition, m.original_offset, m.original_timestamp,
           m.consumer_group, m.error_type, m.error_class, m.error_stack, m.fingerprint, m.terms, m.saga_id, m.step_index,
           m.step_name, m.step_action, m.job_run_id, m.webhook_id, m.delivery_id, m.correlation_id, m.trace_id, m.dedupe_key,
           m.labels, m.assignee, m.note, m.resolution, m.next_retry_at, m.terminal_at, m.retry_token, m.retry_lease_until,
           m.attempts, m.redrive_id, m.target, m.revision, m.ordered, m.root_id, m.parent_id, m.generation, m.dlq_topic_id,
           clock_timestamp(), 'RETENTION'
      FROM moved m;
    GET DIAGNOSTICS moved_rows = ROW_COUNT;
    RETURN moved_rows;
END;
$$;
-- +migrate StatementEnd

SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (138, 'lives of dead-letter topics');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 138;
DROP TRIGGER trg_dlq_messages_known_place ON dlq.dlq_messages;
DROP FUNCTION dlq.pass_over_known_place();
-- Of letters at one place the oldest keeps it, and the rest stay without one.
UPDATE dlq.dlq_messages m SET dlq_topic = NULL, dlq_partition = NULL, dlq_offset = NULL
 WHERE m.dlq_topic IS NOT NULL
   AND EXISTS (SELECT FROM dlq.dlq_messages o WHERE o.tenant_id = m.tenant_id AND o.dlq_topic = m.dlq_topic
                  AND o.dlq_partition = m.dlq_partition AND o.dlq_offset = m.dlq_offset AND o.seq < m.seq);
DROP VIEW dlq.tenant_messages, dlq.tenant_messages_archive;
CREATE VIEW dlq.tenant_messages AS
SELECT m.id, m.tenant_id, m.seq, m.version, m.original_topic, m.error_message, m.retry_count, m.max_retries, m.payload,
       m.status, m.created_at, m.updated_at, m.last_retry_at, m.source, m.payload_raw, m.payload_encoding, m.message_key,
       m.headers, m.dlq_topic, m.dlq_partition, m.dlq_offset, m.original_partition, m.original_offset, m.original_timestamp,
       m.consumer_group, m.error_type, m.error_class, m.error_stack, m.fingerprint, m.terms, m.saga_id, m.step_index,
       m.step_name, m.step_action, m.job_run_id, m.webhook_id, m.delivery_id, m.correlation_id, m.trace_id, m.dedupe_key,
       m.labels, m.assignee, m.note, m.resolution, m.next_retry_at, m.terminal_at, m.retry_token, m.retry_lease_until,
       m.attempts, m.redrive_id, m.target, m.revision, m.ordered, m.root_id, m.parent_id, m.generation
  FROM dlq.dlq_messages m
 WHERE m.tenant_id = (SELECT nullif(current_setting('skald.tenant_id', true), '')::uuid);

CREATE VIEW dlq.tenant_messages_archive AS
SELECT m.id, m.tenant_id, m.seq, m.version, m.original_topic, m.error_message, m.retry_count, m.max_retries, m.payload,
       m.status, m.created_at, m.updated_at, m.last_retry_at, m.source, m.payload_raw, m.payload_encoding, m.message_key,
       m.headers, m.dlq_topic, m.dlq_partition, m.dlq_offset, m.original_partition, m.original_offset, m.original_timestamp,
       m.consumer_group, m.error_type, m.error_class, m.error_stack, m.fingerprint, m.terms, m.saga_id, m.step_index,
       m.step_name, m.step_action, m.job_run_id, m.webhook_id, m.delivery_id, m.correlation_id, m.trace_id, m.dedupe_key,
       m.labels, m.assignee, m.note, m.resolution, m.next_retry_at, m.terminal_at, m.retry_token, m.retry_lease_until,
       m.attempts, m.redrive_id, m.target, m.revision, m.ordered, m.root_id, m.parent_id, m.generation, m.archived_at, m.archive_reason
  FROM dlq.dlq_messages_archive m
 WHERE m.tenant_id = (SELECT nullif(current_setting('skald.tenant_id', true), '')::uuid);

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
                  m.attempts, m.redrive_id, m.target, m.revision, m.ordered, m.root_id, m.parent_id, m.generation
    )
    INSERT INTO dlq.dlq_messages_archive (
        id, tenant_id, seq, version, original_topic, error_message, retry_count, max_retries, payload, status, created_at,
        updated_at, last_retry_at, source, payload_raw, payload_encoding, message_key, headers, dlq_topic, dlq_partition,
        dlq_offset, original_partition, original_offset, original_timestamp, consumer_group, error_type, error_class,
        error_stack, fingerprint, terms, saga_id, step_index, step_name, step_action, job_run_id, webhook_id, delivery_id,
        correlation_id, trace_id, dedupe_key, labels, assignee, note, resolution, next_retry_at, terminal_at, retry_token,
        retry_lease_until, attempts, redrive_id, target, revision, ordered, root_id, parent_id, generation,
        archived_at, archive_reason)
    SELECT m.id, m.tenant_id, m.seq, m.version, m.original_topic, m.error_message, m.retry_count, m.max_retries, m.payload,
           m.status, m.created_at, m.updated_at, m.last_retry_at, m.source, m.payload_raw, m.payload_encoding, m.message_key,
           m.headers, m.dlq_topic, m.dlq_partition, m.dlq_offset, m.original_partition, m.original_offset, m.original_timestamp,
           m.consumer_group, m.error_type, m.error_class, m.error_stack, m.fingerprint, m.terms, m.saga_id, m.step_index,
           m.step_name, m.step_action, m.job_run_id, m.webhook_id, m.delivery_id, m.correlation_id, m.trace_id, m.dedupe_key,
           m.labels, m.assignee, m.note, m.resolution, m.next_retry_at, m.terminal_at, m.retry_token, m.retry_lease_until,
           m.attempts, m.redrive_id, m.target, m.revision, m.ordered, m.root_id, m.parent_id, m.generation,
           clock_timestamp(), 'RETENTION'
      FROM moved m;
    GET DIAGNOSTICS moved_rows = ROW_COUNT;
    RETURN moved_rows;
END;
$$;
-- +migrate StatementEnd
DROP INDEX dlq.idx_dlq_messages_place, dlq.idx_dlq_messages_archive_place;
ALTER TABLE dlq.dlq_messages DROP COLUMN dlq_topic_id;
ALTER TABLE dlq.dlq_messages_archive DROP COLUMN dlq_topic_id;
CREATE UNIQUE INDEX idx_dlq_messages_place ON dlq.dlq_messages (tenant_id, dlq_topic, dlq_partition, dlq_offset) WHERE dlq_topic IS NOT NULL;
CREATE INDEX idx_dlq_messages_archive_place ON dlq.dlq_messages_archive (tenant_id, dlq_topic, dlq_partition, dlq_offset) WHERE dlq_topic IS NOT NULL;
SELECT saga.secure_tables();
