-- The archive of audit events (docs/decisions/0061). Whole seals move, the oldest
-- first, so that the chain can be verified wherever its events are; the seals stay.
-- The archive is partitioned by the month of the events, and forgets whole months.
-- Nothing happens unless retention.events is set.

-- +migrate Up
CREATE TABLE saga.audit_events_archive (
    LIKE saga.audit_events,
    archived_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (saga_id, id, timestamp)
) PARTITION BY RANGE (timestamp);
CREATE INDEX idx_audit_events_archive_feed ON saga.audit_events_archive (tenant_id, txid, id);
CREATE INDEX idx_audit_events_archive_trace_id ON saga.audit_events_archive (trace_id, id) WHERE trace_id IS NOT NULL;
-- For times that belong to no month, such as infinity.
CREATE TABLE saga.audit_events_rest_archive PARTITION OF saga.audit_events_archive DEFAULT;

-- How far each tenant's chain is archived, and how far the archive was purged.
CREATE TABLE saga.audit_progress_archive (
    tenant_id     uuid        PRIMARY KEY,
    seq           bigint      NOT NULL DEFAULT 0,   -- the events of the seals up to this one are in the archive
    to_txid       xid8        NOT NULL DEFAULT '0', -- the last of these events
    to_id         bigint      NOT NULL DEFAULT 0,
    purged_seq    bigint      NOT NULL DEFAULT 0,   -- of the seals up to this one events may be gone
    purged_events bigint      NOT NULL DEFAULT 0,
    purged_at     timestamptz,
    CHECK (purged_seq <= seq)
);

CREATE TRIGGER guard_audit_events_archive BEFORE UPDATE OR DELETE OR TRUNCATE ON saga.audit_events_archive
    FOR EACH STATEMENT EXECUTE FUNCTION saga.refuse_audit_change();
CREATE TRIGGER guard_audit_events_archive BEFORE UPDATE OR DELETE OR TRUNCATE ON saga.audit_events_rest_archive
    FOR EACH STATEMENT EXECUTE FUNCTION saga.refuse_audit_change();

-- Live events may be deleted when the archive has them, and then only.
-- +migrate StatementBegin
CREATE FUNCTION saga.refuse_audit_loss() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    lost boolean := true;
BEGIN
    IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RETURN NULL;
    END IF;
    BEGIN
        lost := EXISTS (SELECT FROM gone g WHERE NOT EXISTS (SELECT FROM saga.audit_events_archive a
            WHERE a.saga_id = g.saga_id AND a.id = g.id AND a.timestamp = g.timestamp AND a.tenant_id = g.tenant_id
              AND a.txid = g.txid AND a.digest = g.digest));
    EXCEPTION WHEN insufficient_privilege THEN -- whoever cannot look must not delete
    END;
    IF lost THEN
        RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END;
$$;
-- +migrate StatementEnd
DROP TRIGGER guard_audit_events ON saga.audit_events;
CREATE TRIGGER guard_audit_events BEFORE UPDATE OR TRUNCATE ON saga.audit_events
    FOR EACH STATEMENT EXECUTE FUNCTION saga.refuse_audit_change();
CREATE TRIGGER guard_audit_events_archived AFTER DELETE ON saga.audit_events REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION saga.refuse_audit_loss();

-- All events, wherever they are: a saga's history, and what a seal covers.
CREATE VIEW saga.every_audit_event WITH (security_invoker = true) AS
SELECT id, saga_id, tenant_id, txid, timestamp, step_index, attempt, old_state, new_state, event_type, step_name, digest,
       actor, request_id, event_data, error, trace_id, span_id FROM saga.audit_events
UNION ALL
SELECT id, saga_id, tenant_id, txid, timestamp, step_index, attempt, old_state, new_state, event_type, step_name, digest,
       actor, request_id, event_data, error, trace_id, span_id FROM saga.audit_events_archive;

