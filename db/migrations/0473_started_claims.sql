-- A claim that starts its runs makes two transitions in one change of the row (docs/decisions/0167): to ASSIGNED and to
-- RUNNING. Each keeps its conditions: a new attempt and a new token.

-- +migrate Up
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION jobs.check_transition() RETURNS trigger
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
        -- An assignment and its start.
        WHEN NEW.state = 'RUNNING' AND OLD.state IN ('PENDING', 'ORPHANED') THEN
            NEW.version > OLD.version + 1 AND NEW.attempt = OLD.attempt + 1
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
DROP TRIGGER trg_job_runs_transition ON jobs.job_runs;
-- What every run that goes well does is no call of the function. The condition is short because PostgreSQL reads it
-- again in every statement; it only ever lets through what the table has.
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
        WHEN NEW.state = 'RUNNING' THEN
            OLD.finished_at IS NULL AND NEW.version > OLD.version + 1 AND NEW.attempt = OLD.attempt + 1
            AND NEW.lease_token IS DISTINCT FROM OLD.lease_token
    END IS NOT TRUE)
    EXECUTE FUNCTION jobs.check_transition();

INSERT INTO saga.saga_schema_version (version, description) VALUES (473, 'claims that start their runs');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 473;
DROP TRIGGER trg_job_runs_transition ON jobs.job_runs;
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION jobs.check_transition() RETURNS trigger
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
