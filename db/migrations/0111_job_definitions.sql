-- Job definitions (seed 5's JobDefinition, A-01): what runs, when, and how.

-- +migrate Up
CREATE TABLE jobs.job_definitions (
    id                   uuid         PRIMARY KEY,
    tenant_id            uuid         NOT NULL,
    name                 varchar(255) COLLATE "C" NOT NULL,
    version              bigint       NOT NULL DEFAULT 1,    -- ETag: grows with every change
    spec_version         integer      NOT NULL DEFAULT 1,    -- of which job_definition_versions has each
    type                 varchar(10)  NOT NULL,
    command_name         varchar(255) NOT NULL,
    spec                 jsonb        NOT NULL,              -- jobrun.Spec, the current one
    labels               text[]       NOT NULL DEFAULT '{}', -- name=value, sorted
    enabled              boolean      NOT NULL DEFAULT true,
    paused_at            timestamptz,
    paused_until         timestamptz,                        -- NULL: until somebody resumes it
    pause_reason         varchar(500) NOT NULL DEFAULT '',
    built_in             boolean      NOT NULL DEFAULT false,
    event_type           varchar(255),                       -- of type event
    -- Up to where slots exist as runs, and the first one after it; NULL next_due_at:
    -- there is none. The next slot is always derived from the schedule and
    -- last_materialized_at; next_due_at only finds the definitions that are due (F45).
    last_materialized_at timestamptz  NOT NULL,
    next_due_at          timestamptz,
    created_at           timestamptz  NOT NULL,
    updated_at           timestamptz  NOT NULL,
    created_by           varchar(255) NOT NULL DEFAULT '',
    updated_by           varchar(255) NOT NULL DEFAULT '',
    deleted_at           timestamptz,                        -- its runs are kept
    CONSTRAINT chk_job_definitions_type CHECK (type IN ('time', 'event', 'manual'))
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX idx_job_definitions_name ON jobs.job_definitions (tenant_id, name) WHERE deleted_at IS NULL;
CREATE INDEX idx_job_definitions_due ON jobs.job_definitions (next_due_at) WHERE next_due_at IS NOT NULL AND enabled AND deleted_at IS NULL;
CREATE INDEX idx_job_definitions_event ON jobs.job_definitions (tenant_id, event_type) WHERE event_type IS NOT NULL AND enabled AND deleted_at IS NULL;
CREATE INDEX idx_job_definitions_created_at ON jobs.job_definitions (tenant_id, created_at, id);

CREATE TABLE jobs.job_definition_versions (
    definition_id uuid         NOT NULL,
    tenant_id     uuid         NOT NULL,
    spec_version  integer      NOT NULL,
    spec          jsonb        NOT NULL,
    created_at    timestamptz  NOT NULL,
    created_by    varchar(255) NOT NULL DEFAULT '',
    PRIMARY KEY (definition_id, spec_version)
);

-- Backfills: slots of the past, run on purpose.
CREATE TABLE jobs.backfills (
    id            uuid         PRIMARY KEY,
    tenant_id     uuid         NOT NULL,
    definition_id uuid         NOT NULL,
    version       bigint       NOT NULL DEFAULT 1,
    state         varchar(10)  NOT NULL CHECK (state IN ('RUNNING', 'COMPLETED', 'CANCELED')),
    from_at       timestamptz  NOT NULL,
    to_at         timestamptz  NOT NULL,
    reprocess     varchar(10)  NOT NULL CHECK (reprocess IN ('NONE', 'FAILED', 'COMPLETED')),
    newest_first  boolean      NOT NULL DEFAULT false,
    max_active    integer      NOT NULL CHECK (max_active >= 1),
    overlap       varchar(10)  NOT NULL DEFAULT '',         -- concurrency policy in place of the definition's; '': that one
    cursor_at     timestamptz,                               -- up to which slot runs exist; NULL: none
    created       bigint       NOT NULL DEFAULT 0,
    skipped       bigint       NOT NULL DEFAULT 0,
    reason        varchar(500) NOT NULL DEFAULT '',
    actor         varchar(255) NOT NULL DEFAULT '',
    created_at    timestamptz  NOT NULL,
    ended_at      timestamptz,
    CHECK ((state = 'RUNNING') = (ended_at IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX idx_backfills_definition ON jobs.backfills (tenant_id, definition_id, created_at);
CREATE INDEX idx_backfills_running ON jobs.backfills (created_at) WHERE state = 'RUNNING';

-- Bulk cancels and reruns.
CREATE TABLE jobs.bulks (
    id         uuid         PRIMARY KEY,
    tenant_id  uuid         NOT NULL,
    version    bigint       NOT NULL DEFAULT 1,
    action     varchar(10)  NOT NULL CHECK (action IN ('CANCEL', 'RERUN')),
    state      varchar(10)  NOT NULL CHECK (state IN ('RUNNING', 'COMPLETED', 'CANCELED')),
    filter     jsonb        NOT NULL,                        -- jobrun.Filter
    before     timestamptz  NOT NULL,                        -- only runs that were there when it was asked for
    cursor_at  timestamptz,
    cursor_id  uuid,
    matched    bigint       NOT NULL DEFAULT 0,
    done       bigint       NOT NULL DEFAULT 0,
    skipped    bigint       NOT NULL DEFAULT 0,
    reason     varchar(500) NOT NULL DEFAULT '',
    actor      varchar(255) NOT NULL DEFAULT '',
    created_at timestamptz  NOT NULL,
    ended_at   timestamptz,
    CHECK ((state = 'RUNNING') = (ended_at IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX idx_bulks_created_at ON jobs.bulks (tenant_id, created_at, id);
CREATE INDEX idx_bulks_running ON jobs.bulks (created_at) WHERE state = 'RUNNING';

INSERT INTO saga.saga_schema_version (version, description) VALUES (111, 'job definitions');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 111;
DROP TABLE jobs.bulks, jobs.backfills, jobs.job_definition_versions, jobs.job_definitions;
