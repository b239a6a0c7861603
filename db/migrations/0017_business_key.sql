-- A business key names one saga of its workflow while that has not ended, so
-- that an order is not processed twice at once. The index leaves ended sagas
-- out: the next one may have the key again.

-- +migrate Up
CREATE UNIQUE INDEX uq_saga_business_key ON saga.saga_states (tenant_id, workflow_name, business_key)
    WHERE business_key IS NOT NULL AND completed_at IS NULL;

INSERT INTO saga.saga_schema_version (version, description) VALUES (17, 'business keys are unique while active');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 17;
DROP INDEX IF EXISTS saga.uq_saga_business_key;
