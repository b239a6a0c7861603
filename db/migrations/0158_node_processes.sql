-- Which process a node is, so that one with the same name knows whether it is gone.

-- +migrate Up
ALTER TABLE saga.engine_nodes ADD COLUMN process varchar(255) NOT NULL DEFAULT ''; -- empty: not known
INSERT INTO saga.saga_schema_version (version, description) VALUES (158, 'the processes of nodes');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 158;
ALTER TABLE saga.engine_nodes DROP COLUMN process;
