-- Letters that are about to be sent: written before the first byte leaves, by the
-- node that holds them. A claimed letter whose token is in no row was never sent,
-- whatever became of its node. One row for as many as go out together, because a row
-- for each, or a change of each letter, would cost more than the sending.

-- +migrate Up
CREATE TABLE dlq.dlq_handovers (
    id        uuid        NOT NULL,
    tenant_id uuid        NOT NULL,
    tokens    uuid[]      NOT NULL, -- dlq_messages.retry_token
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (id, tenant_id)
);
SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (144, 'dead letters that are about to be sent');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 144;
DROP TABLE dlq.dlq_handovers;
