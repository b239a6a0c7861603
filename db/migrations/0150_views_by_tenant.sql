-- What joined sagas and their logs by the id joins them by id and tenant
-- (docs/decisions/0047): the views of the seeds, and what archives and counts.

-- +migrate Up
-- Outputs of the steps done so far, by step name.
-- +migrate StatementBegin
CREATE FUNCTION saga.step_outputs(of_saga uuid, of_tenant uuid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT coalesce(jsonb_object_agg(l.step_name, coalesce(l.response_payload, 'null'::jsonb)), '{}'::jsonb)
      FROM saga.saga_states s JOIN saga.saga_step_logs l ON l.saga_id = s.id AND l.tenant_id = s.tenant_id
     WHERE s.id = of_saga AND s.tenant_id = of_tenant AND l.action = 'EXECUTE' AND l.status = 'SUCCESS'
       AND l.attempt > saga.step_base(s.interventions, l.step_index, l.action)
$$;
-- +migrate StatementEnd

CREATE OR REPLACE VIEW saga.saga_instances AS
SELECT s.id,
       (s.workflow_name || '@' || s.workflow_version)::varchar(300) AS definition_id,
       s.name, s.description,
       s.state::integer AS state, s.current_step, s.total_steps,
       s.created_at, s.updated_at, s.started_at, s.completed_at, s.timed_out_at,
       s.payload AS initial_data,
       jsonb_build_object('steps', (
           SELECT coalesce(jsonb_object_agg(l.step_name, jsonb_build_object('output', coalesce(l.response_payload, 'null'::jsonb))), '{}'::jsonb)
             FROM saga.saga_step_logs l
            WHERE l.saga_id = s.id AND l.tenant_id = s.tenant_id AND l.action = 'EXECUTE' AND l.status = 'SUCCESS'
              AND l.attempt > saga.step_base(s.interventions, l.step_index, l.action)),
           'vars', '{}'::jsonb) AS current_data,
       CASE WHEN s.state = 3 THEN coalesce(s.result_data, saga.step_outputs(s.id, s.tenant_id)) END AS result_data,
       s.error, s.timeout_ms,
       coalesce(s.retry_policy, (SELECT d.definition->'retry' FROM saga.workflow_definitions d
                                  WHERE d.tenant_id = s.tenant_id AND d.name = s.workflow_name AND d.version = s.workflow_version)) AS retry_policy,
       s.metadata, s.trace_id, s.span_id
  FROM saga.saga_states s;

CREATE OR REPLACE VIEW saga.completed_sagas AS
SELECT id, (workflow_name || '@' || workflow_version)::varchar(300) AS definition_id, name, current_step, total_steps,
       created_at, started_at, completed_at, coalesce(result_data, saga.step_outputs(id, tenant_id)) AS result_data, trace_id
  FROM saga.saga_states
 WHERE completed_at IS NOT NULL AND state = 3
 ORDER BY completed_at DESC;

CREATE OR REPLACE VIEW saga.sagas AS
SELECT s.id AS transaction_id,
       s.tenant_id, s.tenant_region, s.tenant_major, s.tenant_minor,
       s.saga_type, s.initiated_by,
       s.lifecycle AS status,
       jsonb_build_object(
           'workflow', jsonb_build_object('name', s.workflow_name, 'version', s.workflow_version),
           'payload', s.payload,
           'current_step', s.current_step,
           'steps', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                         'index', l.step_index, 'name', l.step_name, 'action', l.action, 'attempt', l.attempt,
                         'status', l.status, 'result', l.response_payload, 'error', l.error) ORDER BY l.started_at, l.attempt), '[]'::jsonb)
                       FROM saga.saga_step_logs l WHERE l.saga_id = s.id AND l.tenant_id = s.tenant_id)) AS saga_data,
       s.version, s.created_at, s.updated_at, s.timeout_at
  FROM saga.saga_states s;
DROP FUNCTION saga.step_outputs(uuid);

