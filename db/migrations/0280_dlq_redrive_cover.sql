-- A redrive is for the letters that existed when it was asked for (docs/redrives.md,
-- "Which letters"). Times cannot tell which those are: a letter may be committed after
-- the request although its time is earlier. So a letter knows the transaction that
-- stored it, and a redrive the transactions that were visible to its request.

-- +migrate Up
ALTER TABLE dlq.dlq_messages ADD COLUMN txid xid8;   -- NULL: stored before this migration
ALTER TABLE dlq.dlq_messages ALTER COLUMN txid SET DEFAULT pg_current_xact_id();
ALTER TABLE dlq.dlq_redrives
    ADD COLUMN covers        pg_snapshot,            -- NULL: asked for before this migration
    ADD COLUMN include_later boolean NOT NULL DEFAULT false,
    ADD COLUMN expected      bigint,                 -- letters when it was asked for; NULL: not counted
    ADD COLUMN halts_above   bigint;                 -- more letters than this halt it; NULL: any number is right

-- The view for lists shows what it showed, and the new column.
-- +migrate StatementBegin
DO $$
DECLARE columns text;
BEGIN
    SELECT string_agg('m.' || quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO columns
      FROM pg_attribute a WHERE a.attrelid = 'dlq.tenant_messages'::regclass AND a.attnum > 0 AND NOT a.attisdropped;
    EXECUTE format('CREATE OR REPLACE VIEW dlq.tenant_messages AS SELECT %s, m.txid FROM dlq.dlq_messages m
        WHERE m.tenant_id = (SELECT nullif(current_setting(''skald.tenant_id'', true), '''')::uuid)', columns);
END;
$$;
-- +migrate StatementEnd
INSERT INTO saga.saga_schema_version (version, description) VALUES (280, 'which letters a redrive is for');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 280;
-- +migrate StatementBegin
DO $$
DECLARE columns text;
BEGIN
    SELECT string_agg('m.' || quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO columns
      FROM pg_attribute a WHERE a.attrelid = 'dlq.tenant_messages'::regclass AND a.attnum > 0 AND NOT a.attisdropped
       AND a.attname <> 'txid';
    DROP VIEW dlq.tenant_messages;
    EXECUTE format('CREATE VIEW dlq.tenant_messages AS SELECT %s FROM dlq.dlq_messages m
        WHERE m.tenant_id = (SELECT nullif(current_setting(''skald.tenant_id'', true), '''')::uuid)', columns);
END;
$$;
-- +migrate StatementEnd
ALTER TABLE dlq.dlq_redrives DROP COLUMN covers, DROP COLUMN include_later, DROP COLUMN expected, DROP COLUMN halts_above;
ALTER TABLE dlq.dlq_messages DROP COLUMN txid;
