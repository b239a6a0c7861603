-- Until when targets have asked a redrive to leave them alone (Retry-After), by name.

-- +migrate Up
ALTER TABLE dlq.dlq_redrives ADD COLUMN pauses jsonb NOT NULL DEFAULT '{}';
INSERT INTO saga.saga_schema_version (version, description) VALUES (282, 'redrives that targets asked to wait');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 282;
ALTER TABLE dlq.dlq_redrives DROP COLUMN pauses;
