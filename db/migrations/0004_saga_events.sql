-- Seed 2's audit trail, append-only, and the outbox of every notification.
-- txid makes a gap-free cursor: read (txid, id) below pg_snapshot_xmin (trap X8).

-- +migrate Up
CREATE TABLE IF NOT EXISTS saga.saga_events (
    id         bigserial    PRIMARY KEY,
    saga_id    uuid         NOT NULL,
    event_type varchar(100) NOT NULL,
    step_id    varchar(300),
    step_index integer,
    timestamp  timestamptz  NOT NULL DEFAULT now(),
    event_data jsonb,
    old_state  integer CHECK (old_state BETWEEN 0 AND 8),
    new_state  integer CHECK (new_state BETWEEN 0 AND 8),
    error      jsonb,
    trace_id   varchar(255),
    span_id    varchar(255),
    metadata   jsonb,
    tenant_id  uuid         NOT NULL,
    actor      varchar(255) NOT NULL DEFAULT '',
    request_id varchar(128),
    txid       xid8         NOT NULL DEFAULT pg_current_xact_id(),
    CONSTRAINT fk_saga_events_saga FOREIGN KEY (saga_id) REFERENCES saga.saga_states (id) ON DELETE CASCADE
);

CREATE INDEX IF NOT EXISTS idx_event_saga_timestamp ON saga.saga_events (saga_id, timestamp DESC);
CREATE INDEX IF NOT EXISTS idx_event_type_timestamp ON saga.saga_events (event_type, timestamp DESC);
CREATE INDEX IF NOT EXISTS idx_event_timestamp ON saga.saga_events USING brin (timestamp);
CREATE INDEX IF NOT EXISTS idx_event_step_id ON saga.saga_events (step_id) WHERE step_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_event_trace_id ON saga.saga_events (trace_id, timestamp) WHERE trace_id IS NOT NULL;

INSERT INTO saga.saga_schema_version (version, description) VALUES (4, 'saga_events');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 4;
DROP TABLE IF EXISTS saga.saga_events;
