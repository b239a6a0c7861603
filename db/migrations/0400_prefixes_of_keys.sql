-- Business keys and correlation ids are found by how they begin, and listed in the order of their
-- bytes. The operator class makes these indexes serve both, as well as equality, which they served
-- before, in every collation. No saga gets an index entry that it did not have.

-- +migrate Up notransaction
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_saga_business_key_prefix; -- an attempt that was broken off leaves an invalid one
CREATE INDEX CONCURRENTLY idx_saga_business_key_prefix ON saga.saga_states (tenant_id, business_key text_pattern_ops, created_at) WHERE business_key IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_saga_business_key;
ALTER INDEX saga.idx_saga_business_key_prefix RENAME TO idx_saga_business_key;
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_saga_states_correlation_id_prefix;
CREATE INDEX CONCURRENTLY idx_saga_states_correlation_id_prefix ON saga.saga_states (correlation_id text_pattern_ops, tenant_id, created_at) WHERE correlation_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_saga_states_correlation_id;
ALTER INDEX saga.idx_saga_states_correlation_id_prefix RENAME TO idx_saga_states_correlation_id;
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_saga_states_archive_business_key_prefix;
CREATE INDEX CONCURRENTLY idx_saga_states_archive_business_key_prefix ON saga.saga_states_archive (tenant_id, business_key text_pattern_ops, created_at) WHERE business_key IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_saga_states_archive_business_key;
ALTER INDEX saga.idx_saga_states_archive_business_key_prefix RENAME TO idx_saga_states_archive_business_key;
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_saga_states_archive_correlation_id_prefix;
CREATE INDEX CONCURRENTLY idx_saga_states_archive_correlation_id_prefix ON saga.saga_states_archive (tenant_id, correlation_id text_pattern_ops, created_at) WHERE correlation_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_saga_states_archive_correlation_id;
ALTER INDEX saga.idx_saga_states_archive_correlation_id_prefix RENAME TO idx_saga_states_archive_correlation_id;
INSERT INTO saga.saga_schema_version (version, description) VALUES (400, 'business keys and correlation ids by how they begin') ON CONFLICT DO NOTHING;

-- +migrate Down notransaction
DELETE FROM saga.saga_schema_version WHERE version = 400;
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_saga_business_key;
CREATE INDEX CONCURRENTLY idx_saga_business_key ON saga.saga_states (tenant_id, business_key, created_at) WHERE business_key IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_saga_states_correlation_id;
CREATE INDEX CONCURRENTLY idx_saga_states_correlation_id ON saga.saga_states (correlation_id, tenant_id, created_at) WHERE correlation_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_saga_states_archive_business_key;
CREATE INDEX CONCURRENTLY idx_saga_states_archive_business_key ON saga.saga_states_archive (tenant_id, business_key, created_at) WHERE business_key IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_saga_states_archive_correlation_id;
CREATE INDEX CONCURRENTLY idx_saga_states_archive_correlation_id ON saga.saga_states_archive (tenant_id, correlation_id, created_at) WHERE correlation_id IS NOT NULL;
