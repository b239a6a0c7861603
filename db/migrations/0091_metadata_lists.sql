-- Lists by metadata read their sagas where the metadata's index may be used.
-- With nothing but ids in the view, each saga found was looked up a second
-- time: for a value that 5,400 sagas share, 28,600 pages where 6,900 do
-- (docs/performance.md).

-- +migrate Up
-- Views keep their first columns; these are what migration 0090 gave them.
CREATE OR REPLACE VIEW saga.tenant_metadata AS
SELECT s.id, s.metadata, s.tenant_id, s.tenant_region, s.tenant_major, s.tenant_minor, s.saga_type,
       s.workflow_name, s.workflow_version, s.name, s.description, s.business_key, s.correlation_id, s.initiated_by,
       s.trace_id, s.span_id, s.payload, s.retry_policy, s.interventions, s.result_data, s.state, s.ended_state,
       s.current_step, s.total_steps, s.step_attempt, s.step_failures, s.step_uncertain, s.version, s.lease_owner,
       s.lease_epoch, s.next_run_at, s.error, s.end_cause, s.clean, s.needs_attention, s.attention_reason, s.timeout_ms,
       s.compensation_timeout_ms, s.timeout_at, s.compensation_timeout_at, s.compensation_expired, s.timed_out_at,
       s.cancel_requested_at, s.suspended_at, s.created_at, s.started_at, s.completed_at, s.updated_at
  FROM saga.saga_states s
 WHERE s.tenant_id = (SELECT nullif(current_setting('skald.tenant_id', true), '')::uuid);

CREATE OR REPLACE VIEW saga.tenant_metadata_archive AS
SELECT s.id, s.metadata, s.tenant_id, s.tenant_region, s.tenant_major, s.tenant_minor, s.saga_type,
       s.workflow_name, s.workflow_version, s.name, s.description, s.business_key, s.correlation_id, s.initiated_by,
       s.trace_id, s.span_id, s.payload, s.retry_policy, s.interventions, s.result_data, s.state, s.ended_state,
       s.current_step, s.total_steps, s.step_attempt, s.step_failures, s.step_uncertain, s.version, s.lease_owner,
       s.lease_epoch, s.next_run_at, s.error, s.end_cause, s.clean, s.needs_attention, s.attention_reason, s.timeout_ms,
       s.compensation_timeout_ms, s.timeout_at, s.compensation_timeout_at, s.compensation_expired, s.timed_out_at,
       s.cancel_requested_at, s.suspended_at, s.created_at, s.started_at, s.completed_at, s.updated_at, s.archived_at
  FROM saga.saga_states_archive s
 WHERE s.tenant_id = (SELECT nullif(current_setting('skald.tenant_id', true), '')::uuid);

INSERT INTO saga.saga_schema_version (version, description) VALUES (91, 'lists by metadata');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 91;
DROP VIEW saga.tenant_metadata, saga.tenant_metadata_archive;
CREATE VIEW saga.tenant_metadata AS
SELECT s.id, s.metadata FROM saga.saga_states s
 WHERE s.tenant_id = (SELECT nullif(current_setting('skald.tenant_id', true), '')::uuid);
CREATE VIEW saga.tenant_metadata_archive AS
SELECT s.id, s.metadata FROM saga.saga_states_archive s
 WHERE s.tenant_id = (SELECT nullif(current_setting('skald.tenant_id', true), '')::uuid);
SELECT saga.secure_tables();
