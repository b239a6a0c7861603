-- Seed 2 has its tables as lists of columns, constraints and indexes: they are written out here.
CREATE SCHEMA seed2;
CREATE FUNCTION seed2.update_saga_updated_at() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.updated_at = NOW(); RETURN NEW; END; $$;
CREATE TABLE seed2.saga_instances (
    id            VARCHAR(255) PRIMARY KEY,
    definition_id VARCHAR(255) NOT NULL,
    name          VARCHAR(255) NULL,
    description   TEXT NULL,
    state         INTEGER NOT NULL CHECK (state >= 0 AND state <= 8),
    current_step  INTEGER NOT NULL CHECK (current_step >= 0),
    total_steps   INTEGER NOT NULL CHECK (total_steps >= 0),
    created_at    TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT NOW(),
    updated_at    TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT NOW(),
    started_at    TIMESTAMP WITH TIME ZONE NULL,
    completed_at  TIMESTAMP WITH TIME ZONE NULL,
    timed_out_at  TIMESTAMP WITH TIME ZONE NULL,
    initial_data  JSONB NULL,
    current_data  JSONB NULL,
    result_data   JSONB NULL,
    error         JSONB NULL,
    timeout_ms    BIGINT NULL,
    retry_policy  JSONB NULL,
    metadata      JSONB NULL,
    trace_id      VARCHAR(255) NULL,
    span_id       VARCHAR(255) NULL
);
CREATE INDEX idx_saga_state ON seed2.saga_instances (state);
CREATE INDEX idx_saga_definition_id ON seed2.saga_instances (definition_id);
CREATE INDEX idx_saga_created_at ON seed2.saga_instances (created_at);
CREATE INDEX idx_saga_updated_at ON seed2.saga_instances (updated_at);
CREATE INDEX idx_saga_trace_id ON seed2.saga_instances (trace_id);
CREATE INDEX idx_saga_state_created ON seed2.saga_instances (state, created_at);
CREATE INDEX idx_saga_state_updated ON seed2.saga_instances (state, updated_at);
CREATE INDEX idx_saga_definition_state ON seed2.saga_instances (definition_id, state);
CREATE INDEX idx_saga_metadata ON seed2.saga_instances USING gin (metadata);
CREATE INDEX idx_saga_started_at ON seed2.saga_instances (started_at) WHERE started_at IS NOT NULL;
CREATE INDEX idx_saga_completed_at ON seed2.saga_instances (completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX idx_saga_filter_state_timeout ON seed2.saga_instances (state, timeout_ms) WHERE state IN (1, 2, 4);
CREATE INDEX idx_saga_terminal_cleanup ON seed2.saga_instances (completed_at) WHERE state IN (3, 5, 6, 7, 8);
CREATE TRIGGER trigger_saga_updated_at BEFORE UPDATE ON seed2.saga_instances FOR EACH ROW EXECUTE FUNCTION seed2.update_saga_updated_at();

CREATE TABLE seed2.saga_steps (
    id                 VARCHAR(255) PRIMARY KEY,
    saga_id            VARCHAR(255) NOT NULL,
    step_index         INTEGER NOT NULL CHECK (step_index >= 0),
    name               VARCHAR(255) NOT NULL,
    state              INTEGER NOT NULL CHECK (state >= 0 AND state <= 6),
    attempts           INTEGER NOT NULL CHECK (attempts >= 0),
    max_attempts       INTEGER NOT NULL CHECK (max_attempts >= 0),
    created_at         TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT NOW(),
    started_at         TIMESTAMP WITH TIME ZONE NULL,
    completed_at       TIMESTAMP WITH TIME ZONE NULL,
    last_attempt_at    TIMESTAMP WITH TIME ZONE NULL,
    input_data         JSONB NULL,
    output_data        JSONB NULL,
    error              JSONB NULL,
    compensation_state JSONB NULL,
    metadata           JSONB NULL,
    CONSTRAINT fk_saga_steps_saga FOREIGN KEY (saga_id) REFERENCES seed2.saga_instances (id) ON DELETE CASCADE
);
CREATE INDEX idx_step_saga_id ON seed2.saga_steps (saga_id);
CREATE INDEX idx_step_state ON seed2.saga_steps (state);
CREATE INDEX idx_step_saga_index ON seed2.saga_steps (saga_id, step_index);
CREATE INDEX idx_step_saga_state ON seed2.saga_steps (saga_id, state);
CREATE INDEX idx_step_state_attempts ON seed2.saga_steps (state, attempts);
CREATE UNIQUE INDEX idx_step_unique_saga_index ON seed2.saga_steps (saga_id, step_index);

CREATE TABLE seed2.saga_events (
    id         BIGSERIAL PRIMARY KEY,
    saga_id    VARCHAR(255) NOT NULL,
    event_type VARCHAR(100) NOT NULL,
    step_id    VARCHAR(255) NULL,
    step_index INTEGER NULL,
    timestamp  TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT NOW(),
    event_data JSONB NULL,
    old_state  INTEGER NULL,
    new_state  INTEGER NULL,
    error      JSONB NULL,
    trace_id   VARCHAR(255) NULL,
    span_id    VARCHAR(255) NULL,
    metadata   JSONB NULL,
    CONSTRAINT fk_saga_events_saga FOREIGN KEY (saga_id) REFERENCES seed2.saga_instances (id) ON DELETE CASCADE
);
CREATE INDEX idx_event_saga_id ON seed2.saga_events (saga_id);
CREATE INDEX idx_event_type ON seed2.saga_events (event_type);
CREATE INDEX idx_event_timestamp ON seed2.saga_events (timestamp DESC);
CREATE INDEX idx_event_saga_timestamp ON seed2.saga_events (saga_id, timestamp DESC);
CREATE INDEX idx_event_saga_type ON seed2.saga_events (saga_id, event_type);
CREATE INDEX idx_event_type_timestamp ON seed2.saga_events (event_type, timestamp DESC);
CREATE INDEX idx_event_step_id ON seed2.saga_events (step_id) WHERE step_id IS NOT NULL;
CREATE INDEX idx_event_trace_id ON seed2.saga_events (trace_id) WHERE trace_id IS NOT NULL;
