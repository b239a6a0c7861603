-- A bulk operation on sagas or job runs is for those that existed when it was requested, as a
-- redrive is for letters (migration 0280; docs/bulk.md, "Which sagas"). So sagas and runs
-- know the transaction that stored them, and an operation knows the transactions that were
-- visible to its request. A backfill is for the slots of the schedule that the job had then.
-- An operation that would touch more than it may is HALTED until a person decides.

-- +migrate Up
ALTER TABLE saga.saga_states ADD COLUMN txid xid8;       -- NULL: stored before this migration
ALTER TABLE saga.saga_states ALTER COLUMN txid SET DEFAULT pg_current_xact_id();
ALTER TABLE jobs.job_runs ADD COLUMN txid xid8;
ALTER TABLE jobs.job_runs ALTER COLUMN txid SET DEFAULT pg_current_xact_id();

-- It is of the row, not of the saga: one that is restored from the archive has a new one.
CREATE OR REPLACE FUNCTION saga.column_list(of_table regclass, generated boolean) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
     WHERE attrelid = of_table AND attnum > 0 AND NOT attisdropped AND (generated OR attgenerated = '')
       AND attname NOT IN ('restored_at', 'txid')
$$;

-- The views for lists show what they showed, and the new column.
-- +migrate StatementBegin
DO $$
DECLARE
    v record;
    columns text;
