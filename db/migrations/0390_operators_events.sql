-- What operators did to sagas, newest first, for the list of what they did to anything
-- (docs/decisions/0102). Few events are in these indexes: none of those that every saga
-- has, and none of a bulk operation, which is listed itself.

-- +migrate Up notransaction
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_event_operators; -- an attempt that was broken off leaves an invalid one
CREATE INDEX CONCURRENTLY idx_event_operators ON saga.audit_events (tenant_id, timestamp, id)
    WHERE event_type IN (
        'saga.attention_cleared', 'saga.cancel_requested', 'saga.compensation_requested',
        'saga.compensation_resumed', 'saga.deadline_changed', 'saga.end_forced', 'saga.erased',
        'saga.note_changed', 'saga.restored', 'saga.resumed', 'saga.retry_requested', 'saga.step.ordered',
        'saga.suspended')
      AND NOT jsonb_exists(event_data, 'bulk');
DROP INDEX IF EXISTS saga.idx_audit_events_archive_operators;
CREATE INDEX idx_audit_events_archive_operators ON saga.audit_events_archive (tenant_id, timestamp, id)
    WHERE event_type IN (
        'saga.attention_cleared', 'saga.cancel_requested', 'saga.compensation_requested',
        'saga.compensation_resumed', 'saga.deadline_changed', 'saga.end_forced', 'saga.erased',
        'saga.note_changed', 'saga.restored', 'saga.resumed', 'saga.retry_requested', 'saga.step.ordered',
        'saga.suspended')
      AND NOT jsonb_exists(event_data, 'bulk');
INSERT INTO saga.saga_schema_version (version, description) VALUES (390, 'an index of operators'' events') ON CONFLICT DO NOTHING;

-- +migrate Down notransaction
DELETE FROM saga.saga_schema_version WHERE version = 390;
DROP INDEX CONCURRENTLY IF EXISTS saga.idx_event_operators;
DROP INDEX IF EXISTS saga.idx_audit_events_archive_operators;
