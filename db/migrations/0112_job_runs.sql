-- Job runs (seed 5's JobRun, A-03): one execution of a definition each. The
-- database is the last point of truth (J-01): what may not happen is refused
-- here, whoever asks.

-- +migrate Up
CREATE SEQUENCE jobs.fencing AS bigint;

CREATE TABLE jobs.job_runs (
    id                 uuid         PRIMARY KEY,
    tenant_id          uuid         NOT NULL,
    definition_id      uuid         NOT NULL,
    definition_name    varchar(255) COLLATE "C" NOT NULL,
    spec_version       integer      NOT NULL,
    command_name       varchar(255) NOT NULL,
    version            bigint       NOT NULL DEFAULT 1,         -- J-03; grows with every transition, not with renewals (S12)
    state              varchar(10)  NOT NULL DEFAULT 'PENDING',
    trigger            varchar(10)  NOT NULL,
    scheduled_for      timestamptz  NOT NULL,                   -- S4: never NULL
    available_at       timestamptz  NOT NULL,                   -- not to be assigned before
    admitted_at        timestamptz,                             -- due and allowed by the concurrency policy: may be claimed
    queue              varchar(100) NOT NULL DEFAULT 'default',
    priority           integer      NOT NULL DEFAULT 0,         -- higher first
    required_labels    text[]       NOT NULL DEFAULT '{}',
    labels             text[]       NOT NULL DEFAULT '{}',
    args               jsonb,
    idempotency_key    varchar(400) NOT NULL,                   -- J-22, S4
    concurrency_key    varchar(255),                            -- NULL: any number at once
    concurrency_policy varchar(10)  NOT NULL DEFAULT 'allow',
    timeout_ms         bigint       NOT NULL DEFAULT 0,         -- 0: none
    -- Two counters (jobrun.md 5b): attempt fences, the others are budgets.
    attempt            integer      NOT NULL DEFAULT 0,         -- grows at every assignment
    failures_used      integer      NOT NULL DEFAULT 0,
    losses_used        integer      NOT NULL DEFAULT 0,
    max_losses         integer      NOT NULL DEFAULT 5,         -- S7
    -- The fence.
    assigned_worker_id uuid,
    assigned_at        timestamptz,
    lease_token        uuid,                                    -- S1; kept when the lease merely runs out
    lease_expires_at   timestamptz,
    leader_epoch       bigint,                                  -- J-17
    fencing_seq        bigint,                                  -- with the epoch the token for other systems
    started_at         timestamptz,
    finished_at        timestamptz,
    continuation_state varchar(10)  NOT NULL DEFAULT 'NONE',    -- J-16
    continuation_check_started_at  timestamptz,
    continuation_check_deadline_at timestamptz,
    cancel_requested_at timestamptz,                            -- S9
    cancel_reason      varchar(500) NOT NULL DEFAULT '',
    progress           jsonb,                                   -- percent, message, counters
    checkpoint         jsonb,                                   -- handed to the next attempt
    -- The end.
    exit_code          integer,
    result             jsonb,
    error              jsonb,                                   -- jobrun.Error
    error_code         varchar(100),
    error_summary      varchar(500),
    resource_cpu_seconds_total double precision,
    resource_peak_rss_bytes    bigint,
    resource_io_read_bytes     bigint,
    resource_io_write_bytes    bigint,
    log_bytes          bigint       NOT NULL DEFAULT 0,
    log_ref            varchar(500),                            -- J-41
    log_sha256         bytea,
    -- Whence and whither.
    root_run_id        uuid         NOT NULL,
    retry_of_run_id    uuid,
    retry_number       integer      NOT NULL DEFAULT 0,
    saga_id            uuid,
    saga_step          integer,
    saga_action        varchar(10),
    event_id           uuid,
    letter_id          uuid,
    backfill_id        uuid,
    correlation_id     varchar(255),
    trace_id           varchar(255),
    created_at         timestamptz  NOT NULL,
    updated_at         timestamptz  NOT NULL,
    CONSTRAINT chk_job_runs_state CHECK (state IN ('PENDING', 'ASSIGNED', 'RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELED', 'TIMED_OUT', 'ORPHANED', 'SKIPPED')),
    CONSTRAINT chk_job_runs_trigger CHECK (trigger IN ('TIME', 'EVENT', 'MANUAL', 'RETRY', 'BACKFILL', 'SAGA', 'DLQ')),
    CONSTRAINT chk_job_runs_continuation CHECK (continuation_state = 'NONE' OR (continuation_state = 'CONFIRMING' AND state = 'RUNNING' AND continuation_check_deadline_at IS NOT NULL)),
    CONSTRAINT chk_job_runs_policy CHECK (concurrency_policy IN ('forbid', 'allow', 'replace', 'queue')),
    CONSTRAINT chk_job_runs_fence CHECK (state NOT IN ('ASSIGNED', 'RUNNING') OR (assigned_worker_id IS NOT NULL AND lease_token IS NOT NULL AND lease_expires_at IS NOT NULL AND leader_epoch IS NOT NULL AND assigned_at IS NOT NULL)),
    CONSTRAINT chk_job_runs_started CHECK (state <> 'RUNNING' OR started_at IS NOT NULL),
    CONSTRAINT chk_job_runs_finished CHECK ((state IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'TIMED_OUT', 'SKIPPED')) = (finished_at IS NOT NULL))
) WITH (fillfactor = 80);

