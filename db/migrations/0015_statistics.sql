-- Reading at scale: what lists need beyond the first indexes, and statistics
-- that need not read every saga (docs/decisions/0021).
--
-- No index below mentions a column that changes at every step, and all but one
-- hold only the few sagas that did not simply complete at once, so that the
-- usual saga pays for one more index entry (docs/performance.md).

-- +migrate Up
-- Ended otherwise than completed, newest first. The columns behind the order
-- are read in the index: whichever of these sagas somebody looks for, only the
-- rows found are visited.
DROP INDEX IF EXISTS saga.idx_saga_state;
CREATE INDEX idx_saga_state ON saga.saga_states (tenant_id, created_at, id, ended_state, workflow_name, initiated_by, completed_at) WHERE ended_state <> 3;
-- Unfinished ones likewise, but for the state, which changes at every step.
DROP INDEX IF EXISTS saga.idx_saga_states_status;
CREATE INDEX idx_saga_states_status ON saga.saga_states (tenant_id, created_at, id, workflow_name, initiated_by) WHERE completed_at IS NULL;
-- The view of failed sagas, by their last change, which is their end. The sum
-- is for the planner: without it, it would read all of this index where the
-- one above has the answer.
CREATE INDEX idx_saga_state_updated ON saga.saga_states (ended_state, completed_at) WHERE ended_state + 0 IN (6, 7, 8);
-- Sagas that took long. The others were changed last within a minute of their
-- creation, so that the lists' order finds them by either time.
CREATE INDEX idx_saga_updated_at ON saga.saga_states (tenant_id, completed_at, created_at, id) WHERE completed_at - created_at > interval '1 minute';
-- By the client's own words, of one tenant and, as the seeds' queries ask, of all.
DROP INDEX IF EXISTS saga.idx_saga_trace_id;
CREATE INDEX idx_saga_trace_id ON saga.saga_states (trace_id, tenant_id) WHERE trace_id IS NOT NULL;
DROP INDEX IF EXISTS saga.idx_saga_states_correlation_id;
CREATE INDEX idx_saga_states_correlation_id ON saga.saga_states (correlation_id, tenant_id, created_at) WHERE correlation_id IS NOT NULL;
-- By caller, newest first. A caller starts certain workflows only, so the
-- workflow is read in the index: where the two never meet, no row is visited.
-- 'anonymous' is everybody in development mode: the lists' order finds it at once.
CREATE INDEX idx_saga_initiated_by ON saga.saga_states (tenant_id, initiated_by, created_at, id, workflow_name)
    WHERE initiated_by <> '' AND initiated_by <> 'anonymous';
CREATE INDEX idx_saga_states_archive_initiated_by ON saga.saga_states_archive (tenant_id, initiated_by, created_at, id) WHERE initiated_by <> '';

-- How many sagas ended how, by the hour and by the day (UTC) of their creation:
-- those that can never change again, archived or not.
CREATE TABLE saga.saga_counts (
    tenant_id        uuid         NOT NULL,
    span             varchar(4)   NOT NULL CHECK (span IN ('hour', 'day')),
    workflow_name    varchar(255) NOT NULL,
    begins           timestamptz  NOT NULL,
    workflow_version integer      NOT NULL,
    state            smallint     NOT NULL CHECK (state IN (3, 5, 7, 8)),
    sagas            bigint       NOT NULL,
    timed            bigint       NOT NULL, -- how many of them have a start and an end
    duration_us      numeric      NOT NULL, -- from start to end, in sum
    last_update      timestamptz  NOT NULL,
    PRIMARY KEY (span, tenant_id, workflow_name, begins, workflow_version, state)
);

-- Sagas created before the horizon that are not in saga_counts: unfinished, or
-- failed (6) and perhaps to be reopened. What stands here of a failed one holds
-- as long as it has that end.
CREATE TABLE saga.saga_counts_pending (
    saga_id          uuid PRIMARY KEY,
    tenant_id        uuid NOT NULL,
    failed_at        timestamptz, -- NULL: look at the saga
    workflow_name    varchar(255) NOT NULL,
    workflow_version integer      NOT NULL,
    created_at       timestamptz  NOT NULL,
    duration_us      numeric,
    updated_at       timestamptz  NOT NULL
);
CREATE INDEX idx_saga_counts_pending_tenant ON saga.saga_counts_pending (tenant_id);

