-- Letters that an unfinished redrive has collected are not retried automatically
-- (docs/redrives.md, "Order, rate and automatic retries"). A claim of due letters looks
-- for them in the few redrives that have begun and not ended, and then in
-- idx_dlq_redrive_items_message.

-- +migrate Up
CREATE INDEX idx_dlq_redrives_unfinished ON dlq.dlq_redrives (tenant_id, id) WHERE started_at IS NOT NULL AND ended_at IS NULL;
INSERT INTO saga.saga_schema_version (version, description) VALUES (281, 'letters that redrives have collected');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 281;
DROP INDEX dlq.idx_dlq_redrives_unfinished;
