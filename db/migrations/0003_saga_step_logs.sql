-- One row per attempt and action of a step: the record from which a saga is
-- rebuilt (seed 1, saga_step_logs; requirements/saga.md D7, D17).
-- The ids are UUIDv7 made by Skald, so the primary key grows at its right edge.

-- +migrate Up
CREATE TABLE IF NOT EXISTS saga.saga_step_logs (
    id               uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
    saga_id          uuid         NOT NULL REFERENCES saga.saga_states (id) ON DELETE CASCADE,
    step_index       integer      NOT NULL CHECK (step_index >= 0),
    step_name        varchar(255) NOT NULL,
    action           varchar(50)  NOT NULL,
    status           varchar(50)  NOT NULL,
    request_payload  jsonb,
    response_payload jsonb,
    error_message    text         GENERATED ALWAYS AS (error->>'message') STORED,
    started_at       timestamptz  NOT NULL DEFAULT now(),
    completed_at     timestamptz,
    updated_at       timestamptz  NOT NULL DEFAULT now(),
    attempt          integer      NOT NULL DEFAULT 1,
    final            boolean      NOT NULL DEFAULT true,
    outcome_code     varchar(64),
    error            jsonb,
    duration_ms      bigint,

    CONSTRAINT chk_saga_step_logs_action CHECK (action IN ('EXECUTE', 'COMPENSATE')),
    CONSTRAINT chk_saga_step_logs_status CHECK (status IN ('SUCCESS', 'FAILED', 'TIMEOUT', 'SKIPPED', 'RUNNING')),
    CONSTRAINT chk_saga_step_logs_running CHECK ((status = 'RUNNING') = (completed_at IS NULL))
);

-- A saga's logs in order; unique, so that an attempt is recorded once.
CREATE UNIQUE INDEX IF NOT EXISTS idx_saga_step_logs_saga_id_step_index ON saga.saga_step_logs (saga_id, step_index, action, attempt);
-- What went wrong, and what was undone: partial, because a success is not worth an index entry.
CREATE INDEX IF NOT EXISTS idx_saga_step_logs_step_name ON saga.saga_step_logs (step_name, started_at) WHERE status <> 'SUCCESS';
CREATE INDEX IF NOT EXISTS idx_saga_step_logs_status ON saga.saga_step_logs (status, started_at) WHERE status <> 'SUCCESS';
CREATE INDEX IF NOT EXISTS idx_saga_step_logs_action ON saga.saga_step_logs (action, started_at) WHERE action = 'COMPENSATE';
CREATE INDEX IF NOT EXISTS idx_saga_step_logs_started_at ON saga.saga_step_logs USING brin (started_at);

CREATE TRIGGER trigger_saga_step_logs_update_updated_at BEFORE UPDATE ON saga.saga_step_logs
    FOR EACH ROW WHEN (NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at)
    EXECUTE FUNCTION saga.update_updated_at();

INSERT INTO saga.saga_schema_version (version, description) VALUES (3, 'saga_step_logs');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 3;
DROP TABLE IF EXISTS saga.saga_step_logs;