-- The steps of all sagas as the view saga_steps tells them, and whose they are,
-- which seed 2's columns do not say.
CREATE VIEW saga.steps_by_tenant AS
SELECT (s.id || ':' || h.k)::varchar(255) AS id,
       s.id AS saga_id,
       h.k AS step_index,
       (d.step->>'name')::varchar(255) AS name,
       CASE WHEN u.state = 2 OR u.state = 4 AND c.outcome IS NULL THEN 5 WHEN u.state IN (1, 3) THEN 4 ELSE f.state END AS state,
       CASE WHEN h.executing THEN greatest(x.attempts, h.sent) ELSE x.attempts END AS attempts,
       coalesce((d.step->'retry'->>'max_attempts')::integer, (s.retry_policy->>'max_attempts')::integer, (w.definition->'retry'->>'max_attempts')::integer, 3) AS max_attempts,
       s.created_at,
       coalesce(x.started_at, f.sent_at) AS started_at,
       CASE WHEN f.state > 1 THEN x.completed_at END AS completed_at,
       coalesce(x.last_attempt_at, f.sent_at) AS last_attempt_at,
       CASE WHEN f.state > 0 THEN coalesce(h.by->'input', s.payload) END AS input_data,
       x.output AS output_data,
       x.error,
       CASE WHEN u.state IS NOT NULL THEN jsonb_build_object(
           'state', u.state,
           'attempts', CASE WHEN h.undoing THEN greatest(c.attempts, h.sent) ELSE c.attempts END,
           'max_attempts', coalesce((d.step->'compensation_retry'->>'max_attempts')::integer, (w.definition->'compensation_retry'->>'max_attempts')::integer, 20),
           'started_at', c.started_at,
           'completed_at', CASE WHEN u.state > 1 THEN coalesce(c.completed_at, s.completed_at) END,
           'error', c.error) END AS compensation_state,
       NULL::jsonb AS metadata,
       s.tenant_id
  FROM saga.saga_states s
  JOIN saga.workflow_definitions w
    ON w.tenant_id = s.tenant_id AND w.name = s.workflow_name AND w.version = s.workflow_version
 CROSS JOIN LATERAL jsonb_array_elements(w.definition->'steps') WITH ORDINALITY AS d (step, ordinality)
 CROSS JOIN LATERAL (
       SELECT (d.ordinality - 1)::integer AS k,
              s.interventions->'steps'->(d.ordinality - 1)::text AS by,
              saga.step_base(s.interventions, (d.ordinality - 1)::integer, 'EXECUTE') AS base,
              saga.step_base(s.interventions, (d.ordinality - 1)::integer, 'COMPENSATE') AS undo_base,
              s.current_step = d.ordinality - 1 AND s.step_attempt > 0 AND s.state IN (0, 1) AS executing,
              s.current_step = d.ordinality - 1 AND s.step_attempt > 0 AND s.state = 4 AS undoing,
              CASE WHEN s.next_run_at > s.updated_at THEN s.step_attempt - 1 ELSE s.step_attempt END
                  - saga.step_base(s.interventions, (d.ordinality - 1)::integer, CASE WHEN s.state = 4 THEN 'COMPENSATE' ELSE 'EXECUTE' END) AS sent) h
 CROSS JOIN LATERAL (
       SELECT coalesce(max(l.attempt - h.base) FILTER (WHERE l.status <> 'SKIPPED'), 0) AS attempts,
              min(l.started_at) AS started_at,
              (array_agg(l.started_at ORDER BY l.attempt DESC))[1] AS last_attempt_at,
              (array_agg(l.completed_at ORDER BY l.attempt DESC))[1] AS completed_at,
              (array_agg(l.status ORDER BY l.attempt DESC))[1] AS status,
              (array_agg(l.final ORDER BY l.attempt DESC))[1] AS final,
              (array_agg(nullif(l.response_payload, 'null'::jsonb)) FILTER (WHERE l.status = 'SUCCESS'))[1] AS output,
              (array_agg(l.error ORDER BY l.attempt DESC))[1] AS error
         FROM saga.saga_step_logs l
        WHERE l.saga_id = s.id AND l.tenant_id = s.tenant_id AND l.step_index = h.k AND l.action = 'EXECUTE' AND l.attempt > h.base) x
 CROSS JOIN LATERAL (
       SELECT coalesce(max(l.attempt - h.undo_base) FILTER (WHERE l.status <> 'SKIPPED'), 0) AS attempts,
              min(l.started_at) AS started_at,
              (array_agg(l.outcome_code ORDER BY l.attempt DESC))[1] AS outcome,
              (array_agg(l.completed_at ORDER BY l.attempt DESC))[1] AS completed_at,
              (array_agg(l.status ORDER BY l.attempt DESC))[1] AS status,
              (array_agg(l.error ORDER BY l.attempt DESC))[1] AS error
         FROM saga.saga_step_logs l
        WHERE l.saga_id = s.id AND l.tenant_id = s.tenant_id AND l.step_index = h.k AND l.action = 'COMPENSATE' AND l.attempt > h.undo_base) c
 CROSS JOIN LATERAL (
       SELECT CASE
                  WHEN x.status IS NULL THEN CASE WHEN h.executing THEN 1 ELSE 0 END
                  WHEN x.status = 'RUNNING' THEN 1
                  WHEN x.status = 'SUCCESS' THEN 2
                  WHEN x.status = 'SKIPPED' THEN 6
                  WHEN h.executing AND (NOT x.final OR x.attempts + h.base < s.step_attempt) THEN 1 -- final until an operator retried it
                  ELSE 3
              END AS state,
              -- A first call rides on the commit before it: the creation's, or that of the step before.
              CASE WHEN x.status IS NULL AND h.executing THEN
                  CASE WHEN h.k = 0 THEN s.started_at
                       ELSE (SELECT max(l.completed_at) FROM saga.saga_step_logs l
                              WHERE l.saga_id = s.id AND l.tenant_id = s.tenant_id AND l.step_index = h.k - 1 AND l.action = 'EXECUTE') END
              END AS sent_at) f
 CROSS JOIN LATERAL (
       SELECT CASE
                  WHEN c.status IS NULL AND (s.state NOT IN (4, 6) OR h.k > s.current_step OR s.interventions ? 'halted'
                       OR h.by ? 'skipped' AND NOT h.by ? 'doubt' OR h.k < (s.interventions->>'restart_at')::integer) THEN NULL
                  WHEN c.status IS NULL AND h.k < s.current_step THEN 0
                  WHEN h.undoing OR c.status = 'RUNNING' THEN 1
                  WHEN c.status = 'SUCCESS' THEN 2
                  WHEN c.status = 'SKIPPED' THEN 4
                  ELSE 3
              END AS state) u;

