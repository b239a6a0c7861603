-- All step logs, live and archived, with the requests as they were sent. Erasure knows of requests that are not kept.

-- +migrate Up
-- A client's own JSON, which is stored one level down if it looks like Skald's (decision 0026).
-- +migrate StatementBegin
CREATE FUNCTION saga.own_json(v jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
    SELECT CASE WHEN v IS NULL THEN 'null'
                WHEN jsonb_typeof(v) <> 'object' OR NOT v ? '$skald_raw' THEN v
                WHEN v - '$skald_raw' = '{}' THEN v -> '$skald_raw'
                ELSE v END
$$;
-- +migrate StatementEnd

-- The body of a call that Skald makes itself (saga.MakeRequests in Go). What is sealed stays sealed.
-- +migrate StatementBegin
CREATE FUNCTION saga.made_request(of_saga uuid, workflow text, step text, action text, payload jsonb, outputs jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
    SELECT jsonb_build_object('saga_id', of_saga, 'workflow_name', workflow, 'step', step,
                              'action', CASE action WHEN 'EXECUTE' THEN 'execute' ELSE 'compensate' END,
                              'payload', saga.own_json(payload), 'outputs', coalesce(outputs, '{}'))
        || CASE WHEN action = 'EXECUTE' THEN '{}'
                ELSE jsonb_build_object('input', saga.own_json(payload), 'output', coalesce(outputs -> step, 'null')) END
$$;
-- +migrate StatementEnd

CREATE VIEW saga.every_step_log WITH (security_invoker = true) AS
SELECT l.id, l.saga_id, l.step_index, l.step_name, l.action, l.status,
       CASE WHEN l.request_parts IS NULL THEN l.request_payload
            ELSE saga.made_request(l.saga_id, s.workflow_name, l.step_name, l.action, s.payload, (
                SELECT jsonb_object_agg(o.step_name, saga.own_json(o.response_payload)) FROM saga.saga_step_logs o
                 WHERE o.saga_id = l.saga_id AND o.tenant_id = l.tenant_id AND o.action = 'EXECUTE' AND o.status = 'SUCCESS'
                   AND o.attempt = CASE WHEN o.step_index < length(l.request_parts) THEN get_byte(l.request_parts, o.step_index) END))
            END AS request_payload,
       l.response_payload, l.error_message, l.started_at, l.completed_at, l.updated_at, l.attempt, l.final, l.outcome_code,
       l.error, l.duration_ms, l.tenant_id
  FROM saga.saga_step_logs l JOIN saga.saga_states s ON s.id = l.saga_id AND s.tenant_id = l.tenant_id
UNION ALL
SELECT l.id, l.saga_id, l.step_index, l.step_name, l.action, l.status,
       CASE WHEN l.request_parts IS NULL THEN l.request_payload
            ELSE saga.made_request(l.saga_id, s.workflow_name, l.step_name, l.action, s.payload, (
                SELECT jsonb_object_agg(o.step_name, saga.own_json(o.response_payload)) FROM saga.saga_step_logs_archive o
                 WHERE o.saga_id = l.saga_id AND o.tenant_id = l.tenant_id AND o.action = 'EXECUTE' AND o.status = 'SUCCESS'
                   AND o.attempt = CASE WHEN o.step_index < length(l.request_parts) THEN get_byte(l.request_parts, o.step_index) END))
            END,
       l.response_payload, l.error_message, l.started_at, l.completed_at, l.updated_at, l.attempt, l.final, l.outcome_code,
       l.error, l.duration_ms, l.tenant_id
  FROM saga.saga_step_logs_archive l JOIN saga.saga_states_archive s ON s.id = l.saga_id AND s.tenant_id = l.tenant_id;

-- +migrate StatementBegin
DO $$
DECLARE
    was text := pg_get_functiondef('saga.purge_contents(uuid, uuid[], uuid[], uuid[], integer[])'::regprocedure);
    becomes text := replace(was, 'SET request_payload = CASE WHEN request_payload IS NOT NULL THEN marker END,',
        'SET request_payload = CASE WHEN request_payload IS NOT NULL OR request_parts IS NOT NULL THEN marker END, request_parts = NULL,');
BEGIN
    ASSERT (length(becomes) - length(replace(becomes, 'request_parts = NULL', ''))) / length('request_parts = NULL') = 2,
        'saga.purge_contents is not what was expected';
    EXECUTE becomes;
END;
$$;
-- +migrate StatementEnd
SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (467, 'every step log');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 467;
-- What was not kept is kept again, for programs that know no other way.
UPDATE saga.saga_step_logs l SET request_payload = e.request_payload, request_parts = NULL
  FROM saga.every_step_log e WHERE l.request_parts IS NOT NULL AND e.id = l.id AND e.saga_id = l.saga_id AND e.tenant_id = l.tenant_id
   AND e.request_payload::text NOT LIKE '%"$skald_enc"%';
UPDATE saga.saga_step_logs_archive l SET request_payload = e.request_payload, request_parts = NULL
  FROM saga.every_step_log e WHERE l.request_parts IS NOT NULL AND e.id = l.id AND e.saga_id = l.saga_id AND e.tenant_id = l.tenant_id
   AND e.request_payload::text NOT LIKE '%"$skald_enc"%';
-- +migrate StatementBegin
DO $$
BEGIN
    EXECUTE replace(pg_get_functiondef('saga.purge_contents(uuid, uuid[], uuid[], uuid[], integer[])'::regprocedure),
        'SET request_payload = CASE WHEN request_payload IS NOT NULL OR request_parts IS NOT NULL THEN marker END, request_parts = NULL,',
        'SET request_payload = CASE WHEN request_payload IS NOT NULL THEN marker END,');
END;
$$;
-- +migrate StatementEnd
DROP VIEW saga.every_step_log;
DROP FUNCTION saga.made_request(uuid, text, text, text, jsonb, jsonb);
DROP FUNCTION saga.own_json(jsonb);
