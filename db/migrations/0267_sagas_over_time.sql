-- Sagas over time (docs/decisions/0074): what saga_counts has by the hour and the day it
-- has by the minute as well, for four days. Counting a saga costs one more row of a
-- roll-up that is under way anyway; nothing is written when a saga changes.

-- +migrate Up
ALTER TABLE saga.saga_counts DROP CONSTRAINT saga_counts_span_check;
ALTER TABLE saga.saga_counts ADD CONSTRAINT saga_counts_span_check CHECK (span IN ('min', 'hour', 'day'));

-- The minutes of what is counted already. The lock keeps a roll-up from counting some of it twice.
LOCK TABLE saga.saga_counts_horizon IN EXCLUSIVE MODE;
INSERT INTO saga.saga_counts (tenant_id, span, workflow_name, begins, workflow_version, state, sagas, timed, duration_us, last_update)
SELECT e.tenant_id, 'min', e.workflow_name, date_trunc('min', e.created_at, 'UTC'), e.workflow_version, e.state,
       count(*), count(e.duration_us), coalesce(sum(e.duration_us), 0), max(e.updated_at)
  FROM saga.sagas_created(NULL, now() - interval '4 days', (SELECT created_before FROM saga.saga_counts_horizon)) e
 WHERE e.state IN (3, 5, 7, 8) AND (e.saga_id, e.tenant_id) NOT IN (SELECT p.saga_id, p.tenant_id FROM saga.saga_counts_pending p)
 GROUP BY 1, 2, 3, 4, 5, 6;

-- As migration 0150 has it, and by the minute.
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.roll_up_sagas(grace interval DEFAULT '2 minutes', piece interval DEFAULT '10 minutes') RETURNS boolean
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
        DELETE FROM saga.saga_counts_pending WHERE (saga_id, tenant_id) NOT IN (SELECT saga_id, tenant_id FROM found)
    ), changed AS MATERIALIZED (
        SELECT saga_id, tenant_id, workflow_name, workflow_version, state, created_at, failed_at, duration_us, updated_at
          FROM found WHERE changed
    ), touched AS (
        UPDATE saga.saga_counts_pending p
           SET failed_at = c.failed_at, duration_us = c.duration_us, updated_at = c.updated_at
          FROM changed c WHERE c.saga_id = p.saga_id AND c.tenant_id = p.tenant_id AND c.state NOT IN (3, 5, 7, 8) AND c.failed_at IS DISTINCT FROM p.failed_at
    ), ended AS (
        DELETE FROM saga.saga_counts_pending p USING changed c
         WHERE c.saga_id = p.saga_id AND c.tenant_id = p.tenant_id AND c.state IN (3, 5, 7, 8)
        RETURNING c.tenant_id, c.workflow_name, c.workflow_version, c.state, c.created_at, c.duration_us, c.updated_at
    )
    INSERT INTO saga.saga_counts AS c (tenant_id, span, workflow_name, begins, workflow_version, state, sagas, timed, duration_us, last_update)
    SELECT e.tenant_id, span, e.workflow_name, date_trunc(span, e.created_at, 'UTC'), e.workflow_version, e.state,
           count(*), count(e.duration_us), coalesce(sum(e.duration_us), 0), max(e.updated_at)
      FROM ended e, unnest(ARRAY['min', 'hour', 'day']) AS span WHERE span <> 'min' OR e.created_at >= now() - interval '4 days' GROUP BY 1, 2, 3, 4, 5, 6
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
      FROM created e, unnest(ARRAY['min', 'hour', 'day']) AS span WHERE e.state IN (3, 5, 7, 8) AND (span <> 'min' OR e.created_at >= now() - interval '4 days') GROUP BY 1, 2, 3, 4, 5, 6
    ON CONFLICT (span, tenant_id, workflow_name, begins, workflow_version, state) DO UPDATE
       SET sagas = c.sagas + excluded.sagas, timed = c.timed + excluded.timed, duration_us = c.duration_us + excluded.duration_us,
           last_update = greatest(c.last_update, excluded.last_update);
    -- The minutes of all tenants are read for that, so once an hour.
    IF date_trunc('hour', horizon) < date_trunc('hour', beyond) THEN
        DELETE FROM saga.saga_counts WHERE span = 'min' AND begins < now() - interval '4 days';
    END IF;
    UPDATE saga.saga_counts_horizon SET created_before = beyond;
    RETURN beyond < latest;
END;
$$;
-- +migrate StatementEnd

SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (267, 'sagas over time');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 267;
-- As migration 0150 has it.
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.roll_up_sagas(grace interval DEFAULT '2 minutes', piece interval DEFAULT '10 minutes') RETURNS boolean
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
        DELETE FROM saga.saga_counts_pending WHERE (saga_id, tenant_id) NOT IN (SELECT saga_id, tenant_id FROM found)
    ), changed AS MATERIALIZED (
        SELECT saga_id, tenant_id, workflow_name, workflow_version, state, created_at, failed_at, duration_us, updated_at
          FROM found WHERE changed
    ), touched AS (
        UPDATE saga.saga_counts_pending p
           SET failed_at = c.failed_at, duration_us = c.duration_us, updated_at = c.updated_at
          FROM changed c WHERE c.saga_id = p.saga_id AND c.tenant_id = p.tenant_id AND c.state NOT IN (3, 5, 7, 8) AND c.failed_at IS DISTINCT FROM p.failed_at
    ), ended AS (
        DELETE FROM saga.saga_counts_pending p USING changed c
         WHERE c.saga_id = p.saga_id AND c.tenant_id = p.tenant_id AND c.state IN (3, 5, 7, 8)
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

DELETE FROM saga.saga_counts WHERE span = 'min';
ALTER TABLE saga.saga_counts DROP CONSTRAINT saga_counts_span_check;
ALTER TABLE saga.saga_counts ADD CONSTRAINT saga_counts_span_check CHECK (span IN ('hour', 'day'));
