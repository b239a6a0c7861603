-- Who drives what (DESIGN.md section 4.4), and what clients have asked for already.

-- +migrate Up
CREATE TABLE IF NOT EXISTS saga.engine_nodes (
    id            bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- one per incarnation: it only grows
    node_name     varchar(255) NOT NULL,
    lease_until   timestamptz  NOT NULL, -- set and compared by the database's clock
    registered_at timestamptz  NOT NULL DEFAULT now(),
    renewed_at    timestamptz  NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS idx_engine_nodes_node_name ON saga.engine_nodes (node_name);

CREATE TABLE IF NOT EXISTS saga.idempotency_keys (
    tenant_id    uuid         NOT NULL,
    principal    varchar(255) NOT NULL,
    route        varchar(255) NOT NULL,
    key          varchar(255) NOT NULL,
    request_hash bytea        NOT NULL,
    saga_id      uuid         NOT NULL,
    created_at   timestamptz  NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, principal, route, key)
);
CREATE INDEX IF NOT EXISTS idx_idempotency_keys_created_at ON saga.idempotency_keys USING brin (created_at);

-- Keys that all nodes of a deployment share, made by whichever needs one first.
CREATE TABLE IF NOT EXISTS saga.deployment_secrets (
    name       varchar(64) PRIMARY KEY,
    value      bytea       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

INSERT INTO saga.saga_schema_version (version, description) VALUES (6, 'engine nodes and idempotency keys');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 6;
DROP TABLE IF EXISTS saga.deployment_secrets;
DROP TABLE IF EXISTS saga.idempotency_keys;
DROP TABLE IF EXISTS saga.engine_nodes;
