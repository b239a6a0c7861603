-- What a request consists of that need not be kept a second time, because the saga and its other logs have it:
-- byte i is the attempt of step i whose response is in it (docs/decisions/0158). NULL: request_payload has it.

-- +migrate Up
ALTER TABLE saga.saga_step_logs ADD COLUMN request_parts bytea;
ALTER TABLE saga.saga_step_logs_archive ADD COLUMN request_parts bytea;
INSERT INTO saga.saga_schema_version (version, description) VALUES (466, 'parts of requests');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 466;
ALTER TABLE saga.saga_step_logs_archive DROP COLUMN request_parts;
ALTER TABLE saga.saga_step_logs DROP COLUMN request_parts;
