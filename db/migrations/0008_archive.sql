-- Retention: ended sagas move to archive tables, never just away (traps X1, X35).
-- Column lists are explicit, so that a column added later cannot shift values.

-- +migrate Up
CREATE TABLE IF NOT EXISTS saga.saga_states_archive (LIKE saga.saga_states, archived_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (id));
CREATE TABLE IF NOT EXISTS saga.saga_step_logs_archive (LIKE saga.saga_step_logs, archived_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (id));
CREATE TABLE IF NOT EXISTS saga.saga_events_archive (LIKE saga.saga_events, archived_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (id));
CREATE INDEX IF NOT EXISTS idx_saga_states_archive_tenant ON saga.saga_states_archive (tenant_id, created_at, id);
CREATE INDEX IF NOT EXISTS idx_saga_step_logs_archive_saga_id ON saga.saga_step_logs_archive (saga_id, step_index);
CREATE INDEX IF NOT EXISTS idx_saga_events_archive_saga_id ON saga.saga_events_archive (saga_id, id);

-- Archives and deletes sagas that ended before older_than, in batches; returns
-- how many. Rows locked by somebody else are left for the next call. Failed
-- sagas that need attention are never touched.
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.cleanup_expired_sagas(older_than timestamptz) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    batch uuid[];
    moved integer := 0;
BEGIN
    LOOP
        batch := ARRAY(SELECT id FROM saga.saga_states
                        WHERE completed_at IS NOT NULL AND completed_at < older_than AND NOT needs_attention
                        ORDER BY completed_at LIMIT 1000 FOR UPDATE SKIP LOCKED);
        EXIT WHEN cardinality(batch) = 0;
        INSERT INTO saga.saga_states_archive (
               id, workflow_name, current_step, status, payload, correlation_id, initiated_by, error_message, created_at, updated_at,
               name, description, state, total_steps, started_at, completed_at, timed_out_at, result_data, error, timeout_ms, retry_policy,
               metadata, trace_id, span_id, tenant_id, tenant_region, tenant_major, tenant_minor, saga_type, lifecycle, version, timeout_at,
               workflow_version, business_key, step_attempt, step_failures, step_uncertain, end_cause, ended_state, clean, needs_attention,
               attention_reason, suspended_at, cancel_requested_at, compensation_timeout_ms, compensation_timeout_at, compensation_expired,
               next_run_at, lease_owner, lease_epoch, parent_saga_id, reverses_saga_id, expires_at)
        SELECT id, workflow_name, current_step, status, payload, correlation_id, initiated_by, error_message, created_at, updated_at,
               name, description, state, total_steps, started_at, completed_at, timed_out_at, result_data, error, timeout_ms, retry_policy,
               metadata, trace_id, span_id, tenant_id, tenant_region, tenant_major, tenant_minor, saga_type, lifecycle, version, timeout_at,
               workflow_version, business_key, step_attempt, step_failures, step_uncertain, end_cause, ended_state, clean, needs_attention,
               attention_reason, suspended_at, cancel_requested_at, compensation_timeout_ms, compensation_timeout_at, compensation_expired,
               next_run_at, lease_owner, lease_epoch, parent_saga_id, reverses_saga_id, expires_at
          FROM saga.saga_states WHERE id = ANY (batch);
        INSERT INTO saga.saga_step_logs_archive (
               id, saga_id, step_index, step_name, action, status, request_payload, response_payload, error_message, started_at,
               completed_at, updated_at, attempt, final, outcome_code, error, duration_ms)
        SELECT id, saga_id, step_index, step_name, action, status, request_payload, response_payload, error_message, started_at,
               completed_at, updated_at, attempt, final, outcome_code, error, duration_ms
          FROM saga.saga_step_logs WHERE saga_id = ANY (batch);
        INSERT INTO saga.saga_events_archive (
               id, saga_id, event_type, step_id, step_index, timestamp, event_data, old_state, new_state, error, trace_id, span_id,
               metadata, tenant_id, actor, request_id, txid)
        SELECT id, saga_id, event_type, step_id, step_index, timestamp, event_data, old_state, new_state, error, trace_id, span_id,
               metadata, tenant_id, actor, request_id, txid
          FROM saga.saga_events WHERE saga_id = ANY (batch);
        DELETE FROM saga.saga_states WHERE id = ANY (batch); -- logs and events go with it
        moved := moved + cardinality(batch);
    END LOOP;
    RETURN moved;
END;
$$;
-- +migrate StatementEnd

INSERT INTO saga.saga_schema_version (version, description) VALUES (8, 'archive and retention');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 8;
DROP FUNCTION IF EXISTS saga.cleanup_expired_sagas(timestamptz);
DROP TABLE IF EXISTS saga.saga_events_archive, saga.saga_step_logs_archive, saga.saga_states_archive;
