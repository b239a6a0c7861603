-- Participants with a name (decision 0144): their settings and the gate in front of each, what the
-- nodes have counted of their calls, and the sagas that wait for them. parked has no foreign key
-- to the sagas: what it has of a saga that has moved on is ignored and swept.

-- +migrate Up
CREATE TABLE saga.participants (
    tenant_id    uuid         NOT NULL,
    name         varchar(255) NOT NULL,
    base_url     text         NOT NULL,
    settings     jsonb        NOT NULL,
    version      bigint       NOT NULL CHECK (version > 0),
    epoch        bigint       NOT NULL CHECK (epoch > 0),
    state        varchar(10)  NOT NULL CHECK (state IN ('OPEN', 'HELD', 'RELEASING')),
    since        timestamptz  NOT NULL,
    reason       text         NOT NULL DEFAULT '',
    held_by      text         NOT NULL DEFAULT '',
    counted_from timestamptz  NOT NULL,
    next_canary  timestamptz,
    rate         double precision NOT NULL DEFAULT 0,
    waved_at     timestamptz,
    grown_at     timestamptz,
    created_by   text         NOT NULL,
    created_at   timestamptz  NOT NULL,
    updated_at   timestamptz  NOT NULL,
    PRIMARY KEY (tenant_id, name)
);
CREATE UNIQUE INDEX participants_base_url ON saga.participants (tenant_id, base_url);

-- One row per node and second with calls.
CREATE TABLE saga.participant_calls (
    tenant_id   uuid         NOT NULL,
    participant varchar(255) NOT NULL,
    bucket      timestamptz  NOT NULL,
    node        text         NOT NULL,
    calls       bigint       NOT NULL,
    failed      bigint       NOT NULL,
    let         bigint       NOT NULL,
    let_failed  bigint       NOT NULL,
    let_ok_at   timestamptz,
    pause       timestamptz,
    codes       jsonb        NOT NULL,
    latencies   bigint[]     NOT NULL,
    PRIMARY KEY (tenant_id, participant, bucket, node)
);
CREATE INDEX participant_calls_bucket ON saga.participant_calls (bucket);

CREATE TABLE saga.parked (
    tenant_id   uuid         NOT NULL,
    saga_id     uuid         NOT NULL,
    participant varchar(255) NOT NULL,
    state       smallint     NOT NULL,
    step        integer      NOT NULL,
    attempt     integer      NOT NULL,
    parked_at   timestamptz  NOT NULL,
    granted_at  timestamptz,
    PRIMARY KEY (tenant_id, saga_id)
);
CREATE INDEX parked_waiting ON saga.parked (tenant_id, participant, parked_at, saga_id) WHERE granted_at IS NULL;
CREATE INDEX parked_granted ON saga.parked (granted_at) WHERE granted_at IS NOT NULL;

SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (464, 'participants with a name');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 464;
DROP TABLE saga.parked;
DROP TABLE saga.participant_calls;
DROP TABLE saga.participants;
