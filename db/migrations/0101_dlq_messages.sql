-- Dead letters (seed 3, 002_create_dlq_messages): its ten columns under its
-- names, its CHECK, indexes and trigger, and what correctness needs beside them
-- (docs/decisions/0029). Each index names tenant_id first, and its purpose.

-- +migrate Up
CREATE TABLE dlq.dlq_messages (
    id                uuid         NOT NULL DEFAULT gen_random_uuid(),
    tenant_id         uuid         NOT NULL DEFAULT coalesce(nullif(current_setting('skald.tenant_id', true), ''), '00000000-0000-0000-0000-000000000001')::uuid,
    seq               bigint       NOT NULL GENERATED ALWAYS AS IDENTITY, -- order of arrival
    version           bigint       NOT NULL DEFAULT 1,
    -- seed 3's
    original_topic    varchar(255) COLLATE "C" NOT NULL,    -- so that the index knows what begins with orders.
    error_message     text         NOT NULL,
    retry_count       integer      NOT NULL DEFAULT 0,
    max_retries       integer      NOT NULL DEFAULT 3,
    payload           jsonb,                                -- a view of payload_raw: JSON of at most 256 kB
    status            varchar(50)  NOT NULL DEFAULT 'PENDING',
    created_at        timestamptz  NOT NULL DEFAULT now(),
    updated_at        timestamptz  NOT NULL DEFAULT now(),
    last_retry_at     timestamptz,
    -- what came, byte for byte (defects B16, B17)
    source            varchar(10)  NOT NULL DEFAULT 'REST',
    payload_raw       bytea,
    payload_encoding  varchar(10)  NOT NULL DEFAULT '',
    message_key       bytea,
    headers           bytea,                                -- names and values, length-prefixed, in order
    dlq_topic         varchar(255),                         -- where ingestion read it
    dlq_partition     integer,
    dlq_offset        bigint,
    original_partition integer,
    original_offset   bigint,
    original_timestamp timestamptz,
    consumer_group    varchar(255) NOT NULL DEFAULT '',
    error_type        varchar(255) NOT NULL DEFAULT '',
    error_class       varchar(10)  NOT NULL DEFAULT 'UNKNOWN',
    error_stack       text         NOT NULL DEFAULT '',
    fingerprint       varchar(32)  NOT NULL DEFAULT '',
    terms             integer[]    NOT NULL DEFAULT '{}',   -- what lists filter by, hashed: internal/postgres/letters_terms.go
    -- what it stands for
    saga_id           uuid,
    step_index        integer,
    step_name         varchar(255),
    step_action       varchar(50),
    job_run_id        uuid,
    webhook_id        uuid,
    delivery_id       uuid,
    correlation_id    varchar(255) NOT NULL DEFAULT '',
    trace_id          varchar(255) NOT NULL DEFAULT '',
    dedupe_key        varchar(255),
    labels            text[]       NOT NULL DEFAULT '{}',
    assignee          varchar(255) NOT NULL DEFAULT '',
    note              text         NOT NULL DEFAULT '',
    -- its retries
    resolution        varchar(10),
    next_retry_at     timestamptz,                          -- NULL: not by itself
    terminal_at       timestamptz,                          -- the clock of retention (defect B7)
    retry_token       uuid,
    retry_lease_until timestamptz,
    attempts          integer      NOT NULL DEFAULT 0,    -- claims ever; grows also with what does not count
    redrive_id        uuid,
    target            jsonb        NOT NULL DEFAULT '{"kind": "kafka"}',
    revision          integer      NOT NULL DEFAULT 0,
    ordered           boolean      NOT NULL DEFAULT false,
    root_id           uuid         NOT NULL,
    parent_id         uuid,
    generation        integer      NOT NULL DEFAULT 0,
    PRIMARY KEY (id),
    CONSTRAINT chk_dlq_messages_status CHECK (status IN ('PENDING', 'RETRYING', 'RESOLVED', 'DEAD')),
    CONSTRAINT chk_dlq_messages_source CHECK (source IN ('KAFKA', 'REST', 'SAGA', 'JOB', 'WEBHOOK')),
    CONSTRAINT chk_dlq_messages_class CHECK (error_class IN ('TRANSIENT', 'PERMANENT', 'UNKNOWN')),
    CONSTRAINT chk_dlq_messages_encoding CHECK (payload_encoding IN ('', 'json', 'text', 'binary')),
    CONSTRAINT chk_dlq_messages_resolution CHECK (CASE status
        WHEN 'RESOLVED' THEN resolution IN ('REDRIVEN', 'CONFIRMED', 'BOUNCED', 'MANUAL') AND resolution IS NOT NULL
        WHEN 'DEAD' THEN resolution IN ('DISCARDED', 'EXHAUSTED', 'POISON') AND resolution IS NOT NULL
        ELSE resolution IS NULL END),
    -- Invariant D3, defect B12: no PENDING letter that no query can fetch.
    CONSTRAINT chk_dlq_messages_retries CHECK (retry_count >= 0 AND retry_count <= max_retries AND (status <> 'PENDING' OR retry_count < max_retries)),
    CONSTRAINT chk_dlq_messages_lease CHECK ((status = 'RETRYING') = (retry_token IS NOT NULL) AND (retry_token IS NULL) = (retry_lease_until IS NULL)),
    CONSTRAINT chk_dlq_messages_terminal CHECK ((status IN ('RESOLVED', 'DEAD')) = (terminal_at IS NOT NULL))
) WITH (fillfactor = 85);

