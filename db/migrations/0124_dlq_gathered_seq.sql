-- A redrive knows the last number that it gave while it gathers. Each page asked its
-- items for it, which were all read for that: nothing is known of them yet, and under
-- the policy of tenants the planner does not trust the end of an index.

-- +migrate Up
ALTER TABLE dlq.dlq_redrives ADD COLUMN gathered_seq bigint NOT NULL DEFAULT 0; -- of the last item
UPDATE dlq.dlq_redrives d SET gathered_seq = (SELECT coalesce(max(i.seq), 0) FROM dlq.dlq_redrive_items i WHERE i.redrive_id = d.id) WHERE NOT d.gathered;
INSERT INTO saga.saga_schema_version (version, description) VALUES (124, 'the last number of a redrive''s letters');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 124;
ALTER TABLE dlq.dlq_redrives DROP COLUMN gathered_seq;
