-- The archive of dead letters (seed 3, 003_add_partition_management). Explicit
-- columns (B4, B5), one statement per batch: the rows deleted are the rows
-- inserted (B1), in an order (B2), by a clock that notes do not move (B7).

-- +migrate Up
CREATE TABLE dlq.dlq_messages_archive (
    id                uuid         NOT NULL,
    tenant_id         uuid         NOT NULL,
    seq               bigint       NOT NULL,
    version           bigint       NOT NULL,
    original_topic    varchar(255) COLLATE "C" NOT NULL,
    error_message     text         NOT NULL,
    retry_count       integer      NOT NULL,
    max_retries       integer      NOT NULL,
    payload           jsonb,
    status            varchar(50)  NOT NULL,
    created_at        timestamptz  NOT NULL,
    updated_at        timestamptz  NOT NULL,
    last_retry_at     timestamptz,
    source            varchar(10)  NOT NULL,
    payload_raw       bytea,
    payload_encoding  varchar(10)  NOT NULL,
    message_key       bytea,
    headers           bytea,
    dlq_topic         varchar(255),
    dlq_partition     integer,
    dlq_offset        bigint,
    original_partition integer,
    original_offset   bigint,
    original_timestamp timestamptz,
    consumer_group    varchar(255) NOT NULL,
    error_type        varchar(255) NOT NULL,
    error_class       varchar(10)  NOT NULL,
    error_stack       text         NOT NULL,
    fingerprint       varchar(32)  NOT NULL,
    terms             integer[]    NOT NULL,
    saga_id           uuid,
    step_index        integer,
    step_name         varchar(255),
    step_action       varchar(50),
    job_run_id        uuid,
    webhook_id        uuid,
    delivery_id       uuid,
    correlation_id    varchar(255) NOT NULL,
    trace_id          varchar(255) NOT NULL,
    dedupe_key        varchar(255),
    labels            text[]       NOT NULL,
    assignee          varchar(255) NOT NULL,
    note              text         NOT NULL,
    resolution        varchar(10),
    next_retry_at     timestamptz,
    terminal_at       timestamptz,
    retry_token       uuid,
    retry_lease_until timestamptz,
    attempts          integer      NOT NULL,
    redrive_id        uuid,
    target            jsonb        NOT NULL,
    revision          integer      NOT NULL,
    ordered           boolean      NOT NULL,
    root_id           uuid         NOT NULL,
    parent_id         uuid,
    generation        integer      NOT NULL,
    archived_at       timestamptz  NOT NULL,
    archive_reason    varchar(20)  NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT chk_dlq_messages_archive_status CHECK (status IN ('RESOLVED', 'DEAD'))
);
CREATE INDEX idx_dlq_messages_archive_topic ON dlq.dlq_messages_archive (tenant_id, original_topic, archived_at, id);
CREATE INDEX idx_dlq_messages_archive_at ON dlq.dlq_messages_archive (tenant_id, archived_at, id);
CREATE INDEX idx_dlq_messages_archive_resolution ON dlq.dlq_messages_archive (tenant_id, resolution, archived_at, id);
CREATE INDEX idx_dlq_messages_archive_age ON dlq.dlq_messages_archive (archived_at, id);
CREATE INDEX idx_dlq_messages_archive_lineage ON dlq.dlq_messages_archive (tenant_id, root_id);
-- A record that is read once more is known, also when its letter is archived.
CREATE INDEX idx_dlq_messages_archive_place ON dlq.dlq_messages_archive (tenant_id, dlq_topic, dlq_partition, dlq_offset) WHERE dlq_topic IS NOT NULL;
CREATE INDEX idx_dlq_messages_archive_terms ON dlq.dlq_messages_archive USING gin (terms);

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

-- One batch. p_days NULL: each letter by its topic's policy, else its tenant's,
-- else 30. EXHAUSTED and POISON ones need a person (defect B8): they leave only
-- three periods after they died, with a group that nobody has resolved. Returns
-- how many were moved.
-- +migrate StatementBegin
CREATE FUNCTION dlq.archive_batch(p_days integer, p_default_days integer, p_limit integer) RETURNS integer
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

