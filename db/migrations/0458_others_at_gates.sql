-- What waits at the gates of participants beside sagas (decision 0152): dead letters whose turn to be retried had come
-- (kind letter), those that a redrive has reached (item, with its redrive), and webhooks with deliveries (webhook).

-- +migrate Up
CREATE TABLE saga.gate_waits (
    tenant_id   uuid         NOT NULL,
    kind        varchar(10)  NOT NULL CHECK (kind IN ('letter', 'item', 'webhook')),
    id          uuid         NOT NULL,
    redrive_id  uuid         CHECK ((redrive_id IS NOT NULL) = (kind = 'item')),
    participant varchar(255) NOT NULL,
    parked_at   timestamptz  NOT NULL,
    granted_at  timestamptz,
    PRIMARY KEY (tenant_id, kind, id)
);
CREATE INDEX gate_waits_waiting ON saga.gate_waits (tenant_id, participant, parked_at, id) WHERE granted_at IS NULL;

SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (458, 'others at the gates of participants');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 458;
DROP TABLE saga.gate_waits;
