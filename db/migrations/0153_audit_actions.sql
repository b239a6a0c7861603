-- One record of who did what: the actions of operators and of Skald itself on
-- anything but sagas (docs/decisions/0048). Each row now says from where and with
-- which credential, by which operation, what the subject was before and after (as
-- hashes) and what came of it. Rows are numbered, digested and sealed as audit
-- events are (0009, docs/decisions/0014), and for ever.

-- +migrate Up
ALTER TABLE saga.audit_actions
    ADD COLUMN credential_id uuid,                             -- the API key's; NULL: none, or another credential
    ADD COLUMN address       text    NOT NULL DEFAULT '',      -- where the request came from; '': from no network
    ADD COLUMN operation     text    NOT NULL DEFAULT '',      -- operationId of openapi.yaml, or the command
    ADD COLUMN before_hash   bytea,                            -- SHA-256 of the subject as it was; NULL: it was not, or is not hashed
    ADD COLUMN after_hash    bytea,                            -- and as it then is
    ADD COLUMN result        text    NOT NULL DEFAULT 'done',
    ADD COLUMN n             bigserial,                        -- with txid the order of the chain
    ADD COLUMN txid          xid8    NOT NULL DEFAULT '0',     -- rows of before this migration come first
    ADD COLUMN digest        bytea;
COMMENT ON COLUMN saga.audit_actions.digest IS 'SHA-256 of the row''s content, made by saga.stamp_action()';

-- What the digest is of: length and text of each field, "-" for NULL. operator.Digest
-- says the same in Go, and a test holds them together.
-- +migrate StatementBegin
CREATE FUNCTION saga.action_digest(a saga.audit_actions) RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT sha256(convert_to(string_agg(coalesce(octet_length(v)::text || ':' || v, '-'), ',' ORDER BY place), 'UTF8'))
      FROM unnest(ARRAY[
        a.id::text, a.tenant_id::text, (extract(epoch FROM a.at) * 1000000)::bigint::text, a.kind, a.subject, a.verb, a.actor, a.reason, a.request_id,
        a.detail::text, a.credential_id::text, a.address, a.operation, encode(a.before_hash, 'hex'), encode(a.after_hash, 'hex'), a.result
      ]) WITH ORDINALITY AS f (v, place)
$$;
-- +migrate StatementEnd

-- For every writer, also nodes of before this migration, which know of none of it.
-- The clock is not for everybody who may write actions, so with the owner's right.
-- +migrate StatementBegin
CREATE FUNCTION saga.stamp_action() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    SELECT (pg_current_xact_id()::text::bigint + c.ahead)::text::xid8 INTO STRICT NEW.txid FROM saga.feed_clock c;
    NEW.digest := saga.action_digest(NEW);
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd
UPDATE saga.audit_actions a SET digest = saga.action_digest(a);
ALTER TABLE saga.audit_actions ALTER COLUMN digest SET NOT NULL;
CREATE TRIGGER stamp_audit_actions BEFORE INSERT ON saga.audit_actions
    FOR EACH ROW EXECUTE FUNCTION saga.stamp_action();
CREATE TRIGGER guard_audit_actions BEFORE UPDATE OR DELETE OR TRUNCATE ON saga.audit_actions
    FOR EACH STATEMENT EXECUTE FUNCTION saga.refuse_audit_change();

CREATE INDEX idx_audit_actions_chain ON saga.audit_actions (tenant_id, txid, n);
CREATE INDEX idx_audit_actions_request ON saga.audit_actions (tenant_id, request_id) WHERE request_id <> '';

-- As saga.audit_seals, of actions.
CREATE TABLE saga.audit_action_seals (
    tenant_id  uuid        NOT NULL,
    seq        bigint      NOT NULL CHECK (seq >= 1),
    from_txid  xid8        NOT NULL,
    from_id    bigint      NOT NULL,
    to_txid    xid8        NOT NULL,
    to_id      bigint      NOT NULL,
    events     integer     NOT NULL CHECK (events >= 1),
    prev_hash  bytea       NOT NULL,
    hash       bytea       NOT NULL,
    sealed_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, seq)
);
CREATE TRIGGER guard_audit_action_seals BEFORE UPDATE OR DELETE OR TRUNCATE ON saga.audit_action_seals
    FOR EACH STATEMENT EXECUTE FUNCTION saga.refuse_audit_change();

-- Restored actions lie in a new cluster's future as restored events do (0010).
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.advance_feed() RETURNS bigint
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
        ), actors AS (
            (SELECT tenant_id FROM saga.audit_actions ORDER BY tenant_id LIMIT 1)
            UNION ALL
            SELECT (SELECT a.tenant_id FROM saga.audit_actions a WHERE a.tenant_id > t.tenant_id ORDER BY a.tenant_id LIMIT 1)
              FROM actors t WHERE t.tenant_id IS NOT NULL
        )
        SELECT greatest(
            (SELECT max((SELECT e.txid FROM saga.audit_events e WHERE e.tenant_id = t.tenant_id
                          ORDER BY e.txid DESC, e.id DESC LIMIT 1)::text::bigint) FROM tenants t),
            (SELECT max((SELECT a.txid FROM saga.audit_actions a WHERE a.tenant_id = t.tenant_id
                          ORDER BY a.txid DESC, a.n DESC LIMIT 1)::text::bigint) FROM actors t)) INTO last;
        SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint + ahead INTO clock FROM saga.feed_clock;
        IF last IS NULL OR last < clock THEN
            RETURN 0;
        END IF;
        EXIT WHEN locked;
        -- Nobody writes meanwhile.
        LOCK TABLE saga.audit_events, saga.audit_actions IN ACCESS EXCLUSIVE MODE;
        locked := true;
    END LOOP;
    UPDATE saga.feed_clock SET ahead = ahead + last + 1 - clock;
    EXECUTE (SELECT format('ALTER TABLE saga.audit_events ALTER COLUMN txid SET DEFAULT (pg_current_xact_id()::text::bigint + %s)::text::xid8', ahead)
               FROM saga.feed_clock);
    RETURN last + 1 - clock;
END;
$$;
-- +migrate StatementEnd
SELECT saga.secure_tables();

INSERT INTO saga.saga_schema_version (version, description) VALUES (153, 'one record of who did what, sealed');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 153;
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.advance_feed() RETURNS bigint
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
DROP TABLE IF EXISTS saga.audit_action_seals;
DROP TRIGGER IF EXISTS guard_audit_actions ON saga.audit_actions;
DROP TRIGGER IF EXISTS stamp_audit_actions ON saga.audit_actions;
DROP FUNCTION IF EXISTS saga.stamp_action();
DROP FUNCTION IF EXISTS saga.action_digest(saga.audit_actions);
DROP INDEX IF EXISTS saga.idx_audit_actions_request;
DROP INDEX IF EXISTS saga.idx_audit_actions_chain;
ALTER TABLE saga.audit_actions
    DROP COLUMN credential_id, DROP COLUMN address, DROP COLUMN operation, DROP COLUMN before_hash, DROP COLUMN after_hash,
    DROP COLUMN result, DROP COLUMN n, DROP COLUMN txid, DROP COLUMN digest;
