-- A run whose slot was taken away by a change of its definition, before a worker had it,
-- is SKIPPED and withdrawn: the slot may have another run when the change is reverted.
-- All other runs of schedules have their slot for themselves, as before (J1; the index
-- follows in 0301).

-- +migrate Up
ALTER TABLE jobs.job_runs ADD COLUMN withdrawn boolean NOT NULL DEFAULT false;

CREATE OR REPLACE VIEW jobs.invariants WITH (security_invoker = true) AS
    SELECT 'I1 every unfinished saga is owned or due'::text AS invariant, s.id::text AS id FROM saga.saga_states s WHERE s.completed_at IS NULL AND s.suspended_at IS NULL
       AND CASE WHEN s.lease_owner IS NULL THEN s.next_run_at IS NULL ELSE NOT EXISTS (SELECT FROM saga.engine_nodes e WHERE e.id = s.lease_owner) END
UNION ALL
    SELECT 'J1 a slot has one run'::text, min(r.id::text) FROM jobs.job_runs r WHERE r.trigger = 'TIME' AND NOT r.withdrawn GROUP BY r.definition_id, r.scheduled_for HAVING count(*) > 1
UNION ALL
    SELECT 'J2 one run of a concurrency key is with a worker'::text, min(r.id::text) FROM jobs.job_runs r WHERE r.concurrency_key IS NOT NULL AND r.phase IN ('HELD', 'ORPHANED')
     GROUP BY r.tenant_id, r.concurrency_key HAVING count(*) > 1
UNION ALL
    SELECT 'J3 what is with a worker has a fence'::text, r.id::text FROM jobs.job_runs r WHERE r.phase = 'HELD'
       AND (r.lease_token IS NULL OR r.assigned_worker_id IS NULL OR r.leader_epoch IS NULL OR r.attempt < 1)
UNION ALL
    SELECT 'J4 no epoch is ahead of the leader''s'::text, r.id::text FROM jobs.job_runs r WHERE r.phase = 'HELD' AND r.leader_epoch > (SELECT max(l.epoch) FROM jobs.leader l)
UNION ALL
    SELECT 'J6 what has ended stays so'::text, r.id::text FROM jobs.job_runs r WHERE (r.finished_at IS NULL) = (r.state IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'TIMED_OUT', 'SKIPPED'))
UNION ALL
    SELECT 'J7 a failure with budget left has its retry once'::text, min(r.id::text) FROM jobs.job_runs r WHERE r.retry_of_run_id IS NOT NULL AND r.trigger = 'RETRY' GROUP BY r.retry_of_run_id HAVING count(*) > 1
UNION ALL
    SELECT 'a saga whose run has ended does not wait for it'::text, s.id::text FROM saga.saga_states s JOIN saga.saga_step_logs l ON l.saga_id = s.id AND l.tenant_id = s.tenant_id AND l.completed_at IS NULL AND l.outcome_code = 'job_run'
     WHERE s.completed_at IS NULL AND s.next_run_at > now()
       AND EXISTS (SELECT FROM jobs.job_runs r WHERE r.id = l.id AND r.finished_at < now() - interval '1 minute')
       AND NOT EXISTS (SELECT FROM jobs.job_runs r WHERE r.root_run_id = l.id AND r.finished_at IS NULL)
UNION ALL
    SELECT 'a letter that is retried by a run waits for it'::text, m.id::text FROM dlq.dlq_messages m WHERE m.status = 'RESOLVED' AND m.resolution = 'CONFIRMED' AND m.source = 'JOB'
       AND NOT EXISTS (SELECT FROM jobs.job_runs r WHERE r.tenant_id = m.tenant_id AND r.letter_id = m.id AND r.state = 'SUCCEEDED')
       AND m.terminal_at > now() - interval '1 day';
SELECT saga.secure_tables();

INSERT INTO saga.saga_schema_version (version, description) VALUES (300, 'slots that were withdrawn');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 300;
CREATE OR REPLACE VIEW jobs.invariants WITH (security_invoker = true) AS
    SELECT 'I1 every unfinished saga is owned or due'::text AS invariant, s.id::text AS id FROM saga.saga_states s WHERE s.completed_at IS NULL AND s.suspended_at IS NULL
       AND CASE WHEN s.lease_owner IS NULL THEN s.next_run_at IS NULL ELSE NOT EXISTS (SELECT FROM saga.engine_nodes e WHERE e.id = s.lease_owner) END
UNION ALL
    SELECT 'J1 a slot has one run'::text, min(r.id::text) FROM jobs.job_runs r WHERE r.trigger = 'TIME' GROUP BY r.definition_id, r.scheduled_for HAVING count(*) > 1
UNION ALL
    SELECT 'J2 one run of a concurrency key is with a worker'::text, min(r.id::text) FROM jobs.job_runs r WHERE r.concurrency_key IS NOT NULL AND r.phase IN ('HELD', 'ORPHANED')
     GROUP BY r.tenant_id, r.concurrency_key HAVING count(*) > 1
UNION ALL
    SELECT 'J3 what is with a worker has a fence'::text, r.id::text FROM jobs.job_runs r WHERE r.phase = 'HELD'
       AND (r.lease_token IS NULL OR r.assigned_worker_id IS NULL OR r.leader_epoch IS NULL OR r.attempt < 1)
UNION ALL
    SELECT 'J4 no epoch is ahead of the leader''s'::text, r.id::text FROM jobs.job_runs r WHERE r.phase = 'HELD' AND r.leader_epoch > (SELECT max(l.epoch) FROM jobs.leader l)
UNION ALL
    SELECT 'J6 what has ended stays so'::text, r.id::text FROM jobs.job_runs r WHERE (r.finished_at IS NULL) = (r.state IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'TIMED_OUT', 'SKIPPED'))
UNION ALL
    SELECT 'J7 a failure with budget left has its retry once'::text, min(r.id::text) FROM jobs.job_runs r WHERE r.retry_of_run_id IS NOT NULL AND r.trigger = 'RETRY' GROUP BY r.retry_of_run_id HAVING count(*) > 1
UNION ALL
    SELECT 'a saga whose run has ended does not wait for it'::text, s.id::text FROM saga.saga_states s JOIN saga.saga_step_logs l ON l.saga_id = s.id AND l.tenant_id = s.tenant_id AND l.completed_at IS NULL AND l.outcome_code = 'job_run'
     WHERE s.completed_at IS NULL AND s.next_run_at > now()
       AND EXISTS (SELECT FROM jobs.job_runs r WHERE r.id = l.id AND r.finished_at < now() - interval '1 minute')
       AND NOT EXISTS (SELECT FROM jobs.job_runs r WHERE r.root_run_id = l.id AND r.finished_at IS NULL)
UNION ALL
    SELECT 'a letter that is retried by a run waits for it'::text, m.id::text FROM dlq.dlq_messages m WHERE m.status = 'RESOLVED' AND m.resolution = 'CONFIRMED' AND m.source = 'JOB'
       AND NOT EXISTS (SELECT FROM jobs.job_runs r WHERE r.tenant_id = m.tenant_id AND r.letter_id = m.id AND r.state = 'SUCCEEDED')
       AND m.terminal_at > now() - interval '1 day';
ALTER TABLE jobs.job_runs DROP COLUMN withdrawn;
SELECT saga.secure_tables();