-- Lists, newest first: of each status of a topic, a group, and so on. Counts of
-- what is open, by topic or group, read no row: what was discarded is not.
CREATE INDEX idx_dlq_messages_created_at ON dlq.dlq_messages (tenant_id, created_at, id);
CREATE INDEX idx_dlq_messages_original_topic ON dlq.dlq_messages (tenant_id, original_topic, status, created_at, id) INCLUDE (resolution);
CREATE INDEX idx_dlq_messages_group ON dlq.dlq_messages (tenant_id, fingerprint, status, created_at, id) INCLUDE (resolution);
CREATE INDEX idx_dlq_messages_status ON dlq.dlq_messages (tenant_id, status, created_at, id);
-- What has not been sorted in yet is looked through by every list: a megabyte of it
-- is some two thousand letters, and a few milliseconds.
CREATE INDEX idx_dlq_messages_terms ON dlq.dlq_messages USING gin (terms) WITH (gin_pending_list_limit = 1024);
CREATE INDEX idx_dlq_messages_resolution ON dlq.dlq_messages (tenant_id, resolution, created_at, id) WHERE resolution IS NOT NULL;
-- Rare ones: a letter has no entry in these when it arrives.
CREATE INDEX idx_dlq_messages_retried ON dlq.dlq_messages (tenant_id, last_retry_at, created_at, id) WHERE last_retry_at IS NOT NULL;
CREATE INDEX idx_dlq_messages_retry_count ON dlq.dlq_messages (tenant_id, retry_count, created_at, id) WHERE retry_count > 0;
CREATE INDEX idx_dlq_messages_redrive ON dlq.dlq_messages (tenant_id, redrive_id, created_at, id) WHERE redrive_id IS NOT NULL;
CREATE INDEX idx_dlq_messages_generation ON dlq.dlq_messages (tenant_id, created_at, id, generation) WHERE generation > 0;
CREATE INDEX idx_dlq_messages_lineage ON dlq.dlq_messages (tenant_id, root_id, generation) WHERE generation > 0;
-- The loops.
CREATE INDEX idx_dlq_messages_due ON dlq.dlq_messages (next_retry_at, seq) WHERE status = 'PENDING' AND next_retry_at IS NOT NULL;
CREATE INDEX idx_dlq_messages_lease ON dlq.dlq_messages (retry_lease_until) WHERE status = 'RETRYING';
CREATE INDEX idx_dlq_messages_terminal ON dlq.dlq_messages (terminal_at, id) WHERE status IN ('RESOLVED', 'DEAD');
-- Letters of one key, in the order of their arrival.
CREATE INDEX idx_dlq_messages_key ON dlq.dlq_messages (tenant_id, original_topic, message_key, seq) WHERE ordered AND status IN ('PENDING', 'RETRYING');
-- What exists once: a record of Kafka, a dedupe key.
CREATE UNIQUE INDEX idx_dlq_messages_place ON dlq.dlq_messages (tenant_id, dlq_topic, dlq_partition, dlq_offset) WHERE dlq_topic IS NOT NULL;
CREATE UNIQUE INDEX idx_dlq_messages_dedupe ON dlq.dlq_messages (tenant_id, dedupe_key) WHERE dedupe_key IS NOT NULL;

