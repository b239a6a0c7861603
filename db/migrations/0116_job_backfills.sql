-- What backfills have done to slots before.

-- +migrate Up
CREATE INDEX idx_job_runs_backfilled ON jobs.job_runs (definition_id, scheduled_for) WHERE trigger = 'BACKFILL';
INSERT INTO saga.saga_schema_version (version, description) VALUES (116, 'slots of backfills');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 116;
DROP INDEX jobs.idx_job_runs_backfilled;
