-- Metadata of steps and of events. A step's stands in its workflow's definition, so
-- it costs a saga nothing; an event shows its saga's, and its step's on top of that.

-- +migrate Up
-- The view as migration 0150 has it, but for that column: it is written anew from
-- what the database holds, because it is long and nothing else of it changes.
-- +migrate StatementBegin
DO $$
DECLARE
    was text := pg_get_viewdef('saga.steps_by_tenant'::regclass);
    becomes text := replace(was, 'NULL::jsonb AS metadata', '(d.step -> ''metadata''::text) AS metadata');
BEGIN
    ASSERT becomes <> was, 'saga.steps_by_tenant has no column metadata that is NULL';
    EXECUTE 'CREATE OR REPLACE VIEW saga.steps_by_tenant WITH (security_invoker = true) AS ' || becomes;
END;
$$;
-- +migrate StatementEnd

-- +migrate StatementBegin
CREATE FUNCTION saga.event_metadata(of_saga uuid, of_tenant uuid, of_step integer) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT nullif(coalesce(s.metadata, '{}'::jsonb) || coalesce(w.definition->'steps'->of_step->'metadata', '{}'::jsonb), '{}'::jsonb)
      FROM (SELECT metadata, workflow_name, workflow_version FROM saga.saga_states WHERE id = of_saga AND tenant_id = of_tenant
            UNION ALL
            SELECT metadata, workflow_name, workflow_version FROM saga.saga_states_archive WHERE id = of_saga AND tenant_id = of_tenant) s
      LEFT JOIN saga.workflow_definitions w ON w.tenant_id = of_tenant AND w.name = s.workflow_name AND w.version = s.workflow_version
     LIMIT 1
$$;
-- +migrate StatementEnd

CREATE OR REPLACE VIEW saga.saga_events WITH (security_invoker = true) AS
SELECT id, saga_id, event_type,
       (saga_id::text || ':' || step_index::text)::varchar(300) AS step_id,
       step_index, timestamp, event_data, old_state, new_state, error,
       trace_id, span_id, saga.event_metadata(saga_id, tenant_id, step_index) AS metadata,
       tenant_id, step_name, attempt, actor, request_id, digest, txid
  FROM saga.audit_events;

INSERT INTO saga.saga_schema_version (version, description) VALUES (181, 'metadata of steps and events');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 181;
CREATE OR REPLACE VIEW saga.saga_events WITH (security_invoker = true) AS
SELECT id, saga_id, event_type,
       (saga_id::text || ':' || step_index::text)::varchar(300) AS step_id,
       step_index, timestamp, event_data, old_state, new_state, error,
       trace_id, span_id, NULL::jsonb AS metadata,
       tenant_id, step_name, attempt, actor, request_id, digest, txid
  FROM saga.audit_events;
DROP FUNCTION IF EXISTS saga.event_metadata(uuid, uuid, integer);
-- +migrate StatementBegin
DO $$
BEGIN
    EXECUTE 'CREATE OR REPLACE VIEW saga.steps_by_tenant WITH (security_invoker = true) AS '
        || replace(pg_get_viewdef('saga.steps_by_tenant'::regclass), '(d.step -> ''metadata''::text) AS metadata', 'NULL::jsonb AS metadata');
END;
$$;
-- +migrate StatementEnd
