-- Letters of an error's group in one topic: the index of groups knows the topic,
-- so that no row is read. A group belongs to those who consume, and they may
-- consume several topics. Where a group of 20,000 letters has none in the topic,
-- 20,000 rows told that, and no bitmap of two indexes that both begin with the
-- tenant does better: PostgreSQL does not bring such together.
--
-- Letters wait while the index is made, some 4 s for a million of them.

-- +migrate Up
DROP INDEX dlq.idx_dlq_messages_group;
CREATE INDEX idx_dlq_messages_group ON dlq.dlq_messages (tenant_id, fingerprint, status, created_at, id) INCLUDE (resolution, original_topic);

INSERT INTO saga.saga_schema_version (version, description) VALUES (103, 'dead letters: topics of a group');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 103;
DROP INDEX dlq.idx_dlq_messages_group;
CREATE INDEX idx_dlq_messages_group ON dlq.dlq_messages (tenant_id, fingerprint, status, created_at, id) INCLUDE (resolution);
