-- saga_data of seed 4 is the whole model of a saga: every step of its definition, also those that
-- were never called, with what each was given and gave, and beside them the calls. Before, steps
-- were the calls alone.

-- +migrate Up
CREATE OR REPLACE VIEW saga.sagas WITH (security_invoker = true) AS
SELECT s.id AS transaction_id,
       s.tenant_id, s.tenant_region, s.tenant_major, s.tenant_minor,
       s.saga_type, s.initiated_by,
       s.lifecycle AS status,
       jsonb_build_object(
           'workflow', jsonb_build_object('name', s.workflow_name, 'version', s.workflow_version),
           'payload', s.payload,
           'current_step', s.current_step,
           'result', CASE WHEN s.state = 3 THEN coalesce(s.result_data, saga.step_outputs(s.id, s.tenant_id)) END,
           'error', s.error,
           'steps', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                         'index', t.step_index, 'name', t.name, 'state', t.state, 'attempts', t.attempts, 'payload', t.input_data,
                         'result', t.output_data, 'error', t.error, 'compensation', t.compensation_state) ORDER BY t.step_index), '[]'::jsonb)
                       FROM saga.steps_by_tenant t WHERE t.saga_id = s.id AND t.tenant_id = s.tenant_id),
           'calls', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                         'index', l.step_index, 'name', l.step_name, 'action', l.action, 'attempt', l.attempt,
                         'status', l.status, 'result', l.response_payload, 'error', l.error) ORDER BY l.started_at, l.attempt), '[]'::jsonb)
                       FROM saga.saga_step_logs l WHERE l.saga_id = s.id AND l.tenant_id = s.tenant_id)) AS saga_data,
       s.version, s.created_at, s.updated_at, s.timeout_at
  FROM saga.saga_states s;
INSERT INTO saga.saga_schema_version (version, description) VALUES (380, 'saga_data is the whole model of a saga');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 380;
CREATE OR REPLACE VIEW saga.sagas WITH (security_invoker = true) AS
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
