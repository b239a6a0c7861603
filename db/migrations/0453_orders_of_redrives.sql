-- The order of a redrive has the word that requests use (decision 0133).

-- +migrate Up
UPDATE dlq.dlq_redrives SET key_order = lower(key_order);
INSERT INTO saga.saga_schema_version (version, description) VALUES (453, 'orders of redrives');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 453;
UPDATE dlq.dlq_redrives SET key_order = upper(key_order);