-- One row. Its lock makes the roll-up one node's at a time.
CREATE TABLE saga.saga_counts_horizon (
    one            boolean     PRIMARY KEY DEFAULT true CHECK (one),
    created_before timestamptz NOT NULL
);
INSERT INTO saga.saga_counts_horizon (created_before) VALUES ('-infinity');

-- The tenants that have sagas, each found by one look into an index.
-- +migrate StatementBegin
CREATE FUNCTION saga.saga_tenants() RETURNS SETOF uuid
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    WITH RECURSIVE live AS (
        (SELECT tenant_id FROM saga.saga_states ORDER BY tenant_id LIMIT 1)
        UNION ALL
        SELECT (SELECT s.tenant_id FROM saga.saga_states s WHERE s.tenant_id > l.tenant_id ORDER BY s.tenant_id LIMIT 1)
          FROM live l WHERE l.tenant_id IS NOT NULL
    ), archived AS (
        (SELECT tenant_id FROM saga.saga_states_archive ORDER BY tenant_id LIMIT 1)
        UNION ALL
        SELECT (SELECT s.tenant_id FROM saga.saga_states_archive s WHERE s.tenant_id > a.tenant_id ORDER BY s.tenant_id LIMIT 1)
          FROM archived a WHERE a.tenant_id IS NOT NULL
    )
    SELECT tenant_id FROM live WHERE tenant_id IS NOT NULL
    UNION
    SELECT tenant_id FROM archived WHERE tenant_id IS NOT NULL
$$;
-- +migrate StatementEnd

