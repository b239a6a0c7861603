-- Job runs (seed 5, 004_*): the schema, who leads, who works, and the settings.

-- +migrate Up
CREATE SCHEMA jobs;

-- One row says who leads the scheduler. It is logged, not UNLOGGED, and never
-- deleted: after a crash the epoch must not begin again (J-02, S11).
CREATE TABLE jobs.leader (
    name        varchar(50)  PRIMARY KEY,
    leader_id   uuid         NOT NULL,               -- one per process start
    node        varchar(255) NOT NULL,
    epoch       bigint       NOT NULL CHECK (epoch >= 1),
    acquired_at timestamptz  NOT NULL,
    expires_at  timestamptz  NOT NULL,               -- by the database's clock
    -- What it has done, for those who ask whether it is alive (O5).
    swept_at    timestamptz,
    -- Makes the epoch part of a key: only a change of it waits for those who hold the
    -- row FOR KEY SHARE, and they are the leader's own writes (J5). Renewals do not.
    CONSTRAINT uq_leader_epoch UNIQUE (name, epoch)
) WITH (fillfactor = 50);

-- Nodes that lead or would lead (A-09).
CREATE TABLE jobs.schedulers (
    leader_id  uuid         PRIMARY KEY,
    node       varchar(255) NOT NULL,
    started_at timestamptz  NOT NULL,
    seen_at    timestamptz  NOT NULL
) WITH (fillfactor = 50);

-- Workers: a row per process start (S15); the id is never used again.
CREATE TABLE jobs.workers (
    id             uuid         PRIMARY KEY,
    tenant_id      uuid         NOT NULL,
    version        bigint       NOT NULL DEFAULT 1,
    state          varchar(10)  NOT NULL DEFAULT 'ACTIVE',
    name           varchar(255) NOT NULL,
    node           varchar(255) NOT NULL DEFAULT '',
    pid            bigint       NOT NULL DEFAULT 0,
    sdk            varchar(100) NOT NULL DEFAULT '',
    sdk_version    varchar(100) NOT NULL DEFAULT '',
    labels         text[]       NOT NULL DEFAULT '{}',   -- name=value, sorted
    queues         text[]       NOT NULL,
    commands       text[]       NOT NULL DEFAULT '{}',   -- empty: any
    max_runs       integer      NOT NULL CHECK (max_runs >= 1),
    principal      varchar(255) NOT NULL DEFAULT '',     -- whose credential registered it
    running        integer      NOT NULL DEFAULT 0,      -- as its last heartbeat told
    load           double precision NOT NULL DEFAULT 0,
    heartbeat_seq  bigint       NOT NULL DEFAULT 0,
    registered_at  timestamptz  NOT NULL,
    heartbeat_at   timestamptz  NOT NULL,                -- by the database's clock
    drain_at       timestamptz,
    lost_at        timestamptz,
    detached_at    timestamptz,
    reason         varchar(500) NOT NULL DEFAULT '',
    CONSTRAINT chk_workers_state CHECK (state IN ('ACTIVE', 'DRAINING', 'LOST', 'DETACHED'))
) WITH (fillfactor = 70);
CREATE INDEX idx_workers_tenant ON jobs.workers (tenant_id, registered_at, id);
CREATE INDEX idx_workers_alive ON jobs.workers (heartbeat_at) WHERE state <> 'DETACHED';

-- What an answered claim gave, so that a claim that is repeated gives the same.
CREATE TABLE jobs.claims (
    worker_id  uuid        NOT NULL,
    claim_id   varchar(100) NOT NULL,
    tenant_id  uuid        NOT NULL,
    run_ids    uuid[]      NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (worker_id, claim_id)
);
CREATE INDEX idx_claims_created_at ON jobs.claims USING brin (created_at);

-- Settings of the deployment that differ from their defaults (A-07).
CREATE TABLE jobs.settings (
    name       varchar(100) PRIMARY KEY,
    value      jsonb        NOT NULL,
    updated_by varchar(255) NOT NULL DEFAULT '',
    updated_at timestamptz  NOT NULL
);
-- The version of all of them: ETag, and what workers are told.
CREATE TABLE jobs.settings_version (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint  NOT NULL
);
INSERT INTO jobs.settings_version (version) VALUES (1);
CREATE TABLE jobs.settings_history (
    version    bigint       NOT NULL,
    name       varchar(100) NOT NULL,
    old_value  jsonb,                                    -- NULL: the default
    new_value  jsonb,
    changed_by varchar(255) NOT NULL DEFAULT '',
    reason     varchar(500) NOT NULL DEFAULT '',
    changed_at timestamptz  NOT NULL,
    PRIMARY KEY (version, name)
);

INSERT INTO saga.saga_schema_version (version, description) VALUES (110, 'job runs: leader, workers, settings');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 110;
DROP TABLE jobs.settings_history, jobs.settings_version, jobs.settings, jobs.claims, jobs.workers, jobs.schedulers, jobs.leader;
DROP SCHEMA jobs;