CREATE TRIGGER trg_dlq_messages_updated_at BEFORE UPDATE ON dlq.dlq_messages
    FOR EACH ROW WHEN (NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at) EXECUTE FUNCTION dlq.update_updated_at();

-- Seed 3's own statements (its section 主要クエリパターン) know nothing of the
-- columns beside its ten: what they imply is filled in.
-- +migrate StatementBegin
CREATE FUNCTION dlq.complete_message() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    NEW.root_id := coalesce(NEW.root_id, NEW.id);
    IF NEW.status = 'RETRYING' THEN
        NEW.retry_token := coalesce(NEW.retry_token, gen_random_uuid());
        NEW.retry_lease_until := coalesce(NEW.retry_lease_until, clock_timestamp() + interval '1 minute');
    ELSE
        NEW.retry_token := NULL;
        NEW.retry_lease_until := NULL;
    END IF;
    IF NEW.status IN ('RESOLVED', 'DEAD') THEN
        NEW.terminal_at := coalesce(NEW.terminal_at, now());
        NEW.resolution := coalesce(NEW.resolution, CASE NEW.status WHEN 'RESOLVED' THEN 'REDRIVEN' ELSE 'EXHAUSTED' END);
        NEW.next_retry_at := NULL;
    ELSE
        NEW.terminal_at := NULL;
        NEW.resolution := NULL;
    END IF;
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd
CREATE TRIGGER trg_dlq_messages_complete BEFORE INSERT OR UPDATE ON dlq.dlq_messages
    FOR EACH ROW WHEN (NEW.root_id IS NULL OR (NEW.status = 'RETRYING') <> (NEW.retry_token IS NOT NULL)
                       OR (NEW.status IN ('RESOLVED', 'DEAD')) <> (NEW.terminal_at IS NOT NULL)
                       OR (NEW.status IN ('RESOLVED', 'DEAD')) <> (NEW.resolution IS NOT NULL))
    EXECUTE FUNCTION dlq.complete_message();

-- Contents as people have edited them; the original never changes.
CREATE TABLE dlq.dlq_revisions (
    message_id  uuid         NOT NULL,
    tenant_id   uuid         NOT NULL,
    number      integer      NOT NULL CHECK (number >= 1),
    payload_raw bytea,
    message_key bytea,
    headers     bytea,
    patch       jsonb,
    author      varchar(255) NOT NULL,
    reason      text         NOT NULL DEFAULT '',
    created_at  timestamptz  NOT NULL,
    PRIMARY KEY (message_id, number)
);

-- Retries. They outlive the letter's move to the archive.
CREATE TABLE dlq.dlq_attempts (
    message_id  uuid        NOT NULL,
    tenant_id   uuid        NOT NULL,
    number      integer     NOT NULL,
    token       uuid        NOT NULL,
    revision    integer     NOT NULL DEFAULT 0,
    target      jsonb       NOT NULL,
    outcome     varchar(12) NOT NULL CHECK (outcome IN ('ACKNOWLEDGED', 'FAILED', 'UNCERTAIN', 'ABANDONED', 'WITHDRAWN')),
    error       text        NOT NULL DEFAULT '',
    status_code integer     NOT NULL DEFAULT 0,
    written_topic     varchar(255),
    written_partition integer,
    written_offset    bigint,
    redrive_id  uuid,
    actor       varchar(255) NOT NULL DEFAULT '',
    started_at  timestamptz NOT NULL,
    ended_at    timestamptz NOT NULL,
    PRIMARY KEY (message_id, number)
);

