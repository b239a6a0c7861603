-- What has been done by one operation, newest first (GET /audit?operation=…), without
-- reading all that the tenant has ever done. Actions of before migration 0153 name none.

-- +migrate Up
CREATE INDEX idx_audit_actions_operation ON saga.audit_actions (tenant_id, operation, at DESC, id DESC) WHERE operation <> '';
INSERT INTO saga.saga_schema_version (version, description) VALUES (165, 'actions are found by their operation');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 165;
DROP INDEX IF EXISTS saga.idx_audit_actions_operation;
