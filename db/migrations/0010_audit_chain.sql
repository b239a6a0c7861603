-- The feed of audit events after a restore (docs/decisions/0014).
--
-- Its order is that of transaction ids, which a dump carries along and a new
-- cluster begins anew: restored events would lie in its future, hidden, and new
-- ones would come before them. So the ids that are written run ahead of the
-- cluster's own by a fixed number, 0 until there was a restore.

-- +migrate Up
CREATE TABLE saga.feed_clock (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    ahead bigint  NOT NULL CHECK (ahead >= 0)
);
INSERT INTO saga.feed_clock (ahead) VALUES (0);

-- Nothing below it can be written any more. With the right of the owner,
-- because whoever may read events need not have any on the clock.
-- +migrate StatementBegin
CREATE FUNCTION saga.feed_horizon() RETURNS xid8
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::bigint + ahead)::text::xid8 FROM saga.feed_clock;
$$;
-- +migrate StatementEnd

-- Puts the clock ahead if events are there that this cluster cannot have
-- written, and returns by how much. Every node asks for it before it writes.
-- +migrate StatementBegin
CREATE FUNCTION saga.advance_feed() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    last bigint;
    clock bigint;
    locked boolean := false;
BEGIN
    -- Callers take turns: two that have read both, and then both want the table
    -- alone, would wait for each other.
    PERFORM one.ahead FROM saga.feed_clock one FOR UPDATE;
    LOOP
        WITH RECURSIVE tenants AS (
            (SELECT tenant_id FROM saga.audit_events ORDER BY tenant_id LIMIT 1)
            UNION ALL
            SELECT (SELECT e.tenant_id FROM saga.audit_events e WHERE e.tenant_id > t.tenant_id ORDER BY e.tenant_id LIMIT 1)
              FROM tenants t WHERE t.tenant_id IS NOT NULL
        )
        SELECT max((SELECT e.txid FROM saga.audit_events e WHERE e.tenant_id = t.tenant_id
                     ORDER BY e.txid DESC, e.id DESC LIMIT 1)::text::bigint) INTO last FROM tenants t;
        SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint + ahead INTO clock FROM saga.feed_clock;
        IF last IS NULL OR last < clock THEN
            RETURN 0;
        END IF;
        EXIT WHEN locked;
        -- Nobody writes meanwhile.
        LOCK TABLE saga.audit_events IN ACCESS EXCLUSIVE MODE;
        locked := true;
    END LOOP;
    UPDATE saga.feed_clock SET ahead = ahead + last + 1 - clock;
    EXECUTE (SELECT format('ALTER TABLE saga.audit_events ALTER COLUMN txid SET DEFAULT (pg_current_xact_id()::text::bigint + %s)::text::xid8', ahead)
               FROM saga.feed_clock);
    RETURN last + 1 - clock;
END;
$$;
-- +migrate StatementEnd

INSERT INTO saga.saga_schema_version (version, description) VALUES (10, 'the feed after a restore');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 10;
DROP FUNCTION IF EXISTS saga.advance_feed();
DROP FUNCTION IF EXISTS saga.feed_horizon();
ALTER TABLE saga.audit_events ALTER COLUMN txid SET DEFAULT pg_current_xact_id();
DROP TABLE IF EXISTS saga.feed_clock;
