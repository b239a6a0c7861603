-- Which version of Skald a node runs, so that an upgrade node by node can be followed.

-- +migrate Up
ALTER TABLE saga.engine_nodes ADD COLUMN version varchar(64) NOT NULL DEFAULT ''; -- empty: registered by an older one
INSERT INTO saga.saga_schema_version (version, description) VALUES (269, 'the versions of nodes');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 269;
ALTER TABLE saga.engine_nodes DROP COLUMN version;
