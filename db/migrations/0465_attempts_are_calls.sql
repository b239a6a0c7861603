-- The view of steps counts calls: what a person decided about a step has a log with a number of its own, and is none.

-- +migrate Up
CREATE OR REPLACE VIEW saga.steps_by_tenant WITH (security_invoker = true) AS
SELECT (s.id || ':' || h.k)::varchar(255) AS id,
       s.id AS saga_id,
       h.k AS step_index,
       (d.step->>'name')::varchar(255) AS name,
       CASE WHEN u.state = 2 OR u.state = 4 AND c.outcome IS NULL THEN 5 WHEN u.state IN (1, 3) THEN 4 ELSE f.state END AS state,
       CASE WHEN h.executing THEN greatest(n.calls, h.sent) ELSE n.calls END AS attempts,
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
           'attempts', CASE WHEN h.undoing THEN greatest(n.undo_calls, h.sent) ELSE n.undo_calls END,
           'max_attempts', coalesce((d.step->'compensation_retry'->>'max_attempts')::integer, (w.definition->'compensation_retry'->>'max_attempts')::integer, 20),
           'started_at', c.started_at,
           'completed_at', CASE WHEN u.state > 1 THEN coalesce(c.completed_at, s.completed_at) END,
           'error', c.error) END AS compensation_state,
       d.step->'metadata' AS metadata,
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
              coalesce(max(l.attempt - h.base) FILTER (WHERE l.status <> 'SKIPPED' AND l.outcome_code IS DISTINCT FROM 'operator'), 0) AS called,
              array_agg(l.attempt - h.base) FILTER (WHERE l.outcome_code = 'operator') AS by_hand,
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
              coalesce(max(l.attempt - h.undo_base) FILTER (WHERE l.status <> 'SKIPPED' AND l.outcome_code IS DISTINCT FROM 'operator'), 0) AS called,
              array_agg(l.attempt - h.undo_base) FILTER (WHERE l.outcome_code = 'operator') AS by_hand,
              min(l.started_at) AS started_at,
              (array_agg(l.outcome_code ORDER BY l.attempt DESC))[1] AS outcome,
              (array_agg(l.completed_at ORDER BY l.attempt DESC))[1] AS completed_at,
              (array_agg(l.status ORDER BY l.attempt DESC))[1] AS status,
              (array_agg(l.error ORDER BY l.attempt DESC))[1] AS error
         FROM saga.saga_step_logs l
        WHERE l.saga_id = s.id AND l.tenant_id = s.tenant_id AND l.step_index = h.k AND l.action = 'COMPENSATE' AND l.attempt > h.undo_base) c
 CROSS JOIN LATERAL (
       SELECT (x.called - (SELECT count(*) FROM unnest(x.by_hand) AS b (attempt) WHERE b.attempt <= x.called))::integer AS calls,
              (c.called - (SELECT count(*) FROM unnest(c.by_hand) AS b (attempt) WHERE b.attempt <= c.called))::integer AS undo_calls) n
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

INSERT INTO saga.saga_schema_version (version, description) VALUES (465, 'attempts are calls');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 465;
CREATE OR REPLACE VIEW saga.steps_by_tenant WITH (security_invoker = true) AS
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
       d.step->'metadata' AS metadata,
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
