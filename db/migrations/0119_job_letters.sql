-- Runs that retry a dead letter: whoever ends lost retries asks whether one works.

-- +migrate Up
CREATE INDEX idx_job_runs_letter_id ON jobs.job_runs (tenant_id, letter_id) WHERE letter_id IS NOT NULL;

INSERT INTO saga.saga_schema_version (version, description) VALUES (119, 'job runs that retry dead letters');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 119;
DROP INDEX jobs.idx_job_runs_letter_id;
