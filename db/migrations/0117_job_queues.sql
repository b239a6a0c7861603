-- Lists of job runs by a queue of few. Most runs are in the default one, and are
-- found in the order of the list.

-- +migrate Up
CREATE INDEX idx_job_runs_queue ON jobs.job_runs (tenant_id, queue, created_at, id) WHERE queue <> 'default';
INSERT INTO saga.saga_schema_version (version, description) VALUES (117, 'lists of job runs by queue');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 117;
DROP INDEX jobs.idx_job_runs_queue;