-- J1, J-29: a slot fires once. Retries and backfills of it are rows of their own (S5).
CREATE UNIQUE INDEX idx_job_runs_definition_scheduled_for ON jobs.job_runs (definition_id, scheduled_for) WHERE trigger = 'TIME';
CREATE UNIQUE INDEX idx_job_runs_idempotency_key ON jobs.job_runs (tenant_id, idempotency_key);
-- S18: of one key at most one is with a worker, or may come back to one.
CREATE UNIQUE INDEX idx_job_runs_concurrency_key ON jobs.job_runs (tenant_id, concurrency_key) WHERE concurrency_key IS NOT NULL AND state IN ('ASSIGNED', 'RUNNING', 'ORPHANED');
CREATE INDEX idx_job_runs_concurrency_waiting ON jobs.job_runs (tenant_id, concurrency_key, available_at, id) WHERE concurrency_key IS NOT NULL AND state = 'PENDING';
-- The loops. Lease ends are in no index, so that renewals are cheap (HOT): what
-- runs is few, and the sweeps look at all of it.
CREATE INDEX idx_job_runs_claimable ON jobs.job_runs (tenant_id, queue, priority DESC, scheduled_for, id) WHERE state IN ('PENDING', 'ORPHANED') AND admitted_at IS NOT NULL;
-- What waits for its time alone; what waits for a key as well is in the index of keys.
CREATE INDEX idx_job_runs_waiting ON jobs.job_runs (available_at, id) WHERE admitted_at IS NULL AND (state = 'ORPHANED' OR state = 'PENDING' AND concurrency_key IS NULL);
CREATE INDEX idx_job_runs_assigned_worker_id ON jobs.job_runs (assigned_worker_id, state) WHERE state IN ('ASSIGNED', 'RUNNING');
-- Lists.
CREATE INDEX idx_job_runs_state ON jobs.job_runs (tenant_id, state, scheduled_for, id);
CREATE INDEX idx_job_runs_created_at ON jobs.job_runs (tenant_id, created_at, id);
CREATE INDEX idx_job_runs_definition ON jobs.job_runs (tenant_id, definition_id, created_at, id);
CREATE INDEX idx_job_runs_finished_at ON jobs.job_runs (tenant_id, finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX idx_job_runs_worker ON jobs.job_runs (tenant_id, assigned_worker_id, created_at, id) WHERE assigned_worker_id IS NOT NULL AND finished_at IS NOT NULL;
CREATE INDEX idx_job_runs_root ON jobs.job_runs (tenant_id, root_run_id, created_at, id) WHERE retry_number > 0;
CREATE INDEX idx_job_runs_correlation_id ON jobs.job_runs (tenant_id, correlation_id, created_at, id) WHERE correlation_id IS NOT NULL;
CREATE INDEX idx_job_runs_saga_id ON jobs.job_runs (tenant_id, saga_id, created_at, id) WHERE saga_id IS NOT NULL;
CREATE INDEX idx_job_runs_error_code ON jobs.job_runs (tenant_id, error_code, created_at, id) WHERE error_code IS NOT NULL;
CREATE INDEX idx_job_runs_backfill_id ON jobs.job_runs (backfill_id, state) WHERE backfill_id IS NOT NULL;
CREATE INDEX idx_job_runs_labels ON jobs.job_runs USING gin (labels) WHERE labels <> '{}';

-- J-06 to J-15 and S6: what is not in this table does not happen.
-- +migrate StatementBegin
CREATE FUNCTION jobs.check_transition() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF (CASE
        -- No transition: a terminal row keeps what it says (its log may move), others keep their fence.
        WHEN NEW.state = OLD.state THEN
            NEW.version >= OLD.version AND NEW.attempt = OLD.attempt
            AND (OLD.finished_at IS NULL OR (NEW.finished_at = OLD.finished_at AND NEW.version = OLD.version))
            AND (NEW.state NOT IN ('ASSIGNED', 'RUNNING') OR NEW.lease_token = OLD.lease_token)
        WHEN NEW.version <= OLD.version THEN false
        -- An assignment has a new attempt and a new token (S1).
        WHEN NEW.state = 'ASSIGNED' THEN
            OLD.state IN ('PENDING', 'ORPHANED') AND NEW.attempt = OLD.attempt + 1
            AND NEW.lease_token IS DISTINCT FROM OLD.lease_token
        WHEN NEW.attempt <> OLD.attempt THEN false
        WHEN NEW.state = 'RUNNING' THEN OLD.state = 'ASSIGNED' AND NEW.lease_token = OLD.lease_token AND NEW.assigned_worker_id = OLD.assigned_worker_id
        WHEN NEW.state = 'SUCCEEDED' THEN OLD.state = 'RUNNING' AND NEW.lease_token = OLD.lease_token AND NEW.leader_epoch = OLD.leader_epoch
        WHEN NEW.state IN ('FAILED', 'TIMED_OUT') THEN OLD.state IN ('RUNNING', 'ORPHANED')
        WHEN NEW.state = 'ORPHANED' THEN OLD.state IN ('ASSIGNED', 'RUNNING')
        WHEN NEW.state = 'CANCELED' THEN OLD.state IN ('PENDING', 'ASSIGNED', 'RUNNING', 'ORPHANED')
        WHEN NEW.state = 'SKIPPED' THEN OLD.state IN ('PENDING', 'ASSIGNED')
        ELSE false
    END) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'job run %: % (version %, attempt %) cannot become % (version %, attempt %)', OLD.id,
        OLD.state, OLD.version, OLD.attempt, NEW.state, NEW.version, NEW.attempt USING ERRCODE = 'JR001';
END;
$$;
-- +migrate StatementEnd
-- What every run that goes well does is no call of the function. The condition
-- is short because PostgreSQL reads it anew in every statement; it only ever lets
-- through what the table has.
CREATE TRIGGER trg_job_runs_transition BEFORE UPDATE ON jobs.job_runs FOR EACH ROW WHEN (
    CASE
        WHEN NEW.state = OLD.state THEN
            NEW.version = OLD.version AND NEW.attempt = OLD.attempt AND NEW.finished_at IS NOT DISTINCT FROM OLD.finished_at
            AND NEW.lease_token IS NOT DISTINCT FROM OLD.lease_token
        WHEN NEW.version <= OLD.version THEN false
        WHEN NEW.state = 'ASSIGNED' THEN
            OLD.finished_at IS NULL AND OLD.state <> 'RUNNING' AND NEW.attempt = OLD.attempt + 1 AND NEW.lease_token IS DISTINCT FROM OLD.lease_token
        WHEN NEW.state = CASE OLD.state WHEN 'ASSIGNED' THEN 'RUNNING' WHEN 'RUNNING' THEN 'SUCCEEDED' END THEN
            NEW.attempt = OLD.attempt AND NEW.lease_token = OLD.lease_token AND NEW.assigned_worker_id = OLD.assigned_worker_id
            AND NEW.leader_epoch = OLD.leader_epoch
    END IS NOT TRUE)
    EXECUTE FUNCTION jobs.check_transition();

-- Attempts that another one may follow, written when they end (S19). A run's
-- last or present attempt is the run's own row.
CREATE TABLE jobs.job_run_attempts (
    run_id           uuid         NOT NULL,
    tenant_id        uuid         NOT NULL,
    attempt          integer      NOT NULL,
    worker_id        uuid         NOT NULL,
    lease_token      uuid         NOT NULL,
    leader_epoch     bigint       NOT NULL,
    fencing_seq      bigint,
    assigned_at      timestamptz  NOT NULL,
    started_at       timestamptz,
    ended_at         timestamptz  NOT NULL,
    outcome          varchar(20)  NOT NULL,  -- ORPHANED, RELEASED, REASSIGNED, or the run's terminal state
    reason           varchar(500) NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, attempt)
);

