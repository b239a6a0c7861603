-- Webhooks: who wants which events, and each event on its way to an endpoint
-- (docs/decisions/0015). The audit trail is the outbox: cursor_* is how far it
-- has been read for a subscription, and moves in the statement that stores the
-- deliveries of what was read.

-- +migrate Up
CREATE TABLE saga.webhooks (
    tenant_id       uuid          NOT NULL,
    id              uuid          NOT NULL,
    url             varchar(2048) NOT NULL,
    description     varchar(1000) NOT NULL DEFAULT '',
    event_types     text[]        NOT NULL DEFAULT '{}', -- empty: all
    workflow_names  text[]        NOT NULL DEFAULT '{}', -- empty: all
    enabled         boolean       NOT NULL,
    disabled_reason text          NOT NULL DEFAULT '',
    disabled_at     timestamptz,
    created_by      varchar(255)  NOT NULL DEFAULT '',
    created_at      timestamptz   NOT NULL,
    updated_at      timestamptz   NOT NULL,
    version         bigint        NOT NULL CHECK (version >= 1),
    failing_since   timestamptz,                         -- health: not a part of the version
    given_up        integer       NOT NULL DEFAULT 0,
    cursor_txid     xid8          NOT NULL,
    cursor_id       bigint        NOT NULL,
    PRIMARY KEY (tenant_id, id),
    CHECK (enabled = (disabled_at IS NULL))
) WITH (fillfactor = 70);

-- Apart from webhooks, so that a role that may read those need not see them.
CREATE TABLE saga.webhook_secrets (
    tenant_id  uuid        NOT NULL,
    webhook_id uuid        NOT NULL,
    place      smallint    NOT NULL CHECK (place IN (0, 1)), -- 0: the present one, 1: the former
    key        bytea       NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,                                  -- NULL: until it is replaced
    PRIMARY KEY (tenant_id, webhook_id, place),
    FOREIGN KEY (tenant_id, webhook_id) REFERENCES saga.webhooks (tenant_id, id) ON DELETE CASCADE
);

CREATE TABLE saga.webhook_deliveries (
    tenant_id       uuid         NOT NULL,
    webhook_id      uuid         NOT NULL,
    id              uuid         NOT NULL, -- UUIDv7; the webhook-id of every attempt
    event_id        bigint       NOT NULL, -- of saga_events; 0: a test
    event_type      varchar(100) NOT NULL,
    saga_id         uuid,                  -- NULL: a test
    body            text         NOT NULL, -- as it is sent, in every attempt
    status          varchar(10)  NOT NULL CHECK (status IN ('pending', 'delivered', 'failed', 'discarded')),
    attempt         integer      NOT NULL DEFAULT 0,
    round_start     integer      NOT NULL DEFAULT 0,
    due_at          timestamptz  NOT NULL,
    lease_until     timestamptz,           -- somebody is sending it; the database's clock
    last_attempt_at timestamptz,
    response_status integer,
    error           text,
    created_at      timestamptz  NOT NULL,
    ended_at        timestamptz,
    PRIMARY KEY (tenant_id, webhook_id, id),
    FOREIGN KEY (tenant_id, webhook_id) REFERENCES saga.webhooks (tenant_id, id) ON DELETE CASCADE,
    CHECK ((status = 'pending') = (ended_at IS NULL))
) WITH (fillfactor = 80);
-- What is to be sent, and what can be sent again.
CREATE INDEX idx_webhook_deliveries_due ON saga.webhook_deliveries (tenant_id, webhook_id, due_at, id) WHERE status = 'pending';
CREATE INDEX idx_webhook_deliveries_failed ON saga.webhook_deliveries (tenant_id, webhook_id, id) WHERE status = 'failed';
-- Retention.
CREATE INDEX idx_webhook_deliveries_created_at ON saga.webhook_deliveries USING brin (created_at);

INSERT INTO saga.saga_schema_version (version, description) VALUES (12, 'webhooks');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 12;
DROP TABLE IF EXISTS saga.webhook_deliveries;
DROP TABLE IF EXISTS saga.webhook_secrets;
DROP TABLE IF EXISTS saga.webhooks;
