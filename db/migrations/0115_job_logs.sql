-- Logs of job runs that are to leave the database (J-39).

-- +migrate Up
-- Whether a run has a log at all. A column of its own, because an index that looks
-- at log_bytes itself would make every chunk an update of every index.
ALTER TABLE jobs.job_runs ADD COLUMN logged boolean GENERATED ALWAYS AS (log_bytes > 0) STORED;
CREATE INDEX idx_job_runs_log_here ON jobs.job_runs (finished_at, id) WHERE logged AND log_ref IS NULL AND finished_at IS NOT NULL;

INSERT INTO saga.saga_schema_version (version, description) VALUES (115, 'job runs: logs that are to leave');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 115;
DROP INDEX jobs.idx_job_runs_log_here;
ALTER TABLE jobs.job_runs DROP COLUMN logged;
