-- The index by which a slot has one run, without withdrawn ones; those, which are few,
-- have one of their own, for the calendar.

-- +migrate Up notransaction
DROP INDEX CONCURRENTLY IF EXISTS jobs.idx_job_runs_slots; -- an attempt that was broken off leaves an invalid one
CREATE UNIQUE INDEX CONCURRENTLY idx_job_runs_slots ON jobs.job_runs (definition_id, scheduled_for) WHERE trigger = 'TIME' AND NOT withdrawn;
DROP INDEX CONCURRENTLY IF EXISTS jobs.idx_job_runs_definition_scheduled_for;
ALTER INDEX jobs.idx_job_runs_slots RENAME TO idx_job_runs_definition_scheduled_for;
DROP INDEX CONCURRENTLY IF EXISTS jobs.idx_job_runs_withdrawn;
CREATE INDEX CONCURRENTLY idx_job_runs_withdrawn ON jobs.job_runs (definition_id, scheduled_for) WHERE withdrawn;
INSERT INTO saga.saga_schema_version (version, description) VALUES (301, 'index of slots') ON CONFLICT DO NOTHING;

-- +migrate Down notransaction
DELETE FROM saga.saga_schema_version WHERE version = 301;
DROP INDEX CONCURRENTLY IF EXISTS jobs.idx_job_runs_withdrawn;
-- Of several runs of one slot the one that was not withdrawn keeps it, otherwise the last.
DELETE FROM jobs.job_runs r WHERE r.withdrawn AND EXISTS (SELECT FROM jobs.job_runs o WHERE o.definition_id = r.definition_id
   AND o.scheduled_for = r.scheduled_for AND o.trigger = 'TIME' AND o.id <> r.id AND (NOT o.withdrawn OR o.id > r.id));
DROP INDEX CONCURRENTLY IF EXISTS jobs.idx_job_runs_slots;
CREATE UNIQUE INDEX CONCURRENTLY idx_job_runs_slots ON jobs.job_runs (definition_id, scheduled_for) WHERE trigger = 'TIME';
DROP INDEX CONCURRENTLY IF EXISTS jobs.idx_job_runs_definition_scheduled_for;
ALTER INDEX jobs.idx_job_runs_slots RENAME TO idx_job_runs_definition_scheduled_for;