BEGIN
    FOR v IN SELECT x.name, x.of_table, x.t FROM (VALUES ('saga.tenant_metadata', 'saga.saga_states', 's'), ('jobs.tenant_runs', 'jobs.job_runs', 'r')) AS x (name, of_table, t) LOOP
        SELECT string_agg(v.t || '.' || quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO columns
          FROM pg_attribute a WHERE a.attrelid = v.name::regclass AND a.attnum > 0 AND NOT a.attisdropped;
        EXECUTE format('CREATE OR REPLACE VIEW %1$s AS SELECT %2$s, %4$s.txid FROM %3$s %4$s
            WHERE %4$s.tenant_id = (SELECT nullif(current_setting(''skald.tenant_id'', true), '''')::uuid)', v.name, columns, v.of_table, v.t);
    END LOOP;
END;
$$;
-- +migrate StatementEnd

ALTER TABLE saga.saga_bulks
    ALTER COLUMN expected DROP NOT NULL, ALTER COLUMN expected DROP DEFAULT,
    ADD COLUMN covers      pg_snapshot,                     -- NULL: requested before this migration
    ADD COLUMN halts_above bigint,                          -- more than this halt it; NULL: any number is right
    ADD COLUMN halt_reason varchar(20) NOT NULL DEFAULT '',
    ADD COLUMN found       bigint,                          -- when it halted
    DROP CONSTRAINT saga_bulks_state_check, DROP CONSTRAINT saga_bulks_check,
    ADD CONSTRAINT chk_saga_bulks_state CHECK (state IN ('RUNNING', 'HALTED', 'COMPLETED', 'CANCELED')),
    ADD CONSTRAINT chk_saga_bulks_ended CHECK ((state IN ('RUNNING', 'HALTED')) = (ended_at IS NULL));
ALTER TABLE jobs.bulks
    ADD COLUMN covers      pg_snapshot,
    ADD COLUMN expected    bigint,
    ADD COLUMN halts_above bigint,
    ADD COLUMN halt_reason varchar(20) NOT NULL DEFAULT '',
    ADD COLUMN found       bigint,
    DROP CONSTRAINT bulks_state_check, DROP CONSTRAINT bulks_check,
    ADD CONSTRAINT chk_bulks_state CHECK (state IN ('RUNNING', 'HALTED', 'COMPLETED', 'CANCELED')),
    ADD CONSTRAINT chk_bulks_ended CHECK ((state IN ('RUNNING', 'HALTED')) = (ended_at IS NULL));
ALTER TABLE jobs.backfills
    ADD COLUMN schedule    jsonb,                           -- schedule.Spec; NULL: that of the definition
    ADD COLUMN expected    bigint,
    ADD COLUMN halts_above bigint,
    ADD COLUMN halt_reason varchar(20) NOT NULL DEFAULT '',
    ADD COLUMN found       bigint,
    DROP CONSTRAINT backfills_state_check, DROP CONSTRAINT backfills_check,
    ADD CONSTRAINT chk_backfills_state CHECK (state IN ('RUNNING', 'HALTED', 'COMPLETED', 'CANCELED')),
    ADD CONSTRAINT chk_backfills_ended CHECK ((state IN ('RUNNING', 'HALTED')) = (ended_at IS NULL));
SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (320, 'which sagas and runs bulk operations are for');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 320;
UPDATE jobs.backfills SET state = 'CANCELED', ended_at = now() WHERE state = 'HALTED';
UPDATE jobs.bulks SET state = 'CANCELED', ended_at = now() WHERE state = 'HALTED';
UPDATE saga.saga_bulks SET state = 'CANCELED', ended_at = now() WHERE state = 'HALTED';
ALTER TABLE jobs.backfills
    DROP CONSTRAINT chk_backfills_state, DROP CONSTRAINT chk_backfills_ended,
    DROP COLUMN schedule, DROP COLUMN expected, DROP COLUMN halts_above, DROP COLUMN halt_reason, DROP COLUMN found,
    ADD CONSTRAINT backfills_state_check CHECK (state IN ('RUNNING', 'COMPLETED', 'CANCELED')),
    ADD CONSTRAINT backfills_check CHECK ((state = 'RUNNING') = (ended_at IS NULL));
ALTER TABLE jobs.bulks
    DROP CONSTRAINT chk_bulks_state, DROP CONSTRAINT chk_bulks_ended,
    DROP COLUMN covers, DROP COLUMN expected, DROP COLUMN halts_above, DROP COLUMN halt_reason, DROP COLUMN found,
    ADD CONSTRAINT bulks_state_check CHECK (state IN ('RUNNING', 'COMPLETED', 'CANCELED')),
    ADD CONSTRAINT bulks_check CHECK ((state = 'RUNNING') = (ended_at IS NULL));
UPDATE saga.saga_bulks SET expected = 0 WHERE expected IS NULL;
ALTER TABLE saga.saga_bulks
    ALTER COLUMN expected SET DEFAULT 0, ALTER COLUMN expected SET NOT NULL,
    DROP CONSTRAINT chk_saga_bulks_state, DROP CONSTRAINT chk_saga_bulks_ended,
    DROP COLUMN covers, DROP COLUMN halts_above, DROP COLUMN halt_reason, DROP COLUMN found,
    ADD CONSTRAINT saga_bulks_state_check CHECK (state IN ('RUNNING', 'COMPLETED', 'CANCELED')),
    ADD CONSTRAINT saga_bulks_check CHECK ((state = 'RUNNING') = (ended_at IS NULL));
-- +migrate StatementBegin
DO $$
DECLARE
    v record;
    columns text;
BEGIN
    FOR v IN SELECT x.name, x.of_table, x.t FROM (VALUES ('saga.tenant_metadata', 'saga.saga_states', 's'), ('jobs.tenant_runs', 'jobs.job_runs', 'r')) AS x (name, of_table, t) LOOP
        SELECT string_agg(v.t || '.' || quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO columns
          FROM pg_attribute a WHERE a.attrelid = v.name::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'txid';
        EXECUTE format('DROP VIEW %s', v.name);
        EXECUTE format('CREATE VIEW %1$s AS SELECT %2$s FROM %3$s %4$s
            WHERE %4$s.tenant_id = (SELECT nullif(current_setting(''skald.tenant_id'', true), '''')::uuid)', v.name, columns, v.of_table, v.t);
    END LOOP;
END;
$$;
-- +migrate StatementEnd
CREATE OR REPLACE FUNCTION saga.column_list(of_table regclass, generated boolean) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
     WHERE attrelid = of_table AND attnum > 0 AND NOT attisdropped AND (generated OR attgenerated = '')
       AND attname <> 'restored_at'
$$;
SELECT saga.secure_tables();
ALTER TABLE jobs.job_runs DROP COLUMN txid;
ALTER TABLE saga.saga_states DROP COLUMN txid;
