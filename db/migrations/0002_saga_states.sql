-- The head of a saga: one small row. Seed 1's columns under its names, then
-- those of seeds 2 and 4, then ours (docs/requirements.md).
--
-- state is the stored truth (seed 2's integers); status, lifecycle and
-- ended_state are generated from it and cannot drift.
--
-- Every index below is paid for on every transition, so none mentions a
-- column that changes at every step: the row stays HOT-updatable until it
-- ends (PERFORMANCE 1e; docs/decisions/0004). That is why "unfinished" is
-- written completed_at IS NULL, and why terminal states are found through
-- ended_state, which is NULL until the end.

-- +migrate Up
CREATE TABLE IF NOT EXISTS saga.saga_states (
    id                      uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
    workflow_name           varchar(255) NOT NULL,
    current_step            integer      NOT NULL DEFAULT 0,
    status                  varchar(50)  NOT NULL GENERATED ALWAYS AS (CASE state
        WHEN 0 THEN 'STARTED' WHEN 1 THEN 'RUNNING' WHEN 2 THEN 'RUNNING' WHEN 3 THEN 'COMPLETED'
        WHEN 4 THEN 'COMPENSATING' WHEN 7 THEN 'CANCELLED' ELSE 'FAILED' END) STORED,
    payload                 jsonb,
    correlation_id          varchar(255),
    initiated_by            varchar(255) NOT NULL DEFAULT '',
    error_message           text         GENERATED ALWAYS AS (error->>'message') STORED,
    created_at              timestamptz  NOT NULL DEFAULT now(),
    updated_at              timestamptz  NOT NULL DEFAULT now(),

    -- seed 2, saga_instances
    name                    varchar(255),
    description             text,
    state                   smallint     NOT NULL DEFAULT 0,
    total_steps             integer      NOT NULL,
    started_at              timestamptz,
    completed_at            timestamptz,
    timed_out_at            timestamptz,
    result_data             jsonb,
    error                   jsonb,
    timeout_ms              bigint,
    retry_policy            jsonb,
    metadata                jsonb,
    trace_id                varchar(255),
    span_id                 varchar(255),

    -- seed 4, sagas
    tenant_id               uuid         NOT NULL,
    tenant_region           varchar(32)  NOT NULL DEFAULT '',
    tenant_major            integer      NOT NULL DEFAULT 0,
    tenant_minor            integer      NOT NULL DEFAULT 0,
    saga_type               varchar(64)  NOT NULL,
    lifecycle               varchar(16)  NOT NULL GENERATED ALWAYS AS (CASE
        WHEN state IN (0, 1, 2) THEN 'active' WHEN state = 4 THEN 'compensating'
        WHEN state = 6 OR state <> 3 AND clean IS FALSE THEN 'failed' ELSE 'completed' END) STORED,
    version                 bigint       NOT NULL DEFAULT 1,
    timeout_at              timestamptz,

    -- ours
    workflow_version        integer      NOT NULL,
    business_key            varchar(255),
    step_attempt            integer      NOT NULL DEFAULT 0,     -- number of the call in flight; 0: nothing was ever sent
    step_failures           integer      NOT NULL DEFAULT 0,     -- committed failed attempts of the current call
    step_uncertain          boolean      NOT NULL DEFAULT false, -- the current step may have been applied
    end_cause               varchar(20),
    ended_state             smallint     GENERATED ALWAYS AS (CASE WHEN state IN (3, 5, 6, 7, 8) THEN state END) STORED,
    clean                   boolean,
    needs_attention         boolean      NOT NULL DEFAULT false,
    attention_reason        varchar(255),
    suspended_at            timestamptz,
    cancel_requested_at     timestamptz,
    compensation_timeout_ms bigint,
    compensation_timeout_at timestamptz,
    compensation_expired    boolean      NOT NULL DEFAULT false,
    next_run_at             timestamptz,
    lease_owner             bigint,
    lease_epoch             bigint       NOT NULL DEFAULT 0,
    parent_saga_id          uuid,
    reverses_saga_id        uuid,
    expires_at              timestamptz,

    CONSTRAINT chk_saga_states_status CHECK (status IN ('STARTED', 'RUNNING', 'COMPLETED', 'COMPENSATING', 'FAILED', 'CANCELLED')),
    CONSTRAINT chk_saga_states_state CHECK (state BETWEEN 0 AND 8),
    CONSTRAINT chk_saga_states_lifecycle CHECK (lifecycle IN ('active', 'compensating', 'completed', 'failed')),
    CONSTRAINT chk_saga_states_current_step CHECK (current_step >= 0 AND current_step <= total_steps),
    CONSTRAINT chk_saga_states_total_steps CHECK (total_steps >= 0),
    CONSTRAINT chk_saga_states_end_cause CHECK (end_cause IN ('step_failed', 'cancelled', 'deadline', 'operator')),
    CONSTRAINT chk_saga_states_version CHECK (version >= 1),
    CONSTRAINT chk_saga_states_tenant CHECK (tenant_major BETWEEN 0 AND 65535 AND tenant_minor BETWEEN 0 AND 65535),
    CONSTRAINT chk_saga_states_ended CHECK ((state IN (3, 5, 6, 7, 8)) = (completed_at IS NOT NULL)),
    CONSTRAINT chk_saga_states_clean CHECK ((completed_at IS NULL) = (clean IS NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- Lists, newest first (seed 4's tenant index; seed 1's created_at order).
CREATE INDEX IF NOT EXISTS idx_sagas_tenant ON saga.saga_states (tenant_id, created_at, id);
CREATE INDEX IF NOT EXISTS idx_saga_states_workflow_name ON saga.saga_states (tenant_id, workflow_name, created_at, id);
CREATE INDEX IF NOT EXISTS idx_saga_states_created_at ON saga.saga_states USING brin (created_at);
CREATE INDEX IF NOT EXISTS idx_saga_started_at ON saga.saga_states USING brin (started_at);
-- Unfinished sagas: recovery (seed 1's idx_saga_states_status), active lists (seed 2's idx_saga_state_created).
CREATE INDEX IF NOT EXISTS idx_saga_states_status ON saga.saga_states (tenant_id, created_at, id) WHERE completed_at IS NULL;
-- Who may be driven now: by owner (NULL: anybody) and due time.
CREATE INDEX IF NOT EXISTS idx_saga_runnable ON saga.saga_states (lease_owner, next_run_at) WHERE completed_at IS NULL;
-- Deadlines of the forward and of the compensating phase.
CREATE INDEX IF NOT EXISTS idx_sagas_timeout ON saga.saga_states (timeout_at) WHERE completed_at IS NULL AND timeout_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_saga_filter_state_timeout ON saga.saga_states (compensation_timeout_at) WHERE completed_at IS NULL AND compensation_timeout_at IS NOT NULL;
-- Everything that did not simply complete, by its end.
CREATE INDEX IF NOT EXISTS idx_saga_state ON saga.saga_states (tenant_id, ended_state, completed_at, id) WHERE ended_state <> 3;
-- What failed in seed 4's sense: effects may remain and a person must act. Not
-- by end_cause, which is set in the middle of a saga's life and would cost the
-- row its HOT update there.
CREATE INDEX IF NOT EXISTS idx_sagas_status ON saga.saga_states (tenant_id, created_at, id) WHERE needs_attention;
-- Retention, and completed sagas by their end.
CREATE INDEX IF NOT EXISTS idx_saga_terminal_cleanup ON saga.saga_states (completed_at) WHERE completed_at IS NOT NULL;
-- Lookups by the client's own keys.
CREATE INDEX IF NOT EXISTS idx_saga_states_correlation_id ON saga.saga_states (tenant_id, correlation_id, created_at) WHERE correlation_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_saga_trace_id ON saga.saga_states (tenant_id, trace_id) WHERE trace_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_saga_business_key ON saga.saga_states (tenant_id, business_key, created_at) WHERE business_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_saga_metadata ON saga.saga_states USING gin (metadata jsonb_path_ops) WHERE metadata IS NOT NULL;

-- Skald stamps updated_at itself; the trigger serves every other writer
-- (seed 1) and costs the hot path nothing but its WHEN.
CREATE TRIGGER update_saga_states_updated_at BEFORE UPDATE ON saga.saga_states
    FOR EACH ROW WHEN (NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at)
    EXECUTE FUNCTION saga.update_updated_at();

-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.refuse_transition() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    RAISE EXCEPTION 'saga %: state % cannot become %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'check_violation';
END;
$$;
-- +migrate StatementEnd

-- The closure of the transition table in internal/saga/state.go (one commit may
-- pass several edges); a test compares the two. Ended rows never change; only
-- 6 (an undo gave up) may be reopened.
CREATE TRIGGER guard_saga_states_transition BEFORE UPDATE ON saga.saga_states
    FOR EACH ROW WHEN (
        OLD.state IN (3, 5, 7, 8)
        OR (OLD.state IN (1, 2) AND NEW.state = 0)
        OR (OLD.state IN (4, 6) AND NEW.state NOT IN (4, 5, 6, 7, 8)))
    EXECUTE FUNCTION saga.refuse_transition();

INSERT INTO saga.saga_schema_version (version, description) VALUES (2, 'saga_states');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 2;
DROP TABLE IF EXISTS saga.saga_states;
DROP FUNCTION IF EXISTS saga.refuse_transition();