-- Seed 3's procedure. It commits after each batch, so it is called outside of a
-- transaction (B3); its arguments are checked (B22). Skald itself calls
-- archive_batch.
-- +migrate StatementBegin
CREATE PROCEDURE dlq.archive_old_dlq_messages(p_retention_days integer DEFAULT 30, p_batch_size integer DEFAULT 1000)
LANGUAGE plpgsql AS $$
DECLARE
    v_archived_count integer := 0;
    v_batch_count integer;
BEGIN
    IF p_retention_days IS NULL OR p_retention_days < 0 OR p_batch_size IS NULL OR p_batch_size < 1 THEN
        RAISE EXCEPTION 'p_retention_days must be 0 or more and p_batch_size 1 or more' USING ERRCODE = '22023';
    END IF;
    LOOP
        v_batch_count := dlq.archive_batch(p_retention_days, p_retention_days, p_batch_size);
        v_archived_count := v_archived_count + v_batch_count;
        EXIT WHEN v_batch_count = 0;
        COMMIT;
    END LOOP;
    RAISE NOTICE 'Archived % DLQ messages older than % days', v_archived_count, p_retention_days;
END;
$$;
-- +migrate StatementEnd

-- Deletes a batch of archived letters, with their attempts and revisions, whose
-- time has passed (B6). p_days NULL: by policy, else p_default_days.
-- +migrate StatementBegin
CREATE FUNCTION dlq.purge_batch(p_days integer, p_default_days integer, p_limit integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    purged integer;
BEGIN
    WITH doomed AS MATERIALIZED (
        SELECT m.id FROM dlq.dlq_messages_archive m
          LEFT JOIN dlq.dlq_policies own ON own.tenant_id = m.tenant_id AND own.topic = m.original_topic
          LEFT JOIN dlq.dlq_policies common ON common.tenant_id = m.tenant_id AND common.topic = ''
         WHERE m.archived_at < clock_timestamp() - make_interval(days => coalesce(p_days, own.archive_days, common.archive_days, p_default_days))
         ORDER BY m.archived_at, m.id
         LIMIT p_limit
           FOR UPDATE OF m SKIP LOCKED
    ), attempts AS (
        DELETE FROM dlq.dlq_attempts a USING doomed d WHERE a.message_id = d.id
    ), revisions AS (
        DELETE FROM dlq.dlq_revisions r USING doomed d WHERE r.message_id = d.id
    )
    DELETE FROM dlq.dlq_messages_archive m USING doomed d WHERE m.id = d.id;
    GET DIAGNOSTICS purged = ROW_COUNT;
    RETURN purged;
END;
$$;
-- +migrate StatementEnd

-- +migrate StatementBegin
CREATE FUNCTION dlq.purge_dlq_archive(p_days integer DEFAULT 365, p_batch_size integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF p_days IS NULL OR p_days < 0 OR p_batch_size IS NULL OR p_batch_size < 1 THEN
        RAISE EXCEPTION 'p_days must be 0 or more and p_batch_size 1 or more' USING ERRCODE = '22023';
    END IF;
    RETURN dlq.purge_batch(p_days, p_days, p_batch_size);
END;
$$;
-- +migrate StatementEnd

SELECT saga.secure_tables();

INSERT INTO saga.saga_schema_version (version, description) VALUES (102, 'dead letters: archive');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 102;
DROP FUNCTION dlq.purge_dlq_archive(integer, integer);
DROP FUNCTION dlq.purge_batch(integer, integer, integer);
DROP PROCEDURE dlq.archive_old_dlq_messages(integer, integer);
DROP FUNCTION dlq.archive_batch(integer, integer, integer);
DROP VIEW dlq.tenant_messages_archive;
DROP TABLE dlq.dlq_messages_archive;
