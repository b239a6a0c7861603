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
CREATE INDEX idx_saga_state ON saga.saga_states (tenant_id, created_at, id, ended_state, workflow_name, initiated_by) WHERE ended_state <> 3;
-- The same sagas by their last change, which is their end: the view of failed sagas.
CREATE INDEX idx_saga_state_updated ON saga.saga_states (completed_at) WHERE ended_state <> 3;
-- Sagas that took long. The others were changed last within a minute of their
-- creation, so that the lists' order finds them by either time.
CREATE INDEX idx_saga_updated_at ON saga.saga_states (tenant_id, created_at, id, completed_at) WHERE completed_at - created_at > interval '1 minute';
-- By caller, newest first.
CREATE INDEX idx_saga_initiated_by ON saga.saga_states (tenant_id, initiated_by, created_at, id) WHERE initiated_by <> '';
-- Callers start certain workflows only. Without this the planner would expect
-- every pair to be common, and look for it among all sagas of one of the two.
CREATE STATISTICS saga.st_saga_states_callers (mcv) ON tenant_id, workflow_name, initiated_by FROM saga.saga_states;
ALTER STATISTICS saga.st_saga_states_callers SET STATISTICS 1000;

-- How many sagas ended how, by the hour of their creation: those that can
-- never change again, archived or not.
CREATE TABLE saga.saga_counts (
    tenant_id        uuid         NOT NULL,
    workflow_name    varchar(255) NOT NULL,
    workflow_version integer      NOT NULL,
    created_hour     timestamptz  NOT NULL,
    state            smallint     NOT NULL CHECK (state IN (3, 5, 7, 8)),
    sagas            bigint       NOT NULL,
    timed            bigint       NOT NULL, -- how many of them have a start and an end
    duration_us      numeric      NOT NULL, -- from start to end, in sum
    last_update      timestamptz  NOT NULL,
    PRIMARY KEY (tenant_id, workflow_name, created_hour, workflow_version, state)
);

