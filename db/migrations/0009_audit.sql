-- The audit trail as it is written: one row per event, in the transaction of
-- the change it tells of (docs/decisions/0014). Nothing wrote the table of
-- migration 0004, so it gives way to a leaner one and a view of its shape:
-- every byte, index and check here is paid eight times per saga of three steps.
--
-- No foreign key to saga_states: a cascade would let whoever may delete a saga
-- delete what is known of it, and the trail outlives the saga (trap X35).
-- Events are never moved; archived sagas keep theirs here.
--
-- The key begins with the saga, so that it serves what is asked of one, by
-- time, type or step: ids grow with time. idx_event_feed is the gap-free cursor
-- (trap X8). idx_event_type_timestamp leaves out what nearly every saga has,
-- where a scan of the feed finds enough.

-- +migrate Up
DROP TABLE IF EXISTS saga.saga_events_archive;
DROP TABLE saga.saga_events;
CREATE TABLE saga.audit_events (
    id         bigserial,
    saga_id    uuid         NOT NULL,
    tenant_id  uuid         NOT NULL,
    txid       xid8         NOT NULL DEFAULT pg_current_xact_id(),
    timestamp  timestamptz  NOT NULL DEFAULT now(),
    step_index integer,
    attempt    integer,
    old_state  integer,
    new_state  integer,
    event_type text         NOT NULL,
    step_name  text,
    digest     bytea        NOT NULL,             -- SHA-256 of the row's content (saga.AuditEvent.Digest)
    actor      text         NOT NULL DEFAULT '',  -- who asked for it; '': the engine
    request_id text,
    event_data jsonb,
    error      jsonb,
    trace_id   text,
    span_id    text,
    CONSTRAINT idx_event_saga_timestamp PRIMARY KEY (saga_id, id)
);
CREATE INDEX idx_event_feed ON saga.audit_events (tenant_id, txid, id);
CREATE INDEX idx_event_type_timestamp ON saga.audit_events (tenant_id, event_type, txid, id) WHERE event_type NOT IN
    ('saga.started', 'saga.step.started', 'saga.step.completed', 'saga.completed');
CREATE INDEX idx_event_trace_id ON saga.audit_events (trace_id, id) WHERE trace_id IS NOT NULL;
CREATE INDEX idx_event_timestamp ON saga.audit_events USING brin (timestamp);

-- Seed 2's table, then ours. Its lengths are checked where the events are made:
-- a cast here would hide event_type and trace_id from their indexes.
CREATE VIEW saga.saga_events WITH (security_invoker = true) AS
SELECT id, saga_id, event_type,
       (saga_id::text || ':' || step_index::text)::varchar(300) AS step_id,
       step_index, timestamp, event_data, old_state, new_state, error,
       trace_id, span_id, NULL::jsonb AS metadata,
       tenant_id, step_name, attempt, actor, request_id, digest, txid
  FROM saga.audit_events;

-- The hash chain of each tenant: a seal covers the events after the seal before
-- it, in feed order, and hashes their digests together with that seal's hash.
-- Written soon after the events, by whichever node comes first.
CREATE TABLE saga.audit_seals (
    tenant_id  uuid        NOT NULL,
    seq        bigint      NOT NULL CHECK (seq >= 1),
    from_txid  xid8        NOT NULL, -- the first event it covers
    from_id    bigint      NOT NULL,
    to_txid    xid8        NOT NULL, -- the last one
    to_id      bigint      NOT NULL,
    events     integer     NOT NULL CHECK (events >= 1),
    prev_hash  bytea       NOT NULL, -- of seal seq-1; 32 zero bytes for the first
    hash       bytea       NOT NULL,
    sealed_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, seq)
);

-- +migrate StatementBegin
CREATE FUNCTION saga.refuse_audit_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END;
$$;
-- +migrate StatementEnd
-- For every role, the owner too. A superuser could disable the trigger anyhow; the chain tells.
CREATE TRIGGER guard_audit_events BEFORE UPDATE OR DELETE OR TRUNCATE ON saga.audit_events
    FOR EACH STATEMENT EXECUTE FUNCTION saga.refuse_audit_change();
CREATE TRIGGER guard_audit_seals BEFORE UPDATE OR DELETE OR TRUNCATE ON saga.audit_seals
    FOR EACH STATEMENT EXECUTE FUNCTION saga.refuse_audit_change();

INSERT INTO saga.saga_schema_version (version, description) VALUES (9, 'audit events and their chain');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 9;
DROP TABLE IF EXISTS saga.audit_seals;
DROP VIEW IF EXISTS saga.saga_events;
DROP TABLE IF EXISTS saga.audit_events;
DROP FUNCTION IF EXISTS saga.refuse_audit_change();
CREATE TABLE saga.saga_events (
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
CREATE INDEX idx_event_saga_timestamp ON saga.saga_events (saga_id, timestamp DESC);
CREATE INDEX idx_event_type_timestamp ON saga.saga_events (event_type, timestamp DESC);
CREATE INDEX idx_event_timestamp ON saga.saga_events USING brin (timestamp);
CREATE INDEX idx_event_step_id ON saga.saga_events (step_id) WHERE step_id IS NOT NULL;
CREATE INDEX idx_event_trace_id ON saga.saga_events (trace_id, timestamp) WHERE trace_id IS NOT NULL;
CREATE TABLE saga.saga_events_archive (LIKE saga.saga_events, archived_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (id));
CREATE INDEX idx_saga_events_archive_saga_id ON saga.saga_events_archive (saga_id, id);
