-- Events (seed 5's Event, A-05) and what each has led to (S16).

-- +migrate Up
CREATE TABLE jobs.events (
    id             uuid         PRIMARY KEY,
    tenant_id      uuid         NOT NULL,
    event_type     varchar(255) COLLATE "C" NOT NULL,
    payload_json   jsonb,
    dedupe_key     varchar(255),
    correlation_id varchar(255),
    occurred_at    timestamptz  NOT NULL,
    source_run_id  uuid,                          -- emitted by this run
    created_at     timestamptz  NOT NULL,
    processed_at   timestamptz
) WITH (fillfactor = 80);
-- J-32: unique where it is used; upkeep empties dedupe_key when its window is over (S16).
CREATE UNIQUE INDEX idx_events_dedupe_key ON jobs.events (tenant_id, event_type, dedupe_key) WHERE dedupe_key IS NOT NULL;
CREATE INDEX idx_events_processed_at ON jobs.events (created_at, id) WHERE processed_at IS NULL; -- J-31
CREATE INDEX idx_events_expired ON jobs.events (processed_at) WHERE processed_at IS NOT NULL; -- retention
CREATE INDEX idx_events_created_at ON jobs.events (tenant_id, created_at, id);
CREATE INDEX idx_events_type ON jobs.events (tenant_id, event_type, created_at, id);

-- One definition that an event is for: its run, or why there is none.
CREATE TABLE jobs.event_deliveries (
    event_id      uuid         NOT NULL,
    definition_id uuid         NOT NULL,
    tenant_id     uuid         NOT NULL,
    run_id        uuid,
    attempts      integer      NOT NULL DEFAULT 0,
    error         varchar(500) NOT NULL DEFAULT '',
    delivered_at  timestamptz,
    next_try_at   timestamptz,                    -- NULL: done, or given up
    letter_id     uuid,
    PRIMARY KEY (event_id, definition_id)
) WITH (fillfactor = 80);
CREATE INDEX idx_event_deliveries_due ON jobs.event_deliveries (next_try_at) WHERE next_try_at IS NOT NULL;

INSERT INTO saga.saga_schema_version (version, description) VALUES (113, 'job events');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 113;
DROP TABLE jobs.event_deliveries, jobs.events;
