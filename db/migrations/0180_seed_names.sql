-- Names of seed 2 that tools may look for, where something of that kind is there; and
-- definition_id as an expression that an index may have (int || text is not immutable,
-- text || text is). Indexes that only hand-written queries need are no migrations:
-- `skald migrate extras` makes them (db/extras.go).

-- +migrate Up
ALTER TABLE saga.saga_step_logs RENAME CONSTRAINT saga_step_logs_saga_id_fkey TO fk_saga_steps_saga;

-- +migrate StatementBegin
CREATE FUNCTION saga.update_saga_updated_at() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    NEW.updated_at = now();
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd
-- Seed 1 has the same trigger under another name: whichever comes second finds
-- the stamp in place and costs no more than its WHEN.
CREATE TRIGGER trigger_saga_updated_at BEFORE UPDATE ON saga.saga_states
    FOR EACH ROW WHEN (NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at)
    EXECUTE FUNCTION saga.update_saga_updated_at();

CREATE OR REPLACE VIEW saga.saga_instances WITH (security_invoker = true) AS
SELECT s.id,
       (s.workflow_name || '@' || s.workflow_version::text)::varchar(300) AS definition_id,
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

INSERT INTO saga.saga_schema_version (version, description) VALUES (180, 'names of seed 2');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 180;
-- As migration 0150 has it.
CREATE OR REPLACE VIEW saga.saga_instances WITH (security_invoker = true) AS
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
DROP TRIGGER IF EXISTS trigger_saga_updated_at ON saga.saga_states;
DROP FUNCTION IF EXISTS saga.update_saga_updated_at();
ALTER TABLE saga.saga_step_logs RENAME CONSTRAINT fk_saga_steps_saga TO saga_step_logs_saga_id_fkey;
