-- Runs of steps of sagas that are suspended: nobody may claim them until the saga
-- is resumed (invariant I15).

-- +migrate Up
ALTER TABLE jobs.job_runs ADD COLUMN held boolean NOT NULL DEFAULT false;

INSERT INTO saga.saga_schema_version (version, description) VALUES (120, 'job runs of suspended sagas');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 120;
ALTER TABLE jobs.job_runs DROP COLUMN held;