-- Sagas created before the horizon that are not in saga_counts: unfinished, or
-- failed (6) and still to be reopened.
CREATE TABLE saga.saga_counts_pending (
    saga_id   uuid PRIMARY KEY,
    tenant_id uuid NOT NULL
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
RETURNS TABLE (id uuid, tenant_id uuid, workflow_name varchar, workflow_version integer, state smallint,
               created_at timestamptz, duration_us numeric, updated_at timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    SELECT s.*
      FROM (SELECT tenant AS id WHERE tenant IS NOT NULL
            UNION ALL SELECT t FROM saga.saga_tenants() AS t WHERE tenant IS NULL) AS owner
     CROSS JOIN LATERAL (
        SELECT id, tenant_id, workflow_name, workflow_version, state, created_at,
               extract(epoch FROM completed_at - started_at) * 1000000, updated_at
          FROM saga.saga_states WHERE tenant_id = owner.id AND created_at >= first AND created_at < last
        UNION ALL
        SELECT id, tenant_id, workflow_name, workflow_version, state, created_at,
               extract(epoch FROM completed_at - started_at) * 1000000, updated_at
          FROM saga.saga_states_archive WHERE tenant_id = owner.id AND created_at >= first AND created_at < last) AS s
$$;
-- +migrate StatementEnd

-- The same of the sagas that wait in saga_counts_pending.
-- +migrate StatementBegin
CREATE FUNCTION saga.sagas_pending(tenant uuid)
RETURNS TABLE (id uuid, tenant_id uuid, workflow_name varchar, workflow_version integer, state smallint,
               created_at timestamptz, duration_us numeric, updated_at timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    SELECT s.*
      FROM saga.saga_counts_pending p
     CROSS JOIN LATERAL (
        SELECT id, tenant_id, workflow_name, workflow_version, state, created_at,
               extract(epoch FROM completed_at - started_at) * 1000000, updated_at
          FROM saga.saga_states WHERE id = p.saga_id
        UNION ALL
        SELECT id, tenant_id, workflow_name, workflow_version, state, created_at,
               extract(epoch FROM completed_at - started_at) * 1000000, updated_at
          FROM saga.saga_states_archive WHERE id = p.saga_id) AS s
     WHERE tenant IS NULL OR p.tenant_id = tenant
$$;
-- +migrate StatementEnd

-- Every saga once: what is rolled up, what is not yet, and what cannot be.
-- NULL does not restrict. created_from and created_to are full hours. It is
-- STABLE, so all of it sees the snapshot of the query that calls it.
-- +migrate StatementBegin
CREATE FUNCTION saga.count_sagas(tenant uuid, workflow varchar, created_from timestamptz, created_to timestamptz)
RETURNS TABLE (workflow_name varchar, workflow_version integer, state smallint, sagas numeric, timed numeric, duration_us numeric, last_update timestamptz)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $$
DECLARE
    first   timestamptz := coalesce(created_from, '-infinity');
    beyond  timestamptz := coalesce(created_to, 'infinity');
    horizon timestamptz := (SELECT created_before FROM saga.saga_counts_horizon);
BEGIN
    -- EXECUTE plans for these very arguments.
    RETURN QUERY EXECUTE $query$
        SELECT c.workflow_name, c.workflow_version, c.state, sum(c.sagas), sum(c.timed), sum(c.duration_us), max(c.last_update)
          FROM saga.saga_counts c
         WHERE ($1 IS NULL OR c.tenant_id = $1) AND ($2 IS NULL OR c.workflow_name = $2) AND c.created_hour >= $3 AND c.created_hour < $4
         GROUP BY 1, 2, 3
        UNION ALL
        SELECT s.workflow_name, s.workflow_version, s.state, count(*), count(s.duration_us), coalesce(sum(s.duration_us), 0), max(s.updated_at)
          FROM (SELECT * FROM saga.sagas_created($1, greatest($3, $5), $4)
                UNION ALL
                SELECT * FROM saga.sagas_pending($1) p WHERE p.created_at >= $3 AND p.created_at < $4) AS s
         WHERE $2 IS NULL OR s.workflow_name = $2
         GROUP BY 1, 2, 3
    $query$ USING tenant, workflow, first, beyond, horizon;
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
LANGUAGE plpgsql SET search_path = pg_catalog SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    horizon timestamptz;
    beyond  timestamptz;
    latest  timestamptz := now() - grace;
BEGIN
    SELECT created_before INTO horizon FROM saga.saga_counts_horizon FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false; -- somebody else is at it
    END IF;
    WITH ended AS (
        DELETE FROM saga.saga_counts_pending w USING saga.sagas_pending(NULL) p
         WHERE w.saga_id = p.id AND p.state IN (3, 5, 7, 8)
        RETURNING p.*
    )
    INSERT INTO saga.saga_counts AS c (tenant_id, workflow_name, workflow_version, created_hour, state, sagas, timed, duration_us, last_update)
    SELECT tenant_id, workflow_name, workflow_version, date_trunc('hour', created_at, 'UTC'), state,
           count(*), count(duration_us), coalesce(sum(duration_us), 0), max(updated_at)
      FROM ended GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (tenant_id, workflow_name, created_hour, workflow_version, state) DO UPDATE
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
        SELECT * FROM saga.sagas_created(NULL, horizon, beyond)
    ), waiting AS (
        INSERT INTO saga.saga_counts_pending (saga_id, tenant_id)
        SELECT id, tenant_id FROM created WHERE state NOT IN (3, 5, 7, 8)
    )
    INSERT INTO saga.saga_counts AS c (tenant_id, workflow_name, workflow_version, created_hour, state, sagas, timed, duration_us, last_update)
    SELECT tenant_id, workflow_name, workflow_version, date_trunc('hour', created_at, 'UTC'), state,
           count(*), count(duration_us), coalesce(sum(duration_us), 0), max(updated_at)
      FROM created WHERE state IN (3, 5, 7, 8) GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (tenant_id, workflow_name, created_hour, workflow_version, state) DO UPDATE
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
-- a failed one (6) may be changed later, and of those there are few.
CREATE OR REPLACE VIEW saga.failed_sagas AS
SELECT id, definition_id, name, state, current_step, total_steps, created_at, updated_at, completed_at, error, trace_id
  FROM (SELECT id, (workflow_name || '@' || workflow_version)::varchar(300) AS definition_id, name, state::integer AS state, current_step, total_steps,
               created_at, completed_at AS updated_at, completed_at, error, trace_id
          FROM saga.saga_states
         WHERE ended_state <> 3 AND ended_state IN (7, 8)
        UNION ALL
        SELECT id, (workflow_name || '@' || workflow_version)::varchar(300), name, state::integer, current_step, total_steps,
               created_at, updated_at, completed_at, error, trace_id
          FROM saga.saga_states
         WHERE ended_state <> 3 AND ended_state = 6) AS failed
 ORDER BY updated_at DESC;

INSERT INTO saga.saga_schema_version (version, description) VALUES (15, 'statistics and reading at scale');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 15;
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
DROP STATISTICS IF EXISTS saga.st_saga_states_callers;
DROP INDEX IF EXISTS saga.idx_saga_initiated_by;
DROP INDEX IF EXISTS saga.idx_saga_updated_at;
DROP INDEX IF EXISTS saga.idx_saga_state_updated;
DROP INDEX IF EXISTS saga.idx_saga_state;
CREATE INDEX idx_saga_state ON saga.saga_states (tenant_id, ended_state, completed_at, id) WHERE ended_state <> 3;