CREATE OR REPLACE VIEW saga.saga_steps AS
SELECT id, saga_id, step_index, name, state, attempts, max_attempts, created_at, started_at, completed_at, last_attempt_at,
       input_data, output_data, error, compensation_state, metadata
  FROM saga.steps_by_tenant;

CREATE OR REPLACE VIEW saga.steps_to_retry AS
SELECT t.id, t.saga_id, t.step_index, t.name, t.state, t.attempts, t.max_attempts, t.last_attempt_at, t.error, t.compensation_state, s.next_run_at
  FROM (SELECT id, tenant_id, current_step, next_run_at FROM saga.saga_states
         WHERE completed_at IS NULL AND next_run_at IS NOT NULL AND step_failures > 0
         ORDER BY next_run_at) AS s
 CROSS JOIN LATERAL (SELECT id, saga_id, step_index, name, state, attempts, max_attempts, last_attempt_at, error, compensation_state
                       FROM saga.steps_by_tenant WHERE saga_id = s.id AND tenant_id = s.tenant_id AND step_index = s.current_step) AS t
 ORDER BY s.next_run_at;

-- The lists by metadata read what lists show (migration 0091).
CREATE OR REPLACE VIEW saga.tenant_metadata AS
SELECT s.id, s.metadata, s.tenant_id, s.tenant_region, s.tenant_major, s.tenant_minor, s.saga_type,
       s.workflow_name, s.workflow_version, s.name, s.description, s.business_key, s.correlation_id, s.initiated_by,
       s.trace_id, s.span_id, s.payload, s.retry_policy, s.interventions, s.result_data, s.state, s.ended_state,
       s.current_step, s.total_steps, s.step_attempt, s.step_failures, s.step_uncertain, s.version, s.lease_owner,
       s.lease_epoch, s.next_run_at, s.error, s.end_cause, s.clean, s.needs_attention, s.attention_reason, s.timeout_ms,
       s.compensation_timeout_ms, s.timeout_at, s.compensation_timeout_at, s.compensation_expired, s.timed_out_at,
       s.cancel_requested_at, s.suspended_at, s.created_at, s.started_at, s.completed_at, s.updated_at, s.tenant_in_keys
  FROM saga.saga_states s
 WHERE s.tenant_id = (SELECT nullif(current_setting('skald.tenant_id', true), '')::uuid);

