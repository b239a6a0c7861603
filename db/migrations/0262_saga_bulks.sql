-- Bulk operations on sagas, and what became of each saga (docs/bulk.md).

-- +migrate Up
CREATE TABLE saga.saga_bulks (
    id              uuid             PRIMARY KEY,
    tenant_id       uuid             NOT NULL,
    version         bigint           NOT NULL DEFAULT 1,
    steps           bigint           NOT NULL DEFAULT 0,       -- each is stored once
    action          varchar(30)      NOT NULL,
    state           varchar(10)      NOT NULL CHECK (state IN ('RUNNING', 'COMPLETED', 'CANCELED')),
    asked           jsonb,                                     -- the filter as it was sent
    filter          jsonb,                                     -- what it means: saga.Filter
    ids             uuid[],
    before          timestamptz      NOT NULL,                 -- of a filter: only sagas that were there when it was asked for
    rate            double precision NOT NULL DEFAULT 0,       -- sagas per second; 0: no limit
    paced_at        timestamptz      NOT NULL,
    expected        bigint           NOT NULL DEFAULT 0,
    expected_capped boolean          NOT NULL DEFAULT false,
    cursor_at       timestamptz,
    cursor_id       uuid,
    matched         bigint           NOT NULL DEFAULT 0,
    done            bigint           NOT NULL DEFAULT 0,
    skipped         bigint           NOT NULL DEFAULT 0,
    reason          varchar(500)     NOT NULL DEFAULT '',
    actor           varchar(255)     NOT NULL DEFAULT '',
    created_at      timestamptz      NOT NULL,
    ended_at        timestamptz,
    CHECK ((state = 'RUNNING') = (ended_at IS NULL)),
    CHECK ((filter IS NULL) <> (ids IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX idx_saga_bulks_created_at ON saga.saga_bulks (tenant_id, created_at, id);
CREATE INDEX idx_saga_bulks_running ON saga.saga_bulks (created_at) WHERE state = 'RUNNING';

CREATE TABLE saga.saga_bulk_items (
    tenant_id uuid         NOT NULL,
    bulk_id   uuid         NOT NULL,
    position  bigint       NOT NULL,                           -- from 1, in the order in which they were dealt with
    saga_id   uuid         NOT NULL,
    outcome   varchar(10)  NOT NULL CHECK (outcome IN ('DONE', 'SKIPPED')),
    code      varchar(100) NOT NULL DEFAULT '',
    detail    varchar(500) NOT NULL DEFAULT '',
    at        timestamptz  NOT NULL,
    PRIMARY KEY (tenant_id, bulk_id, position)
);
CREATE INDEX idx_saga_bulk_items_skipped ON saga.saga_bulk_items (tenant_id, bulk_id, position) WHERE outcome = 'SKIPPED';

SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (262, 'bulk operations on sagas');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 262;
DROP TABLE saga.saga_bulk_items, saga.saga_bulks;