-- One kind of error each.
CREATE TABLE dlq.dlq_groups (
    tenant_id   uuid         NOT NULL,
    fingerprint varchar(32)  NOT NULL,
    version     bigint       NOT NULL DEFAULT 1,
    state       varchar(12)  NOT NULL DEFAULT 'NEW' CHECK (state IN ('NEW', 'ACKNOWLEDGED', 'RESOLVED', 'REGRESSED')),
    topic       varchar(255) COLLATE "C" NOT NULL,
    error_type  varchar(255) NOT NULL DEFAULT '',
    message     text         NOT NULL,
    received    bigint       NOT NULL DEFAULT 0,
    first_seen  timestamptz  NOT NULL,
    last_seen   timestamptz  NOT NULL,
    sample_id   uuid         NOT NULL,
    assignee    varchar(255) NOT NULL DEFAULT '',
    note        text         NOT NULL DEFAULT '',
    updated_at  timestamptz  NOT NULL,
    PRIMARY KEY (tenant_id, fingerprint)
) WITH (fillfactor = 70);
CREATE INDEX idx_dlq_groups_seen ON dlq.dlq_groups (tenant_id, last_seen, fingerprint);
CREATE INDEX idx_dlq_groups_topic ON dlq.dlq_groups (tenant_id, topic, last_seen, fingerprint);

-- Arrivals per topic and minute: growth without counting letters.
CREATE TABLE dlq.dlq_arrivals (
    tenant_id uuid         NOT NULL,
    topic     varchar(255) COLLATE "C" NOT NULL,
    minute    timestamptz  NOT NULL,
    received  bigint       NOT NULL,
    PRIMARY KEY (tenant_id, topic, minute)
) WITH (fillfactor = 70);

CREATE TABLE dlq.dlq_policies (
    tenant_id       uuid         NOT NULL,
    topic           varchar(255) COLLATE "C" NOT NULL, -- '': of topics that have none
    version         bigint       NOT NULL,
    max_retries     integer      NOT NULL,
    backoff         jsonb        NOT NULL,
    auto_retry      boolean      NOT NULL,
    ordered         boolean      NOT NULL,
    retention_days  integer      NOT NULL,
    archive_days    integer      NOT NULL,
    max_generations integer      NOT NULL,
    alert           jsonb        NOT NULL DEFAULT '{}',
    redact          text[]       NOT NULL DEFAULT '{}',
    allowed_targets text[]       NOT NULL DEFAULT '{}',
    updated_by      varchar(255) NOT NULL DEFAULT '',
    updated_at      timestamptz  NOT NULL,
    PRIMARY KEY (tenant_id, topic)
);

