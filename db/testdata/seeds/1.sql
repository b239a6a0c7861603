-- Seed 1, 002 to 005, in a schema of its own.
CREATE SCHEMA seed1;
CREATE FUNCTION seed1.update_updated_at() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.updated_at = NOW(); RETURN NEW; END; $$;
CREATE TABLE IF NOT EXISTS seed1.saga_states (
    id              UUID         PRIMARY KEY DEFAULT gen_random_uuid(),
    workflow_name   VARCHAR(255) NOT NULL,
    current_step    INT          NOT NULL DEFAULT 0,
    status          VARCHAR(50)  NOT NULL DEFAULT 'STARTED',
    payload         JSONB,
    correlation_id  VARCHAR(255),
    initiated_by    VARCHAR(255),
    error_message   TEXT,
    created_at      TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    updated_at      TIMESTAMPTZ  NOT NULL DEFAULT NOW(),

    CONSTRAINT chk_saga_states_status CHECK (status IN ('STARTED', 'RUNNING', 'COMPLETED', 'COMPENSATING', 'FAILED', 'CANCELLED'))
);
CREATE INDEX IF NOT EXISTS idx_saga_states_workflow_name ON seed1.saga_states (workflow_name);
CREATE INDEX IF NOT EXISTS idx_saga_states_status ON seed1.saga_states (status);
CREATE INDEX IF NOT EXISTS idx_saga_states_correlation_id ON seed1.saga_states (correlation_id) WHERE correlation_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_saga_states_created_at ON seed1.saga_states (created_at);
CREATE TRIGGER update_saga_states_updated_at
    BEFORE UPDATE ON seed1.saga_states
    FOR EACH ROW
    EXECUTE FUNCTION seed1.update_updated_at();

CREATE TABLE IF NOT EXISTS seed1.saga_step_logs (
    id                UUID         PRIMARY KEY DEFAULT gen_random_uuid(),
    saga_id           UUID         NOT NULL REFERENCES seed1.saga_states(id) ON DELETE CASCADE,
    step_index        INT          NOT NULL,
    step_name         VARCHAR(255) NOT NULL,
    action            VARCHAR(50)  NOT NULL,
    status            VARCHAR(50)  NOT NULL,
    request_payload   JSONB,
    response_payload  JSONB,
    error_message     TEXT,
    started_at        TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    completed_at      TIMESTAMPTZ,

    CONSTRAINT chk_saga_step_logs_action CHECK (action IN ('EXECUTE', 'COMPENSATE')),
    CONSTRAINT chk_saga_step_logs_status CHECK (status IN ('SUCCESS', 'FAILED', 'TIMEOUT', 'SKIPPED'))
);
CREATE INDEX IF NOT EXISTS idx_saga_step_logs_saga_id_step_index ON seed1.saga_step_logs (saga_id, step_index);
CREATE INDEX IF NOT EXISTS idx_saga_step_logs_step_name
    ON seed1.saga_step_logs (step_name);
CREATE INDEX IF NOT EXISTS idx_saga_step_logs_status
    ON seed1.saga_step_logs (status);
CREATE INDEX IF NOT EXISTS idx_saga_step_logs_action
    ON seed1.saga_step_logs (action);
CREATE INDEX IF NOT EXISTS idx_saga_step_logs_started_at
    ON seed1.saga_step_logs (started_at);
ALTER TABLE seed1.saga_step_logs
    ADD COLUMN IF NOT EXISTS updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW();
CREATE TRIGGER trigger_saga_step_logs_update_updated_at
    BEFORE UPDATE ON seed1.saga_step_logs
    FOR EACH ROW
    EXECUTE FUNCTION seed1.update_updated_at();
