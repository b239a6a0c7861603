-- API keys of workers: they may claim runs and report on those that they hold,
-- and nothing else (decision 0042).

-- +migrate Up
ALTER TABLE saga.api_keys DROP CONSTRAINT api_keys_role_check;
ALTER TABLE saga.api_keys ADD CONSTRAINT api_keys_role_check CHECK (role IN ('worker', 'auditor', 'operator', 'admin'));
INSERT INTO saga.saga_schema_version (version, description) VALUES (133, 'API keys of workers');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 133;
DELETE FROM saga.api_keys WHERE role = 'worker'; -- no older node knows what they may do
ALTER TABLE saga.api_keys DROP CONSTRAINT api_keys_role_check;
ALTER TABLE saga.api_keys ADD CONSTRAINT api_keys_role_check CHECK (role IN ('auditor', 'operator', 'admin'));
