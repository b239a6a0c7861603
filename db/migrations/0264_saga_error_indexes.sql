-- The indexes of sagas that ended otherwise than completed and of those that need
-- attention, now with what their errors are grouped and found by. Behind the order of the
-- list it is compared in the index: only the sagas found are visited. No saga gets an
-- index entry that it did not have.

-- +migrate Up notransaction
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_saga_state_errors; -- an attempt that was broken off leaves an invalid one
CREATE INDEX CONCURRENTLY idx_saga_state_errors ON saga.saga_states
    (tenant_id, created_at, id, ended_state, workflow_name, initiated_by, completed_at, error_code, error_step, error_action, needs_attention)
    WHERE ended_state <> 3;
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_saga_state;
ALTER INDEX saga.idx_saga_state_errors RENAME TO idx_saga_state;
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_sagas_status_errors;
CREATE INDEX CONCURRENTLY idx_sagas_status_errors ON saga.saga_states
    (tenant_id, created_at, id, attention_since, workflow_name, error_code, error_step, error_action, completed_at)
    WHERE needs_attention;
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_sagas_status;
ALTER INDEX saga.idx_sagas_status_errors RENAME TO idx_sagas_status;
INSERT INTO saga.saga_schema_version (version, description) VALUES (264, 'indexes of the errors of sagas') ON CONFLICT DO NOTHING;

-- +migrate Down notransaction
DELETE FROM saga.saga_schema_version WHERE version = 264;
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_saga_state;
CREATE INDEX CONCURRENTLY idx_saga_state ON saga.saga_states (tenant_id, created_at, id, ended_state, workflow_name, initiated_by, completed_at) WHERE ended_state <> 3;
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_sagas_status;
CREATE INDEX CONCURRENTLY idx_sagas_status ON saga.saga_states (tenant_id, created_at, id) WHERE needs_attention;