-- Bulk operations, and the letters each is for: a snapshot of ids.
CREATE TABLE dlq.dlq_redrives (
    id            uuid         PRIMARY KEY,
    tenant_id     uuid         NOT NULL,
    version       bigint       NOT NULL DEFAULT 1,
    action        varchar(10)  NOT NULL CHECK (action IN ('RETRY', 'DISCARD', 'RESOLVE', 'REQUEUE', 'DELETE')),
    state         varchar(20)  NOT NULL CHECK (state IN ('PENDING', 'AWAITING_APPROVAL', 'RUNNING', 'PAUSED', 'HALTED', 'COMPLETED', 'CANCELED')),
    halt_reason   varchar(30)  NOT NULL DEFAULT '',
    ids           uuid[],
    filter        jsonb,                           -- dlq.Filter
    query         jsonb,                           -- as it was asked for
    max_messages  bigint       NOT NULL DEFAULT 0,
    rate          double precision NOT NULL CHECK (rate > 0),
    concurrency   integer      NOT NULL,
    key_order     varchar(10)  NOT NULL,
    target        jsonb,
    transform     jsonb,
    force         boolean      NOT NULL DEFAULT false,
    canary        jsonb,
    stop_on       jsonb        NOT NULL DEFAULT '{}',
    scheduled_for timestamptz,
    approval      boolean      NOT NULL DEFAULT false,
    request_hash  bytea,                           -- of the request whose Idempotency-Key made the id
    reason        text         NOT NULL DEFAULT '',
    actor         varchar(255) NOT NULL DEFAULT '',
    approved_by   varchar(255) NOT NULL DEFAULT '',
    gathered      boolean      NOT NULL DEFAULT false,
    gathered_at   timestamptz,                     -- cursor of gathering
    gathered_id   uuid,
    matched       bigint       NOT NULL DEFAULT 0,
    done          bigint       NOT NULL DEFAULT 0,
    failed        bigint       NOT NULL DEFAULT 0,
    skipped       bigint       NOT NULL DEFAULT 0,
    bounced       bigint       NOT NULL DEFAULT 0,
    allowance     double precision NOT NULL DEFAULT 0, -- letters that may be taken now, at granted_at
    granted_at    timestamptz,
    canary_ok     boolean      NOT NULL DEFAULT false,
    watched_at    timestamptz,
    created_at    timestamptz  NOT NULL,
    started_at    timestamptz,
    ended_at      timestamptz,
    updated_at    timestamptz  NOT NULL,
    CHECK ((state IN ('COMPLETED', 'CANCELED')) = (ended_at IS NOT NULL)),
    CHECK ((ids IS NULL) <> (filter IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX idx_dlq_redrives_created_at ON dlq.dlq_redrives (tenant_id, created_at, id);
CREATE INDEX idx_dlq_redrives_active ON dlq.dlq_redrives (created_at) WHERE state IN ('PENDING', 'RUNNING');

CREATE TABLE dlq.dlq_redrive_items (
    redrive_id  uuid        NOT NULL,
    tenant_id   uuid        NOT NULL,
    seq         bigint      NOT NULL,
    message_id  uuid        NOT NULL,
    state       varchar(10) NOT NULL DEFAULT 'WAITING' CHECK (state IN ('WAITING', 'TAKEN', 'DONE', 'FAILED', 'SKIPPED', 'BOUNCED')),
    lease_until timestamptz,
    detail      text        NOT NULL DEFAULT '',
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (redrive_id, seq)
) WITH (fillfactor = 70);
CREATE INDEX idx_dlq_redrive_items_waiting ON dlq.dlq_redrive_items (redrive_id, seq) WHERE state = 'WAITING';
CREATE INDEX idx_dlq_redrive_items_taken ON dlq.dlq_redrive_items (redrive_id, message_id) WHERE state = 'TAKEN';
CREATE UNIQUE INDEX idx_dlq_redrive_items_message ON dlq.dlq_redrive_items (redrive_id, message_id);

-- Lists by terms: the index of an operator that is not known to leak nothing
-- serves only those whom no policy stops (migration 0090).
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

INSERT INTO saga.saga_schema_version (version, description) VALUES (101, 'dead letters');

-- +migrate Down
-- +migrate StatementBegin
DO $$
BEGIN
    -- Dropping a queue that is not empty would lose letters (defect B19).
    IF EXISTS (SELECT FROM dlq.dlq_messages) AND coalesce(current_setting('skald.force_down', true), '') <> 'yes' THEN
        RAISE EXCEPTION 'dlq.dlq_messages is not empty: SET skald.force_down = ''yes'' to drop it all the same';
    END IF;
END;
$$;
-- +migrate StatementEnd
DELETE FROM saga.saga_schema_version WHERE version = 101;
DROP VIEW dlq.tenant_messages;
DROP TABLE dlq.dlq_redrive_items, dlq.dlq_redrives, dlq.dlq_policies, dlq.dlq_arrivals, dlq.dlq_groups, dlq.dlq_attempts, dlq.dlq_revisions, dlq.dlq_messages;
DROP FUNCTION dlq.complete_message();
