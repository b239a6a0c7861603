-- What operators change about single sagas (docs/decisions/0023), and the views
-- that show it.

-- +migrate Up
-- NULL for nearly every saga; written by the second form of the commit statement
-- only. The keys are those of saga.Interventions.
ALTER TABLE saga.saga_states ADD COLUMN interventions jsonb;
ALTER TABLE saga.saga_states_archive ADD COLUMN interventions jsonb;

-- The closure of the transition table as it is now: a failed or compensating
-- saga may go forward again.
DROP TRIGGER guard_saga_states_transition ON saga.saga_states;
CREATE TRIGGER guard_saga_states_transition BEFORE UPDATE ON saga.saga_states
    FOR EACH ROW WHEN (
        OLD.state IN (3, 5, 7, 8)
        OR (OLD.state <> 0 AND NEW.state = 0))
    EXECUTE FUNCTION saga.refuse_transition();

-- +migrate StatementBegin
-- How many attempts of a step belong to earlier runs of it: their step logs say
-- nothing about the present one.
CREATE FUNCTION saga.step_base(interventions jsonb, step integer, of_action text) RETURNS integer
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog AS $$
    SELECT coalesce((interventions->'steps'->step::text->>CASE of_action WHEN 'EXECUTE' THEN 'base' ELSE 'undo_base' END)::integer, 0)
$$;
-- +migrate StatementEnd

-- Outputs of the steps done so far, by step name.
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.step_outputs(of_saga uuid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT coalesce(jsonb_object_agg(l.step_name, coalesce(l.response_payload, 'null'::jsonb)), '{}'::jsonb)
      FROM saga.saga_states s JOIN saga.saga_step_logs l ON l.saga_id = s.id
     WHERE s.id = of_saga AND l.action = 'EXECUTE' AND l.status = 'SUCCESS'
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
            WHERE l.saga_id = s.id AND l.action = 'EXECUTE' AND l.status = 'SUCCESS'
              AND l.attempt > saga.step_base(s.interventions, l.step_index, l.action)),
           'vars', '{}'::jsonb) AS current_data,
       CASE WHEN s.state = 3 THEN coalesce(s.result_data, saga.step_outputs(s.id)) END AS result_data,
       s.error, s.timeout_ms,
       coalesce(s.retry_policy, (SELECT d.definition->'retry' FROM saga.workflow_definitions d
                                  WHERE d.tenant_id = s.tenant_id AND d.name = s.workflow_name AND d.version = s.workflow_version)) AS retry_policy,
       s.metadata, s.trace_id, s.span_id
  FROM saga.saga_states s;

-- One row per step of each saga, as saga.Steps of the rules tells it; a test
-- compares the two. x is what the logs say of the action, c of the compensation;
-- h is what the head says of a call in flight, whose log does not exist yet.
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

INSERT INTO saga.saga_schema_version (version, description) VALUES (14, 'interventions');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 14;
-- As migrations 0002 and 0007 have them.
-- Outputs of the steps done so far, by step name.
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.step_outputs(of_saga uuid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT coalesce(jsonb_object_agg(l.step_name, coalesce(l.response_payload, 'null'::jsonb)), '{}'::jsonb)
      FROM saga.saga_step_logs l
     WHERE l.saga_id = of_saga AND l.action = 'EXECUTE' AND l.status = 'SUCCESS'
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
            WHERE l.saga_id = s.id AND l.action = 'EXECUTE' AND l.status = 'SUCCESS'),
           'vars', '{}'::jsonb) AS current_data,
       CASE WHEN s.state = 3 THEN coalesce(s.result_data, saga.step_outputs(s.id)) END AS result_data,
       s.error, s.timeout_ms,
       coalesce(s.retry_policy, (SELECT d.definition->'retry' FROM saga.workflow_definitions d
                                  WHERE d.tenant_id = s.tenant_id AND d.name = s.workflow_name AND d.version = s.workflow_version)) AS retry_policy,
       s.metadata, s.trace_id, s.span_id
  FROM saga.saga_states s;

