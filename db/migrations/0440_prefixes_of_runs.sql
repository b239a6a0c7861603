-- Runs are found by how their correlation id begins, as sagas are since 0400. The operator class makes
-- the index serve that as well as equality, which it served before, in every collation. No run gets an
-- index entry that it did not have.

-- +migrate Up notransaction
DROP INDEX CONCURRENTLY IF EXISTS jobs.idx_job_runs_correlation_id_prefix; -- an attempt that was broken off leaves an invalid one
CREATE INDEX CONCURRENTLY idx_job_runs_correlation_id_prefix ON jobs.job_runs (tenant_id, correlation_id text_pattern_ops, created_at, id) WHERE correlation_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS jobs.idx_job_runs_correlation_id;
ALTER INDEX jobs.idx_job_runs_correlation_id_prefix RENAME TO idx_job_runs_correlation_id;
INSERT INTO saga.saga_schema_version (version, description) VALUES (440, 'correlation ids of runs by how they begin') ON CONFLICT DO NOTHING;

-- +migrate Down notransaction
DELETE FROM saga.saga_schema_version WHERE version = 440;
DROP INDEX CONCURRENTLY IF EXISTS jobs.idx_job_runs_correlation_id;
CREATE INDEX CONCURRENTLY idx_job_runs_correlation_id ON jobs.job_runs (tenant_id, correlation_id, created_at, id) WHERE correlation_id IS NOT NULL;