-- What the statistics need to know of each saga created from first to before
-- last, wherever it is. Each tenant's are found by its index of lists.
-- +migrate StatementBegin
CREATE FUNCTION saga.sagas_created(tenant uuid, first timestamptz, last timestamptz)
RETURNS TABLE (saga_id uuid, tenant_id uuid, workflow_name varchar, workflow_version integer, state smallint,
               created_at timestamptz, failed_at timestamptz, duration_us numeric, updated_at timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    SELECT s.id, s.tenant_id, s.workflow_name, s.workflow_version, s.state, s.created_at, s.failed_at, s.duration_us, s.updated_at
      FROM (SELECT tenant AS id WHERE tenant IS NOT NULL
            UNION ALL SELECT t FROM saga.saga_tenants() AS t WHERE tenant IS NULL) AS owner
     CROSS JOIN LATERAL (
        SELECT id, tenant_id, workflow_name, workflow_version, state, created_at, CASE WHEN state = 6 THEN completed_at END AS failed_at,
               extract(epoch FROM completed_at - started_at) * 1000000 AS duration_us, updated_at
          FROM saga.saga_states WHERE tenant_id = owner.id AND created_at >= first AND created_at < last
        UNION ALL
        SELECT id, tenant_id, workflow_name, workflow_version, state, created_at, NULL,
               extract(epoch FROM completed_at - started_at) * 1000000, updated_at
          FROM saga.saga_states_archive WHERE tenant_id = owner.id AND created_at >= first AND created_at < last) AS s
$$;
-- +migrate StatementEnd

-- The same of the sagas in saga_counts_pending. Most are unfinished, or failed
-- as they were: indexes of few rows tell that. Only the others are looked up.
-- changed tells which those are.
-- +migrate StatementBegin
CREATE FUNCTION saga.sagas_pending(tenant uuid)
RETURNS TABLE (saga_id uuid, tenant_id uuid, workflow_name varchar, workflow_version integer, state smallint,
               created_at timestamptz, failed_at timestamptz, duration_us numeric, updated_at timestamptz, changed boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog SET jit = off AS $$
BEGIN
    -- EXECUTE plans for this very tenant.
    RETURN QUERY EXECUTE $query$
        WITH pending AS MATERIALIZED (
            SELECT saga_id, tenant_id, failed_at, workflow_name, workflow_version, created_at, duration_us, updated_at
              FROM saga.saga_counts_pending p WHERE $1 IS NULL OR p.tenant_id = $1
        ), unfinished AS MATERIALIZED (
            SELECT s.id, s.state, s.updated_at FROM saga.saga_states s WHERE s.completed_at IS NULL AND ($1 IS NULL OR s.tenant_id = $1)
        ), failed AS MATERIALIZED (
            SELECT s.id, s.completed_at FROM saga.saga_states s WHERE s.ended_state = 6 AND ($1 IS NULL OR s.tenant_id = $1)
        ), seen AS MATERIALIZED (
            SELECT p.saga_id, p.tenant_id, p.failed_at, p.workflow_name, p.workflow_version, p.created_at, p.duration_us, p.updated_at,
                   u.state AS unfinished_in, u.updated_at AS touched, f.id IS NOT NULL AS still_failed
              FROM pending p
              LEFT JOIN unfinished u ON u.id = p.saga_id
              LEFT JOIN failed f ON f.id = p.saga_id AND f.completed_at = p.failed_at
        )
        SELECT saga_id, tenant_id, workflow_name, workflow_version, coalesce(unfinished_in, 6::smallint), created_at,
               CASE WHEN still_failed THEN failed_at END, CASE WHEN still_failed THEN duration_us END, coalesce(touched, updated_at),
               unfinished_in IS NOT NULL AND failed_at IS NOT NULL
          FROM seen WHERE unfinished_in IS NOT NULL OR still_failed
        UNION ALL
        SELECT s.id, n.tenant_id, n.workflow_name, n.workflow_version, s.state, n.created_at, s.failed_at, s.duration_us, s.updated_at, true
          FROM seen n
         CROSS JOIN LATERAL (
            SELECT id, state, CASE WHEN state = 6 THEN completed_at END AS failed_at,
                   extract(epoch FROM completed_at - started_at) * 1000000 AS duration_us, updated_at
              FROM saga.saga_states WHERE id = n.saga_id
            UNION ALL
            SELECT id, state, NULL, extract(epoch FROM completed_at - started_at) * 1000000, updated_at
              FROM saga.saga_states_archive WHERE id = n.saga_id
            OFFSET 0) AS s
         WHERE unfinished_in IS NULL AND NOT still_failed
    $query$ USING tenant;
END;
$$;
-- +migrate StatementEnd

-- Every saga once: what is rolled up, what is not yet, and what cannot be.
-- NULL does not restrict. created_from and created_to are full hours. It is
-- STABLE, so all of it sees the snapshot of the query that calls it.
-- +migrate StatementBegin
CREATE FUNCTION saga.count_sagas(tenant uuid, workflow varchar, created_from timestamptz, created_to timestamptz)
RETURNS TABLE (workflow_name varchar, workflow_version integer, state smallint, sagas numeric, timed numeric, duration_us numeric, last_update timestamptz)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog SET jit = off AS $$
DECLARE
    first     timestamptz := coalesce(created_from, '-infinity');
    beyond    timestamptz := coalesce(created_to, 'infinity');
    first_day timestamptz := date_trunc('day', first, 'UTC');
    last_day  timestamptz := date_trunc('day', beyond, 'UTC');
    horizon   timestamptz := (SELECT created_before FROM saga.saga_counts_horizon);
BEGIN
    IF first_day < first THEN
        first_day := first_day + interval '24 hours';
    END IF;
    IF first_day > last_day THEN -- both in one day: hours only
        first_day := beyond;
        last_day := beyond;
    END IF;
    RETURN QUERY EXECUTE $query$
        SELECT c.workflow_name, c.workflow_version, c.state, sum(c.sagas), sum(c.timed), sum(c.duration_us), max(c.last_update)
          FROM saga.saga_counts c
         WHERE ($1 IS NULL OR c.tenant_id = $1) AND ($2 IS NULL OR c.workflow_name = $2)
           AND (c.span = 'day' AND c.begins >= $6 AND c.begins < $7
                OR $6 > $3 AND c.span = 'hour' AND c.begins >= $3 AND c.begins < $6
                OR $4 > $7 AND c.span = 'hour' AND c.begins >= $7 AND c.begins < $4)
         GROUP BY 1, 2, 3
        UNION ALL
        SELECT s.workflow_name, s.workflow_version, s.state, count(*), count(s.duration_us), coalesce(sum(s.duration_us), 0), max(s.updated_at)
          FROM (SELECT workflow_name, workflow_version, state, created_at, duration_us, updated_at FROM saga.sagas_created($1, greatest($3, $5), $4)
                UNION ALL
                SELECT workflow_name, workflow_version, state, created_at, duration_us, updated_at FROM saga.sagas_pending($1)) AS s
         WHERE ($2 IS NULL OR s.workflow_name = $2) AND s.created_at >= $3 AND s.created_at < $4
         GROUP BY 1, 2, 3
    $query$ USING tenant, workflow, first, beyond, horizon, first_day, last_day;
END;
$$;
-- +migrate StatementEnd

-- Counts what is not counted yet: sagas created since the horizon, in pieces of
-- at most that long, up to grace before now, and pending ones that have come to
-- an end. Returns whether more is left to do at once.
--
-- Exactly once: the horizon only moves forward, created_at never changes, a
-- saga that may still change waits in saga_counts_pending, and leaves it in the
-- statement that counts it. grace covers what lies between a saga's creation
-- time and its commit, and the clocks of nodes: a saga that becomes visible
-- later than that is not counted (saga.recount_sagas repairs it).
-- +migrate StatementBegin
CREATE FUNCTION saga.roll_up_sagas(grace interval DEFAULT '2 minutes', piece interval DEFAULT '10 minutes') RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog SET jit = off AS $$
DECLARE
    horizon timestamptz;
    beyond  timestamptz;
    latest  timestamptz := now() - grace;
BEGIN
    SELECT created_before INTO horizon FROM saga.saga_counts_horizon FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false; -- somebody else is at it
    END IF;
    WITH found AS MATERIALIZED (
        SELECT saga_id, tenant_id, workflow_name, workflow_version, state, created_at, failed_at, duration_us, updated_at, changed
          FROM saga.sagas_pending(NULL)
    ), purged AS (
        DELETE FROM saga.saga_counts_pending WHERE saga_id NOT IN (SELECT saga_id FROM found)
    ), changed AS MATERIALIZED (
        SELECT saga_id, tenant_id, workflow_name, workflow_version, state, created_at, failed_at, duration_us, updated_at
          FROM found WHERE changed
    ), touched AS (
        UPDATE saga.saga_counts_pending p
           SET failed_at = c.failed_at, duration_us = c.duration_us, updated_at = c.updated_at
          FROM changed c WHERE c.saga_id = p.saga_id AND c.state NOT IN (3, 5, 7, 8) AND c.failed_at IS DISTINCT FROM p.failed_at
    ), ended AS (
        DELETE FROM saga.saga_counts_pending p USING changed c
         WHERE c.saga_id = p.saga_id AND c.state IN (3, 5, 7, 8)
        RETURNING c.tenant_id, c.workflow_name, c.workflow_version, c.state, c.created_at, c.duration_us, c.updated_at
    )
    INSERT INTO saga.saga_counts AS c (tenant_id, span, workflow_name, begins, workflow_version, state, sagas, timed, duration_us, last_update)
    SELECT e.tenant_id, span, e.workflow_name, date_trunc(span, e.created_at, 'UTC'), e.workflow_version, e.state,
           count(*), count(e.duration_us), coalesce(sum(e.duration_us), 0), max(e.updated_at)
      FROM ended e, unnest(ARRAY['hour', 'day']) AS span GROUP BY 1, 2, 3, 4, 5, 6
    ON CONFLICT (span, tenant_id, workflow_name, begins, workflow_version, state) DO UPDATE
       SET sagas = c.sagas + excluded.sagas, timed = c.timed + excluded.timed, duration_us = c.duration_us + excluded.duration_us,
           last_update = greatest(c.last_update, excluded.last_update);

    -- Over a time without sagas in one go.
    SELECT min(f.created_at) INTO beyond FROM saga.saga_tenants() AS t CROSS JOIN LATERAL (
        (SELECT s.created_at FROM saga.saga_states s WHERE s.tenant_id = t AND s.created_at >= horizon ORDER BY s.created_at LIMIT 1)
        UNION ALL
        (SELECT a.created_at FROM saga.saga_states_archive a WHERE a.tenant_id = t AND a.created_at >= horizon ORDER BY a.created_at LIMIT 1)) AS f;
    beyond := least(beyond + piece, latest);
    IF beyond <= horizon THEN
        RETURN false;
    END IF;
    WITH created AS MATERIALIZED (
        SELECT saga_id, tenant_id, workflow_name, workflow_version, state, created_at, failed_at, duration_us, updated_at
          FROM saga.sagas_created(NULL, horizon, beyond)
    ), waiting AS (
        INSERT INTO saga.saga_counts_pending (saga_id, tenant_id, failed_at, workflow_name, workflow_version, created_at, duration_us, updated_at)
        SELECT saga_id, tenant_id, failed_at, workflow_name, workflow_version, created_at, duration_us, updated_at
          FROM created WHERE state NOT IN (3, 5, 7, 8)
    )
    INSERT INTO saga.saga_counts AS c (tenant_id, span, workflow_name, begins, workflow_version, state, sagas, timed, duration_us, last_update)
    SELECT e.tenant_id, span, e.workflow_name, date_trunc(span, e.created_at, 'UTC'), e.workflow_version, e.state,
           count(*), count(e.duration_us), coalesce(sum(e.duration_us), 0), max(e.updated_at)
      FROM created e, unnest(ARRAY['hour', 'day']) AS span WHERE e.state IN (3, 5, 7, 8) GROUP BY 1, 2, 3, 4, 5, 6
    ON CONFLICT (span, tenant_id, workflow_name, begins, workflow_version, state) DO UPDATE
       SET sagas = c.sagas + excluded.sagas, timed = c.timed + excluded.timed, duration_us = c.duration_us + excluded.duration_us,
           last_update = greatest(c.last_update, excluded.last_update);
    UPDATE saga.saga_counts_horizon SET created_before = beyond;
    RETURN beyond < latest;
END;
$$;
-- +migrate StatementEnd

-- Forgets all counts and takes them anew, from the sagas that are there: for
-- an operator who has deleted sagas by hand or restored a part of them.
-- +migrate StatementBegin
CREATE FUNCTION saga.recount_sagas() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    PERFORM 1 FROM saga.saga_counts_horizon FOR UPDATE;
    DELETE FROM saga.saga_counts;
    DELETE FROM saga.saga_counts_pending;
    UPDATE saga.saga_counts_horizon SET created_before = '-infinity';
    PERFORM saga.roll_up_sagas(piece => '1000 years');
END;
$$;
-- +migrate StatementEnd

-- Seed 2's columns, then those it forgot, so that the counts add up (trap X36).
-- Archived sagas count too.
CREATE OR REPLACE VIEW saga.saga_statistics AS
SELECT (workflow_name || '@' || workflow_version)::varchar(300) AS definition_id,
       sum(sagas)::bigint AS total_instances,
       coalesce(sum(sagas) FILTER (WHERE state = 3), 0)::bigint AS completed_count,
       coalesce(sum(sagas) FILTER (WHERE state IN (6, 7, 8)), 0)::bigint AS failed_count,
       coalesce(sum(sagas) FILTER (WHERE state IN (1, 2, 4)), 0)::bigint AS active_count,
       sum(duration_us) / nullif(sum(timed), 0) / 1000000 AS avg_duration_seconds,
       max(last_update) AS last_execution,
       coalesce(sum(sagas) FILTER (WHERE state = 0), 0)::bigint AS pending_count,
       coalesce(sum(sagas) FILTER (WHERE state = 5), 0)::bigint AS compensated_count
  FROM saga.count_sagas(NULL, NULL, NULL, NULL)
 GROUP BY 1;

-- The last change of a saga that was cancelled or timed out is its end; only
-- a failed one (6) may be changed later, and of those there are few. Each part
-- is in order, so that the first rows of all need not wait for the last.
CREATE OR REPLACE VIEW saga.failed_sagas AS
SELECT id, definition_id, name, state, current_step, total_steps, created_at, updated_at, completed_at, error, trace_id
  FROM ((SELECT id, (workflow_name || '@' || workflow_version)::varchar(300) AS definition_id, name, state::integer AS state, current_step, total_steps,
               created_at, updated_at, completed_at, error, trace_id
          FROM saga.saga_states WHERE ended_state + 0 IN (6, 7, 8) AND ended_state = 6 ORDER BY updated_at DESC)
        UNION ALL
        (SELECT id, (workflow_name || '@' || workflow_version)::varchar(300) AS definition_id, name, state::integer AS state, current_step, total_steps,
               created_at, completed_at AS updated_at, completed_at, error, trace_id
          FROM saga.saga_states WHERE ended_state + 0 IN (6, 7, 8) AND ended_state = 7 ORDER BY completed_at DESC)
        UNION ALL
        (SELECT id, (workflow_name || '@' || workflow_version)::varchar(300) AS definition_id, name, state::integer AS state, current_step, total_steps,
               created_at, completed_at AS updated_at, completed_at, error, trace_id
          FROM saga.saga_states WHERE ended_state + 0 IN (6, 7, 8) AND ended_state = 8 ORDER BY completed_at DESC)) AS failed
 ORDER BY updated_at DESC;

-- Steps that have failed and will be tried again (seed 2's search for steps to
-- retry), next first. Only unfinished sagas are read: the others retry nothing.
CREATE VIEW saga.steps_to_retry AS
SELECT t.id, t.saga_id, t.step_index, t.name, t.state, t.attempts, t.max_attempts, t.last_attempt_at, t.error, t.compensation_state, s.next_run_at
  FROM (SELECT id, current_step, next_run_at FROM saga.saga_states
         WHERE completed_at IS NULL AND next_run_at IS NOT NULL AND step_failures > 0
         ORDER BY next_run_at) AS s
 CROSS JOIN LATERAL (SELECT id, saga_id, step_index, name, state, attempts, max_attempts, last_attempt_at, error, compensation_state
                       FROM saga.saga_steps WHERE saga_id = s.id AND step_index = s.current_step) AS t
 ORDER BY s.next_run_at;

INSERT INTO saga.saga_schema_version (version, description) VALUES (15, 'statistics and reading at scale');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 15;
DROP VIEW IF EXISTS saga.steps_to_retry;
CREATE OR REPLACE VIEW saga.failed_sagas AS
SELECT id, (workflow_name || '@' || workflow_version)::varchar(300) AS definition_id, name, state::integer AS state, current_step, total_steps,
       created_at, updated_at, completed_at, error, trace_id
  FROM saga.saga_states
 WHERE ended_state <> 3 AND ended_state IN (6, 7, 8)
 ORDER BY updated_at DESC;
CREATE OR REPLACE VIEW saga.saga_statistics AS
SELECT (workflow_name || '@' || workflow_version)::varchar(300) AS definition_id,
       count(*) AS total_instances,
       count(*) FILTER (WHERE state = 3) AS completed_count,
       count(*) FILTER (WHERE state IN (6, 7, 8)) AS failed_count,
       count(*) FILTER (WHERE state IN (1, 2, 4)) AS active_count,
       avg(extract(epoch FROM completed_at - started_at)) AS avg_duration_seconds,
       max(updated_at) AS last_execution,
       count(*) FILTER (WHERE state = 0) AS pending_count,
       count(*) FILTER (WHERE state = 5) AS compensated_count
  FROM saga.saga_states
 GROUP BY 1;
DROP FUNCTION IF EXISTS saga.recount_sagas();
DROP FUNCTION IF EXISTS saga.roll_up_sagas(interval, interval);
DROP FUNCTION IF EXISTS saga.count_sagas(uuid, varchar, timestamptz, timestamptz);
DROP FUNCTION IF EXISTS saga.sagas_pending(uuid);
DROP FUNCTION IF EXISTS saga.sagas_created(uuid, timestamptz, timestamptz);
DROP FUNCTION IF EXISTS saga.saga_tenants();
DROP TABLE IF EXISTS saga.saga_counts_horizon, saga.saga_counts_pending, saga.saga_counts;
DROP INDEX IF EXISTS saga.idx_saga_states_archive_initiated_by;
DROP INDEX IF EXISTS saga.idx_saga_initiated_by;
DROP INDEX IF EXISTS saga.idx_saga_updated_at;
DROP INDEX IF EXISTS saga.idx_saga_state_updated;
DROP INDEX IF EXISTS saga.idx_saga_state;
CREATE INDEX idx_saga_state ON saga.saga_states (tenant_id, ended_state, completed_at, id) WHERE ended_state <> 3;
DROP INDEX IF EXISTS saga.idx_saga_states_status;
CREATE INDEX idx_saga_states_status ON saga.saga_states (tenant_id, created_at, id) WHERE completed_at IS NULL;
DROP INDEX IF EXISTS saga.idx_saga_trace_id;
CREATE INDEX idx_saga_trace_id ON saga.saga_states (tenant_id, trace_id) WHERE trace_id IS NOT NULL;
DROP INDEX IF EXISTS saga.idx_saga_states_correlation_id;
CREATE INDEX idx_saga_states_correlation_id ON saga.saga_states (tenant_id, correlation_id, created_at) WHERE correlation_id IS NOT NULL;