-- One row per step of each saga, as saga.Steps of the rules tells it; a test
-- compares the two. x is what the logs say of the action, c of the compensation;
-- h is what the head says of a call in flight, whose log does not exist yet.
CREATE OR REPLACE VIEW saga.saga_steps AS
SELECT (s.id || ':' || h.k)::varchar(255) AS id,
       s.id AS saga_id,
       h.k AS step_index,
       (d.step->>'name')::varchar(255) AS name,
       CASE WHEN u.state IN (2, 4) THEN 5 WHEN u.state IN (1, 3) THEN 4 ELSE f.state END AS state,
       CASE WHEN h.executing THEN greatest(x.attempts, h.sent) ELSE x.attempts END AS attempts,
       coalesce((d.step->'retry'->>'max_attempts')::integer, (w.definition->'retry'->>'max_attempts')::integer, 3) AS max_attempts,
       s.created_at,
       coalesce(x.started_at, f.sent_at) AS started_at,
       CASE WHEN f.state > 1 THEN x.completed_at END AS completed_at,
       coalesce(x.last_attempt_at, f.sent_at) AS last_attempt_at,
       CASE WHEN f.state > 0 THEN s.payload END AS input_data,
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
              s.current_step = d.ordinality - 1 AND s.step_attempt > 0 AND s.state IN (0, 1) AS executing,
              s.current_step = d.ordinality - 1 AND s.step_attempt > 0 AND s.state = 4 AS undoing,
              CASE WHEN s.next_run_at > s.updated_at THEN s.step_attempt - 1 ELSE s.step_attempt END AS sent) h
 CROSS JOIN LATERAL (
       SELECT coalesce(max(l.attempt) FILTER (WHERE l.status <> 'SKIPPED'), 0) AS attempts,
              min(l.started_at) AS started_at,
              (array_agg(l.started_at ORDER BY l.attempt DESC))[1] AS last_attempt_at,
              (array_agg(l.completed_at ORDER BY l.attempt DESC))[1] AS completed_at,
              (array_agg(l.status ORDER BY l.attempt DESC))[1] AS status,
              (array_agg(l.final ORDER BY l.attempt DESC))[1] AS final,
              (array_agg(nullif(l.response_payload, 'null'::jsonb)) FILTER (WHERE l.status = 'SUCCESS'))[1] AS output,
              (array_agg(l.error ORDER BY l.attempt DESC))[1] AS error
         FROM saga.saga_step_logs l
        WHERE l.saga_id = s.id AND l.step_index = h.k AND l.action = 'EXECUTE') x
 CROSS JOIN LATERAL (
       SELECT coalesce(max(l.attempt) FILTER (WHERE l.status <> 'SKIPPED'), 0) AS attempts,
              min(l.started_at) AS started_at,
              (array_agg(l.completed_at ORDER BY l.attempt DESC))[1] AS completed_at,
              (array_agg(l.status ORDER BY l.attempt DESC))[1] AS status,
              (array_agg(l.error ORDER BY l.attempt DESC))[1] AS error
         FROM saga.saga_step_logs l
        WHERE l.saga_id = s.id AND l.step_index = h.k AND l.action = 'COMPENSATE') c
 CROSS JOIN LATERAL (
       SELECT CASE
                  WHEN x.status IS NULL THEN CASE WHEN h.executing THEN 1 ELSE 0 END
                  WHEN x.status = 'RUNNING' THEN 1
                  WHEN x.status = 'SUCCESS' THEN 2
                  WHEN x.status = 'SKIPPED' THEN 6
                  WHEN h.executing AND NOT x.final THEN 1
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
                  WHEN c.status IS NULL AND (s.state NOT IN (4, 6) OR h.k > s.current_step) THEN NULL
                  WHEN c.status IS NULL AND h.k < s.current_step THEN 0
                  WHEN h.undoing OR c.status = 'RUNNING' THEN 1
                  WHEN c.status = 'SUCCESS' THEN 2
                  WHEN c.status = 'SKIPPED' THEN 4
                  ELSE 3
              END AS state) u;

DROP FUNCTION IF EXISTS saga.step_base(jsonb, integer, text);
DROP TRIGGER guard_saga_states_transition ON saga.saga_states;
CREATE TRIGGER guard_saga_states_transition BEFORE UPDATE ON saga.saga_states
    FOR EACH ROW WHEN (
        OLD.state IN (3, 5, 7, 8)
        OR (OLD.state IN (1, 2) AND NEW.state = 0)
        OR (OLD.state IN (4, 6) AND NEW.state NOT IN (4, 5, 6, 7, 8)))
    EXECUTE FUNCTION saga.refuse_transition();
ALTER TABLE saga.saga_states_archive DROP COLUMN IF EXISTS interventions;
ALTER TABLE saga.saga_states DROP COLUMN IF EXISTS interventions;
