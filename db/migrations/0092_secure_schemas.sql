-- Roles and row-level security for all our schemas, not saga alone: what 0090
-- says of one now holds for each that there is. Views whose name begins with
-- tenant_ read as their owner and are their own fence, as tenant_metadata does.

-- +migrate Up
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.secure_tables() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    -- In a sub-select it is evaluated once per statement, and it is nothing to
    -- estimate by: prepared reads are planned before their tenant is named, and
    -- the planner would take the index of a tenant that has no rows.
    own_rows constant text := $own$(tenant_id = (SELECT nullif(current_setting('skald.tenant_id', true), '')::uuid))$own$;
    t record;
    f record;
    visible text;
    s name; -- of our schemas
BEGIN
    IF (SELECT count(*) FROM pg_roles WHERE rolname IN ('saga_app_role', 'saga_engine_role', 'saga_readonly_role')) < 3
       OR NOT pg_has_role(current_user, 'saga_engine_role', 'USAGE') THEN
        RETURN false;
    END IF;

    FOR s IN SELECT nspname FROM pg_namespace WHERE nspname IN ('saga', 'dlq', 'jobs') ORDER BY nspname DESC LOOP
        EXECUTE format('REVOKE ALL ON SCHEMA %1$I FROM PUBLIC', s);
        EXECUTE format('GRANT USAGE ON SCHEMA %1$I TO saga_app_role, saga_engine_role, saga_readonly_role', s);
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %1$I FROM PUBLIC, saga_app_role, saga_engine_role, saga_readonly_role', s);
        EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA %1$I FROM PUBLIC, saga_app_role, saga_engine_role, saga_readonly_role', s);
        EXECUTE format('REVOKE ALL ON ALL ROUTINES IN SCHEMA %1$I FROM PUBLIC, saga_app_role, saga_engine_role, saga_readonly_role', s);
        -- serial columns cannot be inserted into without (trap X4).
        EXECUTE format('GRANT USAGE ON ALL SEQUENCES IN SCHEMA %1$I TO saga_app_role, saga_engine_role', s);
        EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %1$I TO saga_engine_role, saga_readonly_role', s);
        EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA %1$I GRANT SELECT ON TABLES TO saga_readonly_role', s);

        FOR t IN
            SELECT c.oid::regclass AS name, c.relname, c.relrowsecurity AND c.relforcerowsecurity AS secured,
                   c.relname IN ('saga_events', 'saga_events_archive') OR c.relname LIKE 'audit\_%' AS append_only,
                   c.relname LIKE '%\_archive' AS archive,
                   EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped) AS has_tenant
              FROM pg_class c WHERE c.relnamespace = s::text::regnamespace AND c.relkind IN ('r', 'p') ORDER BY c.relname
        LOOP
            EXECUTE format('GRANT INSERT ON %s TO saga_engine_role', t.name);
            IF NOT t.append_only THEN
                EXECUTE format('GRANT UPDATE, DELETE ON %s TO saga_engine_role', t.name);
            END IF;
            -- Step logs are their saga's, and a saga's row is visible or not. Not EXISTS:
            -- the planner would hash all sagas of the tenant for the logs of one.
            visible := CASE
                WHEN t.has_tenant THEN own_rows
                WHEN t.relname = 'saga_step_logs' THEN '((SELECT true FROM saga.saga_states s WHERE s.id = saga_id))'
                WHEN t.relname = 'saga_step_logs_archive' THEN '((SELECT true FROM saga.saga_states_archive s WHERE s.id = saga_id))' END;
            CONTINUE WHEN visible IS NULL;
            EXECUTE format('GRANT SELECT ON %s TO saga_app_role', t.name);
            IF NOT t.archive THEN
                EXECUTE format('GRANT INSERT ON %s TO saga_app_role', t.name);
            END IF;
            IF NOT t.archive AND NOT t.append_only THEN
                EXECUTE format('GRANT UPDATE, DELETE ON %s TO saga_app_role', t.name);
            END IF;
            IF NOT t.secured THEN
                EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', t.name);
                EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', t.name);
            END IF;
            -- Permissive: with restrictive ones alone nothing is visible (trap X3).
            IF NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = t.name AND p.polname = 'tenant_rows') THEN
                EXECUTE format('CREATE POLICY tenant_rows ON %s TO saga_app_role USING %s WITH CHECK %s', t.name, visible, visible);
                EXECUTE format('CREATE POLICY engine_rows ON %s TO saga_engine_role USING (true) WITH CHECK (true)', t.name);
                EXECUTE format('CREATE POLICY readonly_rows ON %s FOR SELECT TO saga_readonly_role USING (true)', t.name);
            END IF;
        END LOOP;

        -- Keys that sign and hashes of keys are nothing to read reports with; those
        -- of no tenant are nothing for whoever acts for one.
        FOR t IN SELECT c.oid::regclass AS name,
                        EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped) AS has_tenant FROM pg_class c
                  WHERE c.relnamespace = s::text::regnamespace AND c.relkind IN ('r', 'p') AND (c.relname LIKE '%\_secrets' OR c.relname = 'api_keys') LOOP
            EXECUTE format('REVOKE ALL ON %s FROM saga_readonly_role', t.name);
            IF NOT t.has_tenant THEN
                EXECUTE format('REVOKE ALL ON %s FROM saga_app_role', t.name);
            END IF;
        END LOOP;

        -- A view reads as its owner, who sees everything, unless it is told otherwise.
        FOR t IN SELECT c.oid::regclass AS name, c.relname, c.reloptions FROM pg_class c WHERE c.relnamespace = s::text::regnamespace AND c.relkind = 'v' LOOP
            IF t.relname NOT LIKE 'tenant\_%' AND NOT coalesce(t.reloptions @> ARRAY['security_invoker=true'], false) THEN
                EXECUTE format('ALTER VIEW %s SET (security_invoker = true)', t.name);
            END IF;
            EXECUTE format('GRANT SELECT ON %s TO saga_app_role', t.name);
        END LOOP;

        -- What moves rows to and fro between live tables and archives runs as its
        -- owner, because no role may delete from all of them; it does so for every
        -- tenant, so only the engine may call it. Procedures that commit cannot.
        FOR f IN SELECT p.oid::regprocedure AS name, p.prokind = 'f' AND p.proname ~ '^(cleanup|archive|restore|purge)_' AS moves, p.prosecdef, p.prorettype = 'trigger'::regtype AS is_trigger, p.prokind = 'p' AS is_procedure,
                        p.provolatile <> 'v' AS reads
                   FROM pg_proc p WHERE p.pronamespace = s::text::regnamespace AND p.prokind IN ('f', 'p') AND p.proname <> 'secure_tables' LOOP
            CONTINUE WHEN f.is_trigger;
            EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO saga_engine_role', f.name);
            CONTINUE WHEN f.is_procedure;
            IF f.moves THEN
                EXECUTE format('ALTER ROUTINE %s SECURITY DEFINER', f.name);
                CONTINUE;
            END IF;
            -- Others with their owner's rights are for the engine too, unless they only read.
            IF f.reads OR NOT f.prosecdef THEN
                EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO saga_app_role', f.name);
            END IF;
            IF f.reads THEN
                EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO saga_readonly_role', f.name);
            END IF;
        END LOOP;
    END LOOP;

    REVOKE INSERT, UPDATE, DELETE ON saga.saga_schema_version FROM saga_engine_role;
    GRANT SELECT ON saga.saga_schema_version TO saga_app_role;
    IF to_regclass('saga.saga_counts_horizon') IS NOT NULL THEN -- how far statistics have come
        GRANT SELECT ON saga.saga_counts_horizon TO saga_app_role;
    END IF;

    -- The record of applied migrations, which every node checks at its start.
    IF to_regclass('skald.schema_migrations') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA skald TO saga_engine_role, saga_readonly_role;
        GRANT SELECT ON skald.schema_migrations TO saga_engine_role, saga_readonly_role;
    END IF;
    RETURN true;
END;
$$;
-- +migrate StatementEnd
SELECT saga.secure_tables();

-- What operators do to anything but sagas (GET /audit). Append-only, by its
-- name and the grants that follow from it.
CREATE TABLE saga.audit_actions (
    id         uuid         PRIMARY KEY, -- UUIDv7
    tenant_id  uuid         NOT NULL,
    at         timestamptz  NOT NULL,
    kind       varchar(30)  NOT NULL,
    subject    varchar(255) NOT NULL,
    verb       varchar(30)  NOT NULL,
    actor      varchar(255) NOT NULL DEFAULT '',
    reason     text         NOT NULL DEFAULT '',
    request_id varchar(128) NOT NULL DEFAULT '',
    detail     jsonb
);
CREATE INDEX idx_audit_actions_at ON saga.audit_actions (tenant_id, at DESC, id DESC);
CREATE INDEX idx_audit_actions_subject ON saga.audit_actions (tenant_id, subject, at DESC, id DESC);
SELECT saga.secure_tables();

INSERT INTO saga.saga_schema_version (version, description) VALUES (92, 'actions of operators; roles for all schemas');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 92;
DROP TABLE saga.audit_actions;
-- The function stays as it is: with schema saga alone it does what the one of 0090 did.