CREATE OR REPLACE VIEW saga.tenant_metadata_archive AS
SELECT s.id, s.metadata, s.tenant_id, s.tenant_region, s.tenant_major, s.tenant_minor, s.saga_type,
       s.workflow_name, s.workflow_version, s.name, s.description, s.business_key, s.correlation_id, s.initiated_by,
       s.trace_id, s.span_id, s.payload, s.retry_policy, s.interventions, s.result_data, s.state, s.ended_state,
       s.current_step, s.total_steps, s.step_attempt, s.step_failures, s.step_uncertain, s.version, s.lease_owner,
       s.lease_epoch, s.next_run_at, s.error, s.end_cause, s.clean, s.needs_attention, s.attention_reason, s.timeout_ms,
       s.compensation_timeout_ms, s.timeout_at, s.compensation_timeout_at, s.compensation_expired, s.timed_out_at,
       s.cancel_requested_at, s.suspended_at, s.created_at, s.started_at, s.completed_at, s.updated_at, s.archived_at, s.tenant_in_keys
  FROM saga.saga_states_archive s
 WHERE s.tenant_id = (SELECT nullif(current_setting('skald.tenant_id', true), '')::uuid);

-- Moves those of the sagas that have ended and need nobody, with their step logs;
-- returns how many. See migration 0013.
-- +migrate StatementBegin
CREATE FUNCTION saga.archive_sagas(batch uuid[], tenants uuid[]) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    heads text := saga.column_list('saga.saga_states', true) || ', restored_at';
    logs text := saga.column_list('saga.saga_step_logs', true);
    moved integer;
