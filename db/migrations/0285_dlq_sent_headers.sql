-- What a policy says about sending letters back: headers to be sent although they
-- describe the failure or a framework's own retries, and whether letters whose error
-- is permanent are retried automatically.

-- +migrate Up
ALTER TABLE dlq.dlq_policies
    ADD COLUMN keep_headers    text[]  NOT NULL DEFAULT '{}',
    ADD COLUMN retry_permanent boolean NOT NULL DEFAULT false;

INSERT INTO saga.saga_schema_version (version, description) VALUES (285, 'headers that letters are sent with');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 285;
ALTER TABLE dlq.dlq_policies DROP COLUMN keep_headers, DROP COLUMN retry_permanent;
