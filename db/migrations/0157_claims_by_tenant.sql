-- Claims take turns between tenants, so that a tenant with a long backlog does not
-- keep the others waiting. The index tells which tenants have sagas that are due,
-- without reading more than one entry of each, and each tenant's in their order;
-- sagas that were in flight when their node died have no due time and come first.

-- +migrate Up
CREATE INDEX idx_saga_runnable_by_tenant ON saga.saga_states (lease_owner, tenant_id, next_run_at NULLS FIRST) WHERE completed_at IS NULL;
DROP INDEX saga.idx_saga_runnable;
ALTER INDEX saga.idx_saga_runnable_by_tenant RENAME TO idx_saga_runnable;
INSERT INTO saga.saga_schema_version (version, description) VALUES (157, 'claims take turns between tenants');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 157;
DROP INDEX saga.idx_saga_runnable;
CREATE INDEX idx_saga_runnable ON saga.saga_states (lease_owner, next_run_at) WHERE completed_at IS NULL;