-- The partition of a month, made when its first event arrives, with the rights and
-- policies that saga.secure_tables() gives such a table.
-- +migrate StatementBegin
CREATE FUNCTION saga.archive_month(month timestamp) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '5s' AS $$
DECLARE
    part text := 'audit_events_' || to_char(month, 'YYYY_MM') || '_archive';
    own text := '(tenant_id = (SELECT nullif(current_setting(''skald.tenant_id'', true), '''')::uuid))';
BEGIN
    IF to_regclass('saga.' || part) IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('saga.audit_events_archive', 0)); -- one node makes it
    IF to_regclass('saga.' || part) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE saga.%I PARTITION OF saga.audit_events_archive FOR VALUES FROM (%L) TO (%L)', part,
                   month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC');
    EXECUTE format('CREATE TRIGGER guard_audit_events_archive BEFORE UPDATE OR DELETE OR TRUNCATE ON saga.%I
                    FOR EACH STATEMENT EXECUTE FUNCTION saga.refuse_audit_change()', part);
    IF (SELECT relrowsecurity FROM pg_class WHERE oid = 'saga.audit_events_archive'::regclass) THEN
        EXECUTE format('REVOKE ALL ON saga.%I FROM PUBLIC', part);
        EXECUTE format('GRANT SELECT ON saga.%I TO saga_app_role, saga_engine_role, saga_readonly_role', part);
        EXECUTE format('GRANT INSERT ON saga.%I TO saga_engine_role', part);
        EXECUTE format('ALTER TABLE saga.%I ENABLE ROW LEVEL SECURITY', part);
        EXECUTE format('ALTER TABLE saga.%I FORCE ROW LEVEL SECURITY', part);
        EXECUTE format('CREATE POLICY tenant_rows ON saga.%I TO saga_app_role USING %s WITH CHECK %s', part, own, own);
        EXECUTE format('CREATE POLICY engine_rows ON saga.%I TO saga_engine_role USING (true) WITH CHECK (true)', part);
        EXECUTE format('CREATE POLICY readonly_rows ON saga.%I FOR SELECT TO saga_readonly_role USING (true)', part);
    END IF;
END;
$$;
-- +migrate StatementEnd

-- Moves the events of a tenant's oldest seal that is not archived to the archive, if it
-- was sealed before older_than and webhooks and publications have read them. Returns
-- how many; 0: there is nothing to move, or another node is at it.
-- +migrate StatementBegin
CREATE FUNCTION saga.archive_audit_events(of_tenant uuid, older_than timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    done record;
    next record;
    month timestamp;
    columns text;
    moved integer;
BEGIN
    SELECT s.seq, s.sealed_at, s.events, s.to_txid, s.to_id INTO next FROM saga.audit_seals s
     WHERE s.tenant_id = of_tenant AND s.seq = coalesce((SELECT p.seq FROM saga.audit_progress_archive p WHERE p.tenant_id = of_tenant), 0) + 1;
    IF NOT FOUND OR next.sealed_at >= older_than
       OR EXISTS (SELECT FROM saga.webhooks w WHERE w.tenant_id = of_tenant AND w.enabled
                     AND (w.cursor_txid, w.cursor_id) < (next.to_txid, next.to_id))
       OR EXISTS (SELECT FROM saga.publication_cursors c JOIN saga.publications p ON p.name = c.name
                   WHERE c.tenant_id = of_tenant AND p.lease_until > now() - interval '7 days'
                     AND (c.txid, c.id) < (next.to_txid, next.to_id)) THEN
        RETURN 0;
    END IF;
    INSERT INTO saga.audit_progress_archive (tenant_id) VALUES (of_tenant) ON CONFLICT DO NOTHING;
    SELECT p.to_txid, p.to_id INTO done FROM saga.audit_progress_archive p WHERE p.tenant_id = of_tenant AND p.seq = next.seq - 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    FOR month IN SELECT DISTINCT date_trunc('month', e.timestamp AT TIME ZONE 'UTC') FROM saga.audit_events e
                  WHERE e.tenant_id = of_tenant AND (e.txid, e.id) > (done.to_txid, done.to_id) AND (e.txid, e.id) <= (next.to_txid, next.to_id)
                    AND isfinite(e.timestamp) LOOP
        PERFORM saga.archive_month(month);
    END LOOP;
    -- By name: a column that a later migration adds moves along, or nothing moves.
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) INTO columns FROM pg_attribute
     WHERE attrelid = 'saga.audit_events'::regclass AND attnum > 0 AND NOT attisdropped;
    EXECUTE format('INSERT INTO saga.audit_events_archive (%1$s) SELECT %1$s FROM saga.audit_events e
                     WHERE e.tenant_id = $1 AND (e.txid, e.id) > ($2, $3) AND (e.txid, e.id) <= ($4, $5)', columns)
      USING of_tenant, done.to_txid, done.to_id, next.to_txid, next.to_id;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved <> next.events THEN
        RAISE EXCEPTION 'seal % of tenant % covers % audit events, and there are %: nothing is archived; run `skald audit verify`',
            next.seq, of_tenant, next.events, moved USING ERRCODE = 'check_violation';
    END IF;
    DELETE FROM saga.audit_events e
     WHERE e.tenant_id = of_tenant AND (e.txid, e.id) > (done.to_txid, done.to_id) AND (e.txid, e.id) <= (next.to_txid, next.to_id);
    UPDATE saga.audit_progress_archive p SET seq = next.seq, to_txid = next.to_txid, to_id = next.to_id WHERE p.tenant_id = of_tenant;
    RETURN moved;
END;
$$;
-- +migrate StatementEnd

-- Drops the oldest month of the archive that ended before older_than, and notes up to
-- which seal events are gone. Returns a row for each tenant that had some.
-- +migrate StatementBegin
CREATE FUNCTION saga.purge_audit_events(older_than timestamptz) RETURNS TABLE (of_tenant uuid, purged bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '5s' AS $$
DECLARE
    part regclass;
    gone record;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('saga.purge_audit_events', 0)) THEN
        RETURN; -- another node is at it
    END IF;
    SELECT c.oid INTO part FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = 'saga.audit_events_archive'::regclass AND c.relname ~ '^audit_events_\d{4}_\d{2}_archive$'
       AND (to_date(substring(c.relname FROM '\d{4}_\d{2}'), 'YYYY_MM') + interval '1 month') AT TIME ZONE 'UTC' <= older_than
     ORDER BY c.relname LIMIT 1;
    IF part IS NULL THEN
        RETURN;
    END IF;
    FOR gone IN EXECUTE format('SELECT tenant_id, count(*) AS n, max(txid) AS txid FROM %s GROUP BY tenant_id', part) LOOP
        UPDATE saga.audit_progress_archive p
           SET purged_events = p.purged_events + gone.n, purged_at = now(),
               purged_seq = greatest(p.purged_seq, (SELECT max(s.seq) FROM saga.audit_seals s
                 WHERE s.tenant_id = gone.tenant_id AND s.seq > p.purged_seq AND s.seq <= p.seq AND s.from_txid <= gone.txid))
         WHERE p.tenant_id = gone.tenant_id;
        of_tenant := gone.tenant_id;
        purged := gone.n;
        RETURN NEXT;
    END LOOP;
    EXECUTE format('DROP TABLE %s', part);
END;
$$;
-- +migrate StatementEnd

-- After a restore, new events follow the archived ones too. The function is otherwise
-- as migration 0153 has it.
-- +migrate StatementBegin
DO $$
DECLARE
    was text := pg_get_functiondef('saga.advance_feed()'::regprocedure);
    becomes text := replace(was, 'IF last IS NULL OR last < clock THEN',
        'last := greatest(last, (SELECT max(p.to_txid::text::bigint) FROM saga.audit_progress_archive p));
        IF last IS NULL OR last < clock THEN');
BEGIN
    ASSERT becomes <> was, 'saga.advance_feed() is not what was expected';
    EXECUTE becomes;
END;
$$;
-- +migrate StatementEnd

INSERT INTO saga.saga_schema_version (version, description) VALUES (182, 'the archive of audit events');

-- +migrate Down
-- +migrate StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM saga.audit_progress_archive WHERE seq > 0) THEN
        RAISE EXCEPTION 'audit events are in the archive, and the schema before 0182 would lose them: this migration cannot be reverted';
    END IF;
    EXECUTE replace(pg_get_functiondef('saga.advance_feed()'::regprocedure),
        'last := greatest(last, (SELECT max(p.to_txid::text::bigint) FROM saga.audit_progress_archive p));
        IF last IS NULL OR last < clock THEN', 'IF last IS NULL OR last < clock THEN');
END;
$$;
-- +migrate StatementEnd
DELETE FROM saga.saga_schema_version WHERE version = 182;
DROP VIEW IF EXISTS saga.every_audit_event;
DROP TRIGGER IF EXISTS guard_audit_events_archived ON saga.audit_events;
DROP TRIGGER IF EXISTS guard_audit_events ON saga.audit_events;
CREATE TRIGGER guard_audit_events BEFORE UPDATE OR DELETE OR TRUNCATE ON saga.audit_events
    FOR EACH STATEMENT EXECUTE FUNCTION saga.refuse_audit_change();
DROP FUNCTION IF EXISTS saga.purge_audit_events(timestamptz);
DROP FUNCTION IF EXISTS saga.archive_audit_events(uuid, timestamptz);
DROP FUNCTION IF EXISTS saga.archive_month(timestamp);
DROP TABLE IF EXISTS saga.audit_progress_archive, saga.audit_events_archive;
DROP FUNCTION IF EXISTS saga.refuse_audit_loss();