-- Decisions about a run: by whom, under which epoch, why. What a run's row and
-- its attempts tell by themselves (assigned, started, succeeded) is not repeated.
CREATE TABLE jobs.job_run_events (
    id         bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id     uuid         NOT NULL,
    tenant_id  uuid         NOT NULL,
    at         timestamptz  NOT NULL,
    kind       varchar(40)  NOT NULL,
    from_state varchar(10)  NOT NULL DEFAULT '',
    to_state   varchar(10)  NOT NULL DEFAULT '',
    version    bigint       NOT NULL DEFAULT 0,
    attempt    integer      NOT NULL DEFAULT 0,
    epoch      bigint       NOT NULL DEFAULT 0,
    worker_id  uuid,
    actor      varchar(255) NOT NULL DEFAULT '',
    reason     varchar(500) NOT NULL DEFAULT ''
);
CREATE INDEX idx_job_run_events_run_id ON jobs.job_run_events (run_id, id);

-- J-43: log bodies in a table of their own.
CREATE TABLE jobs.job_run_logs (
    run_id     uuid        NOT NULL,
    tenant_id  uuid        NOT NULL,
    attempt    integer     NOT NULL,
    seq        integer     NOT NULL CHECK (seq >= 0),
    at         timestamptz NOT NULL,
    stream     varchar(10) NOT NULL DEFAULT 'stdout',
    body       bytea       NOT NULL,
    PRIMARY KEY (run_id, attempt, seq)
);
ALTER TABLE jobs.job_run_logs ALTER COLUMN body SET COMPRESSION pglz;

-- Fences of other systems (jobrun.md 5b): the newest token each key has shown.
CREATE TABLE jobs.fences (
    tenant_id  uuid         NOT NULL,
    key        varchar(255) NOT NULL,
    epoch      bigint       NOT NULL,
    seq        bigint       NOT NULL,
    checked_at timestamptz  NOT NULL,
    PRIMARY KEY (tenant_id, key)
) WITH (fillfactor = 50);

INSERT INTO saga.saga_schema_version (version, description) VALUES (112, 'job runs');

-- +migrate Down
-- +migrate StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM jobs.job_runs) AND coalesce(current_setting('skald.force_down', true), '') <> 'yes' THEN
        RAISE EXCEPTION 'jobs.job_runs is not empty: SET skald.force_down = ''yes'' to drop it all the same';
    END IF;
END;
$$;
-- +migrate StatementEnd
DELETE FROM saga.saga_schema_version WHERE version = 112;
DROP TABLE jobs.fences, jobs.job_run_logs, jobs.job_run_events, jobs.job_run_attempts, jobs.job_runs;
DROP FUNCTION jobs.check_transition();
DROP SEQUENCE jobs.fencing;
