-- The index by which letters of one key are kept in order, now by what 0250 compares.
-- Nodes of the version before find the letters of a topic by its first columns.

-- +migrate Up notransaction
DROP INDEX CONCURRENTLY IF EXISTS dlq.idx_dlq_messages_order; -- an attempt that was broken off leaves an invalid one
CREATE INDEX CONCURRENTLY idx_dlq_messages_order ON dlq.dlq_messages (tenant_id, original_topic, (coalesce(order_key, message_key)), seq)
 WHERE ordered AND status IN ('PENDING', 'RETRYING');
DROP INDEX CONCURRENTLY IF EXISTS dlq.idx_dlq_messages_key;
INSERT INTO saga.saga_schema_version (version, description) VALUES (252, 'index of ordered dead letters') ON CONFLICT DO NOTHING;

-- +migrate Down notransaction
DELETE FROM saga.saga_schema_version WHERE version = 252;
DROP INDEX CONCURRENTLY IF EXISTS dlq.idx_dlq_messages_key;
CREATE INDEX CONCURRENTLY idx_dlq_messages_key ON dlq.dlq_messages (tenant_id, original_topic, message_key, seq)
 WHERE ordered AND status IN ('PENDING', 'RETRYING');
DROP INDEX CONCURRENTLY IF EXISTS dlq.idx_dlq_messages_order;
