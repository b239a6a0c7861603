-- The life of data after the end of a saga (docs/decisions/0019): retention per
-- workflow, one function that archives and one that restores, and the archive's
-- indexes. Audit events stay where they are.

-- +migrate Up
-- Of the latest version, so that looking for expired sagas reads no definitions.
-- NULL: the server's default; -1: for ever.
ALTER TABLE saga.workflows
    ADD COLUMN completed_retention_ms bigint CHECK (completed_retention_ms >= -1),
    ADD COLUMN failed_retention_ms    bigint CHECK (failed_retention_ms >= -1);

-- Nothing ever set expires_at: when a saga expires follows from its end and from
-- its workflow's present retention. Instead: since when a saga that came back
-- from the archive has been live again; its retention counts from there.
ALTER TABLE saga.saga_states RENAME COLUMN expires_at TO restored_at;
ALTER TABLE saga.saga_states_archive RENAME COLUMN expires_at TO restored_at;
ALTER TABLE saga.saga_states_archive
    ADD CONSTRAINT chk_saga_states_archive_ended CHECK (completed_at IS NOT NULL AND NOT needs_attention);

-- Logs are deleted now, in bulk: their dead rows are cleared as soon as those of the heads.
ALTER TABLE saga.saga_step_logs SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- The archive's lists, by the names of the live table's indexes (migration 0002).
-- Its rows never change, so what is unwise there is fine here: updated_at is indexed.
CREATE INDEX IF NOT EXISTS idx_saga_states_archive_workflow_name ON saga.saga_states_archive (tenant_id, workflow_name, created_at, id);
CREATE INDEX IF NOT EXISTS idx_saga_states_archive_state ON saga.saga_states_archive (tenant_id, ended_state, created_at, id) WHERE ended_state <> 3;
CREATE INDEX IF NOT EXISTS idx_saga_states_archive_updated_at ON saga.saga_states_archive (tenant_id, updated_at);
CREATE INDEX IF NOT EXISTS idx_saga_states_archive_correlation_id ON saga.saga_states_archive (tenant_id, correlation_id, created_at) WHERE correlation_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_saga_states_archive_trace_id ON saga.saga_states_archive (tenant_id, trace_id) WHERE trace_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_saga_states_archive_business_key ON saga.saga_states_archive (tenant_id, business_key, created_at) WHERE business_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_saga_states_archive_metadata ON saga.saga_states_archive USING gin (metadata jsonb_path_ops) WHERE metadata IS NOT NULL;

-- The columns of a table by name, as the two functions below copy them: a column
-- that a later migration adds to a table and its archive moves along.
-- +migrate StatementBegin
CREATE FUNCTION saga.column_list(of_table regclass, generated boolean) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
     WHERE attrelid = of_table AND attnum > 0 AND NOT attisdropped AND (generated OR attgenerated = '')
       AND attname <> 'restored_at'
$$;
-- +migrate StatementEnd

-- Moves those of batch that have ended and need nobody, with their step logs;
-- returns how many. Rows locked by others stay. Each row is deleted and archived
-- by one statement, so none is chosen twice (trap X1); the heads are locked
-- before that, so a statement sees every log there will ever be.
-- +migrate StatementBegin
CREATE FUNCTION saga.archive_sagas(batch uuid[]) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    heads text := saga.column_list('saga.saga_states', true) || ', restored_at';
    logs text := saga.column_list('saga.saga_step_logs', true);
    moved integer;
BEGIN
    batch := ARRAY(SELECT s.id FROM saga.saga_states s
                    WHERE s.id = ANY (batch) AND s.completed_at IS NOT NULL AND NOT s.needs_attention FOR UPDATE SKIP LOCKED);
    EXECUTE format('WITH gone AS (DELETE FROM saga.saga_step_logs WHERE saga_id = ANY ($1) RETURNING %1$s)
                    INSERT INTO saga.saga_step_logs_archive (%1$s) SELECT %1$s FROM gone', logs) USING batch;
    EXECUTE format('WITH gone AS (DELETE FROM saga.saga_states WHERE id = ANY ($1) RETURNING %1$s)
                    INSERT INTO saga.saga_states_archive (%1$s) SELECT %1$s FROM gone', heads) USING batch;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END;
$$;
-- +migrate StatementEnd

-- Moves one saga of a tenant back, with its step logs; false when it is not in
-- the archive. The head goes first: whoever restores it at the same time waits there.
-- +migrate StatementBegin
CREATE FUNCTION saga.restore_saga(of_tenant uuid, of_saga uuid) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    heads text := saga.column_list('saga.saga_states', false);
    logs text := saga.column_list('saga.saga_step_logs', false);
    moved integer;
BEGIN
    EXECUTE format('WITH gone AS (DELETE FROM saga.saga_states_archive WHERE id = $1 AND tenant_id = $2 RETURNING %1$s)
                    INSERT INTO saga.saga_states (%1$s, restored_at) SELECT %1$s, now() FROM gone', heads) USING of_saga, of_tenant;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved = 0 THEN
        RETURN false;
    END IF;
    EXECUTE format('WITH gone AS (DELETE FROM saga.saga_step_logs_archive WHERE saga_id = $1 RETURNING %1$s)
                    INSERT INTO saga.saga_step_logs (%1$s) SELECT %1$s FROM gone', logs) USING of_saga;
    RETURN true;
END;
$$;
-- +migrate StatementEnd

-- Seed 2's function: archives and deletes what ended before older_than, whatever
-- retention says, in batches; returns how many. One transaction, so for an
-- operator's hand; the server itself cleans up in many. Rows locked by somebody
-- else are left for the next call, sagas that need attention for good.
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
                          AND (restored_at IS NULL OR restored_at < older_than)
                        ORDER BY completed_at LIMIT 1000 FOR UPDATE SKIP LOCKED);
        EXIT WHEN cardinality(batch) = 0;
        moved := moved + saga.archive_sagas(batch);
    END LOOP;
    RETURN moved;
END;
$$;
-- +migrate StatementEnd

INSERT INTO saga.saga_schema_version (version, description) VALUES (13, 'retention per workflow, restore');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 13;
-- As migration 0008 has it.
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
DROP FUNCTION IF EXISTS saga.restore_saga(uuid, uuid);
DROP FUNCTION IF EXISTS saga.archive_sagas(uuid[]);
DROP FUNCTION IF EXISTS saga.column_list(regclass, boolean);
DROP INDEX IF EXISTS saga.idx_saga_states_archive_workflow_name, saga.idx_saga_states_archive_state, saga.idx_saga_states_archive_updated_at,
    saga.idx_saga_states_archive_correlation_id, saga.idx_saga_states_archive_trace_id, saga.idx_saga_states_archive_business_key,
    saga.idx_saga_states_archive_metadata;
ALTER TABLE saga.saga_step_logs RESET (autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor);
ALTER TABLE saga.saga_states_archive DROP CONSTRAINT IF EXISTS chk_saga_states_archive_ended;
ALTER TABLE saga.saga_states_archive RENAME COLUMN restored_at TO expires_at;
ALTER TABLE saga.saga_states RENAME COLUMN restored_at TO expires_at;
ALTER TABLE saga.workflows DROP COLUMN IF EXISTS completed_retention_ms, DROP COLUMN IF EXISTS failed_retention_ms;