BEGIN
    SELECT array_agg(f.id), array_agg(f.tenant_id) INTO batch, tenants
      FROM (SELECT s.id, s.tenant_id FROM saga.saga_states s
             WHERE s.id = ANY (batch) AND ((s.id, s.tenant_id) IN (SELECT u.id, u.tenant_id FROM unnest(batch, tenants) AS u (id, tenant_id))) IS TRUE
               AND s.completed_at IS NOT NULL AND NOT s.needs_attention FOR UPDATE SKIP LOCKED) f;
    EXECUTE format('WITH gone AS (DELETE FROM saga.saga_step_logs WHERE saga_id = ANY ($1) AND ((saga_id, tenant_id) IN (SELECT u.id, u.tenant_id FROM unnest($1, $2) AS u (id, tenant_id))) IS TRUE RETURNING %1$s)
                    INSERT INTO saga.saga_step_logs_archive (%1$s) SELECT %1$s FROM gone', logs) USING batch, tenants;
    EXECUTE format('WITH gone AS (DELETE FROM saga.saga_states WHERE id = ANY ($1) AND ((id, tenant_id) IN (SELECT u.id, u.tenant_id FROM unnest($1, $2) AS u (id, tenant_id))) IS TRUE RETURNING %1$s)
                    INSERT INTO saga.saga_states_archive (%1$s) SELECT %1$s FROM gone', heads) USING batch, tenants;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END;
$$;
-- +migrate StatementEnd
-- As nodes of the release before call it, until the next one.
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.archive_sagas(batch uuid[]) RETURNS integer
LANGUAGE sql SET search_path = pg_catalog AS $$
    SELECT coalesce(saga.archive_sagas(array_agg(s.id), array_agg(s.tenant_id)), 0) FROM saga.saga_states s WHERE s.id = ANY (batch)
$$;
-- +migrate StatementEnd

-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.restore_saga(of_tenant uuid, of_saga uuid) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    heads text := saga.column_list('saga.saga_states', false);
    logs text := saga.column_list('saga.saga_step_logs', false);
    moved integer;
BEGIN
    EXECUTE format('WITH gone AS (DELETE FROM saga.saga_states_archive WHERE id = $1 AND tenant_id = $2 RETURNING %1$s)
                    INSERT INTO saga.saga_states (%1$s, restored_at) SELECT %1$s, now() FROM gone', heads) USING of_saga, of_tenant;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved = 0 THEN
        RETURN false;
    END IF;
    EXECUTE format('WITH gone AS (DELETE FROM saga.saga_step_logs_archive WHERE saga_id = $1 AND tenant_id = $2 RETURNING %1$s)
                    INSERT INTO saga.saga_step_logs (%1$s) SELECT %1$s FROM gone', logs) USING of_saga, of_tenant;
    RETURN true;
END;
$$;
-- +migrate StatementEnd

-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.cleanup_expired_sagas(older_than timestamptz) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    batch uuid[];
    tenants uuid[];
    moved integer := 0;
BEGIN
    LOOP
        SELECT array_agg(f.id), array_agg(f.tenant_id) INTO batch, tenants
          FROM (SELECT id, tenant_id FROM saga.saga_states
                 WHERE completed_at IS NOT NULL AND completed_at < older_than AND NOT needs_attention
                   AND (restored_at IS NULL OR restored_at < older_than)
                 ORDER BY completed_at LIMIT 1000 FOR UPDATE SKIP LOCKED) f;
        EXIT WHEN batch IS NULL;
        moved := moved + saga.archive_sagas(batch, tenants);
    END LOOP;
    RETURN moved;
END;
$$;
-- +migrate StatementEnd

-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.sagas_pending(tenant uuid)
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
            SELECT s.id, s.tenant_id, s.state, s.updated_at FROM saga.saga_states s WHERE s.completed_at IS NULL AND ($1 IS NULL OR s.tenant_id = $1)
        ), failed AS MATERIALIZED (
            SELECT s.id, s.tenant_id, s.completed_at FROM saga.saga_states s WHERE s.ended_state = 6 AND ($1 IS NULL OR s.tenant_id = $1)
        ), seen AS MATERIALIZED (
            SELECT p.saga_id, p.tenant_id, p.failed_at, p.workflow_name, p.workflow_version, p.created_at, p.duration_us, p.updated_at,
                   u.state AS unfinished_in, u.updated_at AS touched, f.id IS NOT NULL AS still_failed
              FROM pending p
              LEFT JOIN unfinished u ON u.id = p.saga_id AND u.tenant_id = p.tenant_id
              LEFT JOIN failed f ON f.id = p.saga_id AND f.tenant_id = p.tenant_id AND f.completed_at = p.failed_at
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
              FROM saga.saga_states WHERE id = n.saga_id AND tenant_id = n.tenant_id
            UNION ALL
            SELECT id, state, NULL, extract(epoch FROM completed_at - started_at) * 1000000, updated_at
              FROM saga.saga_states_archive WHERE id = n.saga_id AND tenant_id = n.tenant_id
            OFFSET 0) AS s
         WHERE unfinished_in IS NULL AND NOT still_failed
    $query$ USING tenant;
END;
$$;
-- +migrate StatementEnd

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

SELECT saga.secure_tables();

INSERT INTO saga.saga_schema_version (version, description) VALUES (150, 'views and functions by tenant');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 150;
-- As migrations 0007, 0013, 0014, 0015 and 0091 have them.
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
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.sagas_pending(tenant uuid)
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
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.cleanup_expired_sagas(older_than timestamptz) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    batch uuid[];
    moved integer := 0;
BEGIN
    LOOP
        batch := ARRAY(SELECT id FROM saga.saga_states
                        WHERE completed_at IS NOT NULL AND completed_at < older_than AND NOT needs_attention
                          AND (restored_at IS NULL OR restored_at < older_than)
                        ORDER BY completed_at LIMIT 1000 FOR UPDATE SKIP LOCKED);
        EXIT WHEN cardinality(batch) = 0;
        moved := moved + saga.archive_sagas(batch);
    END LOOP;
    RETURN moved;
END;
$$;
-- +migrate StatementEnd
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.restore_saga(of_tenant uuid, of_saga uuid) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    heads text := saga.column_list('saga.saga_states', false);
    logs text := saga.column_list('saga.saga_step_logs', false);
    moved integer;
BEGIN
    EXECUTE format('WITH gone AS (DELETE FROM saga.saga_states_archive WHERE id = $1 AND tenant_id = $2 RETURNING %1$s)
                    INSERT INTO saga.saga_states (%1$s, restored_at) SELECT %1$s, now() FROM gone', heads) USING of_saga, of_tenant;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved = 0 THEN
        RETURN false;
    END IF;
    EXECUTE format('WITH gone AS (DELETE FROM saga.saga_step_logs_archive WHERE saga_id = $1 RETURNING %1$s)
                    INSERT INTO saga.saga_step_logs (%1$s) SELECT %1$s FROM gone', logs) USING of_saga;
    RETURN true;
END;
$$;
-- +migrate StatementEnd
DROP FUNCTION saga.archive_sagas(uuid[]);
DROP FUNCTION saga.archive_sagas(uuid[], uuid[]);
-- +migrate StatementBegin
CREATE FUNCTION saga.archive_sagas(batch uuid[]) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    heads text := saga.column_list('saga.saga_states', true) || ', restored_at';
    logs text := saga.column_list('saga.saga_step_logs', true);
    moved integer;
BEGIN
    batch := ARRAY(SELECT s.id FROM saga.saga_states s
                    WHERE s.id = ANY (batch) AND s.completed_at IS NOT NULL AND NOT s.needs_attention FOR UPDATE SKIP LOCKED);
    EXECUTE format('WITH gone AS (DELETE FROM saga.saga_step_logs WHERE saga_id = ANY ($1) RETURNING %1$s)
                    INSERT INTO saga.saga_step_logs_archive (%1$s) SELECT %1$s FROM gone', logs) USING batch;
    EXECUTE format('WITH gone AS (DELETE FROM saga.saga_states WHERE id = ANY ($1) RETURNING %1$s)
                    INSERT INTO saga.saga_states_archive (%1$s) SELECT %1$s FROM gone', heads) USING batch;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END;
$$;
-- +migrate StatementEnd
DROP VIEW saga.tenant_metadata, saga.tenant_metadata_archive;
CREATE VIEW saga.tenant_metadata AS
SELECT s.id, s.metadata, s.tenant_id, s.tenant_region, s.tenant_major, s.tenant_minor, s.saga_type,
       s.workflow_name, s.workflow_version, s.name, s.description, s.business_key, s.correlation_id, s.initiated_by,
       s.trace_id, s.span_id, s.payload, s.retry_policy, s.interventions, s.result_data, s.state, s.ended_state,
       s.current_step, s.total_steps, s.step_attempt, s.step_failures, s.step_uncertain, s.version, s.lease_owner,
       s.lease_epoch, s.next_run_at, s.error, s.end_cause, s.clean, s.needs_attention, s.attention_reason, s.timeout_ms,
       s.compensation_timeout_ms, s.timeout_at, s.compensation_timeout_at, s.compensation_expired, s.timed_out_at,
       s.cancel_requested_at, s.suspended_at, s.created_at, s.started_at, s.completed_at, s.updated_at
  FROM saga.saga_states s
 WHERE s.tenant_id = (SELECT nullif(current_setting('skald.tenant_id', true), '')::uuid);
CREATE VIEW saga.tenant_metadata_archive AS
SELECT s.id, s.metadata, s.tenant_id, s.tenant_region, s.tenant_major, s.tenant_minor, s.saga_type,
       s.workflow_name, s.workflow_version, s.name, s.description, s.business_key, s.correlation_id, s.initiated_by,
       s.trace_id, s.span_id, s.payload, s.retry_policy, s.interventions, s.result_data, s.state, s.ended_state,
       s.current_step, s.total_steps, s.step_attempt, s.step_failures, s.step_uncertain, s.version, s.lease_owner,
       s.lease_epoch, s.next_run_at, s.error, s.end_cause, s.clean, s.needs_attention, s.attention_reason, s.timeout_ms,
       s.compensation_timeout_ms, s.timeout_at, s.compensation_timeout_at, s.compensation_expired, s.timed_out_at,
       s.cancel_requested_at, s.suspended_at, s.created_at, s.started_at, s.completed_at, s.updated_at, s.archived_at
  FROM saga.saga_states_archive s
 WHERE s.tenant_id = (SELECT nullif(current_setting('skald.tenant_id', true), '')::uuid);
CREATE OR REPLACE VIEW saga.saga_steps AS
SELECT (s.id || ':' || h.k)::varchar(255) AS id,
       s.id AS saga_id,
       h.k AS step_index,
       (d.step->>'name')::varchar(255) AS name,
       CASE WHEN u.state = 2 OR u.state = 4 AND c.outcome IS NULL THEN 5 WHEN u.state IN (1, 3) THEN 4 ELSE f.state END AS state,
       CASE WHEN h.executing THEN greatest(x.attempts, h.sent) ELSE x.attempts END AS attempts,
       coalesce((d.step->'retry'->>'max_attempts')::integer, (s.retry_policy->>'max_attempts')::integer, (w.definition->'retry'->>'max_attempts')::integer, 3) AS max_attempts,
       s.created_at,
       coalesce(x.started_at, f.sent_at) AS started_at,
       CASE WHEN f.state > 1 THEN x.completed_at END AS completed_at,
       coalesce(x.last_attempt_at, f.sent_at) AS last_attempt_at,
       CASE WHEN f.state > 0 THEN coalesce(h.by->'input', s.payload) END AS input_data,
       x.output AS output_data,
       x.error,
       CASE WHEN u.state IS NOT NULL THEN jsonb_build_object(
           'state', u.state,
           'attempts', CASE WHEN h.undoing THEN greatest(c.attempts, h.sent) ELSE c.attempts END,
           'max_attempts', coalesce((d.step->'compensation_retry'->>'max_attempts')::integer, (w.definition->'compensation_retry'->>'max_attempts')::integer, 20),
           'started_at', c.started_at,
           'completed_at', CASE WHEN u.state > 1 THEN coalesce(c.completed_at, s.completed_at) END,
           'error', c.error) END AS compensation_state,
       NULL::jsonb AS metadata
  FROM saga.saga_states s
  JOIN saga.workflow_definitions w
    ON w.tenant_id = s.tenant_id AND w.name = s.workflow_name AND w.version = s.workflow_version
 CROSS JOIN LATERAL jsonb_array_elements(w.definition->'steps') WITH ORDINALITY AS d (step, ordinality)
 CROSS JOIN LATERAL (
       SELECT (d.ordinality - 1)::integer AS k,
              s.interventions->'steps'->(d.ordinality - 1)::text AS by,
              saga.step_base(s.interventions, (d.ordinality - 1)::integer, 'EXECUTE') AS base,
              saga.step_base(s.interventions, (d.ordinality - 1)::integer, 'COMPENSATE') AS undo_base,
              s.current_step = d.ordinality - 1 AND s.step_attempt > 0 AND s.state IN (0, 1) AS executing,
              s.current_step = d.ordinality - 1 AND s.step_attempt > 0 AND s.state = 4 AS undoing,
              CASE WHEN s.next_run_at > s.updated_at THEN s.step_attempt - 1 ELSE s.step_attempt END
                  - saga.step_base(s.interventions, (d.ordinality - 1)::integer, CASE WHEN s.state = 4 THEN 'COMPENSATE' ELSE 'EXECUTE' END) AS sent) h
 CROSS JOIN LATERAL (
       SELECT coalesce(max(l.attempt - h.base) FILTER (WHERE l.status <> 'SKIPPED'), 0) AS attempts,
              min(l.started_at) AS started_at,
              (array_agg(l.started_at ORDER BY l.attempt DESC))[1] AS last_attempt_at,
              (array_agg(l.completed_at ORDER BY l.attempt DESC))[1] AS completed_at,
              (array_agg(l.status ORDER BY l.attempt DESC))[1] AS status,
              (array_agg(l.final ORDER BY l.attempt DESC))[1] AS final,
              (array_agg(nullif(l.response_payload, 'null'::jsonb)) FILTER (WHERE l.status = 'SUCCESS'))[1] AS output,
              (array_agg(l.error ORDER BY l.attempt DESC))[1] AS error
         FROM saga.saga_step_logs l
        WHERE l.saga_id = s.id AND l.step_index = h.k AND l.action = 'EXECUTE' AND l.attempt > h.base) x
 CROSS JOIN LATERAL (
       SELECT coalesce(max(l.attempt - h.undo_base) FILTER (WHERE l.status <> 'SKIPPED'), 0) AS attempts,
              min(l.started_at) AS started_at,
              (array_agg(l.outcome_code ORDER BY l.attempt DESC))[1] AS outcome,
              (array_agg(l.completed_at ORDER BY l.attempt DESC))[1] AS completed_at,
              (array_agg(l.status ORDER BY l.attempt DESC))[1] AS status,
              (array_agg(l.error ORDER BY l.attempt DESC))[1] AS error
         FROM saga.saga_step_logs l
        WHERE l.saga_id = s.id AND l.step_index = h.k AND l.action = 'COMPENSATE' AND l.attempt > h.undo_base) c
 CROSS JOIN LATERAL (
       SELECT CASE
                  WHEN x.status IS NULL THEN CASE WHEN h.executing THEN 1 ELSE 0 END
                  WHEN x.status = 'RUNNING' THEN 1
                  WHEN x.status = 'SUCCESS' THEN 2
                  WHEN x.status = 'SKIPPED' THEN 6
                  WHEN h.executing AND (NOT x.final OR x.attempts + h.base < s.step_attempt) THEN 1 -- final until an operator retried it
                  ELSE 3
              END AS state,
              -- A first call rides on the commit before it: the creation's, or that of the step before.
              CASE WHEN x.status IS NULL AND h.executing THEN
                  CASE WHEN h.k = 0 THEN s.started_at
                       ELSE (SELECT max(l.completed_at) FROM saga.saga_step_logs l
                              WHERE l.saga_id = s.id AND l.step_index = h.k - 1 AND l.action = 'EXECUTE') END
              END AS sent_at) f
 CROSS JOIN LATERAL (
       SELECT CASE
                  WHEN c.status IS NULL AND (s.state NOT IN (4, 6) OR h.k > s.current_step OR s.interventions ? 'halted'
                       OR h.by ? 'skipped' AND NOT h.by ? 'doubt' OR h.k < (s.interventions->>'restart_at')::integer) THEN NULL
                  WHEN c.status IS NULL AND h.k < s.current_step THEN 0
                  WHEN h.undoing OR c.status = 'RUNNING' THEN 1
                  WHEN c.status = 'SUCCESS' THEN 2
                  WHEN c.status = 'SKIPPED' THEN 4
                  ELSE 3
              END AS state) u;
CREATE OR REPLACE VIEW saga.steps_to_retry AS
SELECT t.id, t.saga_id, t.step_index, t.name, t.state, t.attempts, t.max_attempts, t.last_attempt_at, t.error, t.compensation_state, s.next_run_at
  FROM (SELECT id, current_step, next_run_at FROM saga.saga_states
         WHERE completed_at IS NULL AND next_run_at IS NOT NULL AND step_failures > 0
         ORDER BY next_run_at) AS s
 CROSS JOIN LATERAL (SELECT id, saga_id, step_index, name, state, attempts, max_attempts, last_attempt_at, error, compensation_state
                       FROM saga.saga_steps WHERE saga_id = s.id AND step_index = s.current_step) AS t
 ORDER BY s.next_run_at;
DROP VIEW saga.steps_by_tenant;
-- +migrate StatementBegin
CREATE FUNCTION saga.step_outputs(of_saga uuid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT coalesce(jsonb_object_agg(l.step_name, coalesce(l.response_payload, 'null'::jsonb)), '{}'::jsonb)
      FROM saga.saga_states s JOIN saga.saga_step_logs l ON l.saga_id = s.id
     WHERE s.id = of_saga AND l.action = 'EXECUTE' AND l.status = 'SUCCESS'
       AND l.attempt > saga.step_base(s.interventions, l.step_index, l.action)
$$;
-- +migrate StatementEnd
CREATE OR REPLACE VIEW saga.sagas AS
SELECT s.id AS transaction_id,
       s.tenant_id, s.tenant_region, s.tenant_major, s.tenant_minor,
       s.saga_type, s.initiated_by,
       s.lifecycle AS status,
       jsonb_build_object(
           'workflow', jsonb_build_object('name', s.workflow_name, 'version', s.workflow_version),
           'payload', s.payload,
           'current_step', s.current_step,
           'steps', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                         'index', l.step_index, 'name', l.step_name, 'action', l.action, 'attempt', l.attempt,
                         'status', l.status, 'result', l.response_payload, 'error', l.error) ORDER BY l.started_at, l.attempt), '[]'::jsonb)
                       FROM saga.saga_step_logs l WHERE l.saga_id = s.id)) AS saga_data,
       s.version, s.created_at, s.updated_at, s.timeout_at
  FROM saga.saga_states s;
CREATE OR REPLACE VIEW saga.completed_sagas AS
SELECT id, (workflow_name || '@' || workflow_version)::varchar(300) AS definition_id, name, current_step, total_steps,
       created_at, started_at, completed_at, coalesce(result_data, saga.step_outputs(id)) AS result_data, trace_id
  FROM saga.saga_states
 WHERE completed_at IS NOT NULL AND state = 3
 ORDER BY completed_at DESC;
CREATE OR REPLACE VIEW saga.saga_instances AS
SELECT s.id,
       (s.workflow_name || '@' || s.workflow_version)::varchar(300) AS definition_id,
       s.name, s.description,
       s.state::integer AS state, s.current_step, s.total_steps,
       s.created_at, s.updated_at, s.started_at, s.completed_at, s.timed_out_at,
       s.payload AS initial_data,
       jsonb_build_object('steps', (
           SELECT coalesce(jsonb_object_agg(l.step_name, jsonb_build_object('output', coalesce(l.response_payload, 'null'::jsonb))), '{}'::jsonb)
             FROM saga.saga_step_logs l
            WHERE l.saga_id = s.id AND l.action = 'EXECUTE' AND l.status = 'SUCCESS'
              AND l.attempt > saga.step_base(s.interventions, l.step_index, l.action)),
           'vars', '{}'::jsonb) AS current_data,
       CASE WHEN s.state = 3 THEN coalesce(s.result_data, saga.step_outputs(s.id)) END AS result_data,
       s.error, s.timeout_ms,
       coalesce(s.retry_policy, (SELECT d.definition->'retry' FROM saga.workflow_definitions d
                                  WHERE d.tenant_id = s.tenant_id AND d.name = s.workflow_name AND d.version = s.workflow_version)) AS retry_policy,
       s.metadata, s.trace_id, s.span_id
  FROM saga.saga_states s;
DROP FUNCTION saga.step_outputs(uuid, uuid);
SELECT saga.secure_tables();
