-- A policy that says that nothing is retried by itself counts for the letters that
-- are scheduled already. A letter that is found due while it is held leaves the
-- index of what is due, or every look would pass over a million of them: its time
-- moves to held_retry_at, and comes back when the policy lets it go. A time that a
-- person has set for one letter (retry_asked) is an order, and no policy holds it.
--
-- hold_all, of a tenant's default policy, holds the letters of every topic.

-- +migrate Up
ALTER TABLE dlq.dlq_messages ADD COLUMN held_retry_at timestamptz, ADD COLUMN retry_asked boolean NOT NULL DEFAULT false;
ALTER TABLE dlq.dlq_messages_archive ADD COLUMN held_retry_at timestamptz, ADD COLUMN retry_asked boolean NOT NULL DEFAULT false;
CREATE INDEX idx_dlq_messages_held ON dlq.dlq_messages (tenant_id, original_topic, id) WHERE status = 'PENDING' AND held_retry_at IS NOT NULL;
ALTER TABLE dlq.dlq_policies ADD COLUMN hold_all boolean NOT NULL DEFAULT false CHECK (topic = '' OR NOT hold_all);

-- The views for lists show what they showed, and the new columns.
-- +migrate StatementBegin
DO $$
DECLARE shown text; columns text;
BEGIN
    FOREACH shown IN ARRAY ARRAY['messages', 'messages_archive'] LOOP
        SELECT string_agg('m.' || quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO columns
          FROM pg_attribute a WHERE a.attrelid = format('dlq.tenant_%s', shown)::regclass AND a.attnum > 0 AND NOT a.attisdropped;
        EXECUTE format('CREATE OR REPLACE VIEW dlq.tenant_%1$s AS SELECT %2$s, m.held_retry_at, m.retry_asked FROM dlq.dlq_%1$s m
            WHERE m.tenant_id = (SELECT nullif(current_setting(''skald.tenant_id'', true), '''')::uuid)', shown, columns);
    END LOOP;
END;
$$;
-- +migrate StatementEnd
SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (142, 'dead letters that are held');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 142;
-- +migrate StatementBegin
DO $$
DECLARE shown text; columns text;
BEGIN
    FOREACH shown IN ARRAY ARRAY['messages', 'messages_archive'] LOOP
        SELECT string_agg('m.' || quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO columns
          FROM pg_attribute a WHERE a.attrelid = format('dlq.tenant_%s', shown)::regclass AND a.attnum > 0 AND NOT a.attisdropped
           AND a.attname NOT IN ('held_retry_at', 'retry_asked');
        EXECUTE format('DROP VIEW dlq.tenant_%s', shown);
        EXECUTE format('CREATE VIEW dlq.tenant_%1$s AS SELECT %2$s FROM dlq.dlq_%1$s m
            WHERE m.tenant_id = (SELECT nullif(current_setting(''skald.tenant_id'', true), '''')::uuid)', shown, columns);
    END LOOP;
END;
$$;
-- +migrate StatementEnd
-- What was held is due again: the version before knows no holds.
UPDATE dlq.dlq_messages SET next_retry_at = coalesce(next_retry_at, held_retry_at) WHERE status = 'PENDING' AND held_retry_at IS NOT NULL;
DROP INDEX dlq.idx_dlq_messages_held;
ALTER TABLE dlq.dlq_messages DROP COLUMN held_retry_at, DROP COLUMN retry_asked;
ALTER TABLE dlq.dlq_messages_archive DROP COLUMN held_retry_at, DROP COLUMN retry_asked;
ALTER TABLE dlq.dlq_policies DROP COLUMN hold_all;
SELECT saga.secure_tables();
