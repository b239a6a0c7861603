-- Pages of dead letters are filled. The room that was left in them was for new
-- versions of their letters, but what is written to a letter changes its status, or
-- what else an index knows: of 130,000 updates of a redrive none was HOT.

-- +migrate Up
ALTER TABLE dlq.dlq_messages SET (fillfactor = 100);
INSERT INTO saga.saga_schema_version (version, description) VALUES (123, 'full pages of dead letters');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 123;
ALTER TABLE dlq.dlq_messages SET (fillfactor = 85);
