-- The cluster on which a consumer group has looked for dead-letter topics: on another one
-- it looks for the first time, and what it finds there is backlog (docs/decisions/0044).
-- The column backlog_before of dlq.dlq_inflows is no longer written: what is found after
-- the first look has no backlog.

-- +migrate Up
ALTER TABLE dlq.dlq_readers ADD COLUMN cluster_id varchar(255) NOT NULL DEFAULT ''; -- empty: not known
INSERT INTO saga.saga_schema_version (version, description) VALUES (290, 'clusters of dead-letter topics');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 290;
ALTER TABLE dlq.dlq_readers DROP COLUMN cluster_id;
