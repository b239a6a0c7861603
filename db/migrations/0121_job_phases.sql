-- A start changes no index. Where a worker is with a run, ASSIGNED before its start
-- and RUNNING after it, only the row knows; the indexes know that it is HELD.
-- Each update of a row that an index tells apart writes all its indexes again, six
-- of them for a start that nobody looks for; now it writes the row alone (HOT), as
-- the renewals of its lease do.

-- +migrate Up
ALTER TABLE jobs.job_runs
    -- State, without where its worker is with it.
    ADD COLUMN phase varchar(10) GENERATED ALWAYS AS (CASE WHEN state IN ('ASSIGNED', 'RUNNING') THEN 'HELD' ELSE state END) STORED,
    ADD COLUMN late boolean GENERATED ALWAYS AS (coalesce(started_at - scheduled_for >= interval '1 minute', false)) STORED;

DROP INDEX jobs.idx_job_runs_concurrency_key, jobs.idx_job_runs_concurrency_waiting, jobs.idx_job_runs_claimable, jobs.idx_job_runs_waiting,
    jobs.idx_job_runs_assigned_worker_id, jobs.idx_job_runs_state, jobs.idx_job_runs_backfill_id, jobs.idx_job_runs_late;
CREATE UNIQUE INDEX idx_job_runs_concurrency_key ON jobs.job_runs (tenant_id, concurrency_key) WHERE concurrency_key IS NOT NULL AND phase IN ('HELD', 'ORPHANED');
CREATE INDEX idx_job_runs_concurrency_waiting ON jobs.job_runs (tenant_id, concurrency_key, available_at, id) WHERE concurrency_key IS NOT NULL AND phase = 'PENDING';
CREATE INDEX idx_job_runs_claimable ON jobs.job_runs (tenant_id, queue, priority DESC, scheduled_for, id) WHERE phase IN ('PENDING', 'ORPHANED') AND admitted_at IS NOT NULL;
CREATE INDEX idx_job_runs_waiting ON jobs.job_runs (available_at, id) WHERE admitted_at IS NULL AND (phase = 'ORPHANED' OR phase = 'PENDING' AND concurrency_key IS NULL);
CREATE INDEX idx_job_runs_assigned_worker_id ON jobs.job_runs (assigned_worker_id) WHERE phase = 'HELD';
CREATE INDEX idx_job_runs_state ON jobs.job_runs (tenant_id, phase, scheduled_for, id);
CREATE INDEX idx_job_runs_backfill_id ON jobs.job_runs (backfill_id, phase) WHERE backfill_id IS NOT NULL;
CREATE INDEX idx_job_runs_late ON jobs.job_runs (tenant_id, created_at, id) WHERE late;
ANALYZE jobs.job_runs;

CREATE OR REPLACE VIEW jobs.tenant_runs AS
SELECT r.id, r.tenant_id, r.definition_id, r.definition_name, r.spec_version, r.command_name, r.version, r.state, r.trigger,
       r.scheduled_for, r.available_at, r.admitted_at, r.queue, r.priority, r.required_labels, r.labels, r.args, r.idempotency_key,
       r.concurrency_key, r.concurrency_policy, r.timeout_ms, r.attempt, r.failures_used, r.losses_used, r.max_losses,
       r.assigned_worker_id, r.assigned_at, r.lease_token, r.lease_expires_at, r.leader_epoch, r.fencing_seq, r.started_at, r.finished_at,
       r.continuation_state, r.continuation_check_started_at, r.continuation_check_deadline_at, r.cancel_requested_at, r.cancel_reason,
       r.progress, r.checkpoint, r.exit_code, r.result, r.error, r.error_code, r.error_summary, r.resource_cpu_seconds_total,
       r.resource_peak_rss_bytes, r.resource_io_read_bytes, r.resource_io_write_bytes, r.log_bytes, r.log_ref, r.log_sha256, r.root_run_id,
       r.retry_of_run_id, r.retry_number, r.saga_id, r.saga_step, r.saga_action, r.event_id, r.letter_id, r.backfill_id, r.correlation_id,
       r.trace_id, r.created_at, r.updated_at, r.phase, r.late
  FROM jobs.job_runs r
 WHERE r.tenant_id = (SELECT nullif(current_setting('skald.tenant_id', true), '')::uuid);

SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (121, 'phases of job runs');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 121;
DROP VIEW jobs.tenant_runs;
CREATE VIEW jobs.tenant_runs AS
SELECT r.id, r.tenant_id, r.definition_id, r.definition_name, r.spec_version, r.command_name, r.version, r.state, r.trigger,
       r.scheduled_for, r.available_at, r.admitted_at, r.queue, r.priority, r.required_labels, r.labels, r.args, r.idempotency_key,
       r.concurrency_key, r.concurrency_policy, r.timeout_ms, r.attempt, r.failures_used, r.losses_used, r.max_losses,
       r.assigned_worker_id, r.assigned_at, r.lease_token, r.lease_expires_at, r.leader_epoch, r.fencing_seq, r.started_at, r.finished_at,
       r.continuation_state, r.continuation_check_started_at, r.continuation_check_deadline_at, r.cancel_requested_at, r.cancel_reason,
       r.progress, r.checkpoint, r.exit_code, r.result, r.error, r.error_code, r.error_summary, r.resource_cpu_seconds_total,
       r.resource_peak_rss_bytes, r.resource_io_read_bytes, r.resource_io_write_bytes, r.log_bytes, r.log_ref, r.log_sha256, r.root_run_id,
       r.retry_of_run_id, r.retry_number, r.saga_id, r.saga_step, r.saga_action, r.event_id, r.letter_id, r.backfill_id, r.correlation_id,
       r.trace_id, r.created_at, r.updated_at
  FROM jobs.job_runs r
 WHERE r.tenant_id = (SELECT nullif(current_setting('skald.tenant_id', true), '')::uuid);
ALTER TABLE jobs.job_runs DROP COLUMN phase, DROP COLUMN late;
CREATE UNIQUE INDEX idx_job_runs_concurrency_key ON jobs.job_runs (tenant_id, concurrency_key) WHERE concurrency_key IS NOT NULL AND state IN ('ASSIGNED', 'RUNNING', 'ORPHANED');
CREATE INDEX idx_job_runs_concurrency_waiting ON jobs.job_runs (tenant_id, concurrency_key, available_at, id) WHERE concurrency_key IS NOT NULL AND state = 'PENDING';
CREATE INDEX idx_job_runs_claimable ON jobs.job_runs (tenant_id, queue, priority DESC, scheduled_for, id) WHERE state IN ('PENDING', 'ORPHANED') AND admitted_at IS NOT NULL;
CREATE INDEX idx_job_runs_waiting ON jobs.job_runs (available_at, id) WHERE admitted_at IS NULL AND (state = 'ORPHANED' OR state = 'PENDING' AND concurrency_key IS NULL);
CREATE INDEX idx_job_runs_assigned_worker_id ON jobs.job_runs (assigned_worker_id, state) WHERE state IN ('ASSIGNED', 'RUNNING');
CREATE INDEX idx_job_runs_state ON jobs.job_runs (tenant_id, state, scheduled_for, id);
CREATE INDEX idx_job_runs_backfill_id ON jobs.job_runs (backfill_id, state) WHERE backfill_id IS NOT NULL;
CREATE INDEX idx_job_runs_late ON jobs.job_runs (tenant_id, created_at, id) WHERE started_at - scheduled_for >= interval '1 minute';
SELECT saga.secure_tables();
