-- Who may do what inside the database, and row-level security as the second
-- fence between tenants (docs/decisions/0022, docs/tenants.md). The first one
-- is WHERE tenant_id in every statement.
--
-- Nothing here is a list of tables: secure_tables() looks at what there is, so
-- that it also covers tables of later migrations, after each of which Skald
-- calls it again. A table without tenant_id gets no grant to the application
-- role unless it is named below.

-- +migrate Up
-- The roles belong to the cluster: other databases share them, and may make
-- them at this very moment. A login without CREATEROLE makes none; then an
-- administrator runs what `skald migrate roles` prints.
-- +migrate StatementBegin
DO $$
DECLARE
    wanted name;
    attempt integer;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['saga_app_role', 'saga_engine_role', 'saga_readonly_role']::name[] LOOP
        FOR attempt IN 1..20 LOOP
            BEGIN
                IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
                    EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
                END IF;
                -- A superuser is a member of everything without being one.
                IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
                   AND NOT EXISTS (SELECT FROM pg_auth_members m WHERE m.roleid = wanted::regrole AND m.member = current_user::regrole
                                      AND pg_has_role(m.member, m.roleid, 'USAGE')) THEN
                    EXECUTE format('GRANT %I TO CURRENT_USER', wanted);
                END IF;
                EXIT;
            EXCEPTION
                WHEN insufficient_privilege THEN
                    EXIT; -- the administrator's turn
                WHEN duplicate_object OR unique_violation OR internal_error OR undefined_object THEN
                    PERFORM pg_sleep(0.01 * attempt); -- somebody else is at it ("tuple concurrently updated")
            END;
        END LOOP;
    END LOOP;
END;
$$;
-- +migrate StatementEnd

-- Grants and policies for everything in schema saga; callable any time, by the
-- owner of the tables. False when the roles do not exist, or when the owner is
-- neither a superuser nor a member of the engine's role: FORCE would then hide
-- its own tables from it, and from the functions that run as it.
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
BEGIN
    IF (SELECT count(*) FROM pg_roles WHERE rolname IN ('saga_app_role', 'saga_engine_role', 'saga_readonly_role')) < 3
       OR NOT pg_has_role(current_user, 'saga_engine_role', 'USAGE') THEN
        RETURN false;
    END IF;

    REVOKE ALL ON SCHEMA saga FROM PUBLIC;
    GRANT USAGE ON SCHEMA saga TO saga_app_role, saga_engine_role, saga_readonly_role;
    REVOKE ALL ON ALL TABLES IN SCHEMA saga FROM PUBLIC, saga_app_role, saga_engine_role, saga_readonly_role;
    REVOKE ALL ON ALL SEQUENCES IN SCHEMA saga FROM PUBLIC, saga_app_role, saga_engine_role, saga_readonly_role;
    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA saga FROM PUBLIC, saga_app_role, saga_engine_role, saga_readonly_role;
    -- serial columns cannot be inserted into without (trap X4).
    GRANT USAGE ON ALL SEQUENCES IN SCHEMA saga TO saga_app_role, saga_engine_role;
    GRANT SELECT ON ALL TABLES IN SCHEMA saga TO saga_engine_role, saga_readonly_role;
    ALTER DEFAULT PRIVILEGES IN SCHEMA saga GRANT SELECT ON TABLES TO saga_readonly_role;

    FOR t IN
        SELECT c.oid::regclass AS name, c.relname, c.relrowsecurity AND c.relforcerowsecurity AS secured,
               c.relname IN ('saga_events', 'saga_events_archive') OR c.relname LIKE 'audit\_%' AS append_only,
               c.relname LIKE '%\_archive' AS archive,
               EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped) AS has_tenant
          FROM pg_class c WHERE c.relnamespace = 'saga'::regnamespace AND c.relkind IN ('r', 'p') ORDER BY c.relname
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

    REVOKE INSERT, UPDATE, DELETE ON saga.saga_schema_version FROM saga_engine_role;
    GRANT SELECT ON saga.saga_schema_version TO saga_app_role;
    IF to_regclass('saga.saga_counts_horizon') IS NOT NULL THEN -- how far statistics have come
        GRANT SELECT ON saga.saga_counts_horizon TO saga_app_role;
    END IF;
    -- Keys that sign and hashes of keys are nothing to read reports with; those
    -- of no tenant are nothing for whoever acts for one.
    FOR t IN SELECT c.oid::regclass AS name,
                    EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped) AS has_tenant FROM pg_class c
              WHERE c.relnamespace = 'saga'::regnamespace AND c.relkind IN ('r', 'p') AND (c.relname LIKE '%\_secrets' OR c.relname = 'api_keys') LOOP
        EXECUTE format('REVOKE ALL ON %s FROM saga_readonly_role', t.name);
        IF NOT t.has_tenant THEN
            EXECUTE format('REVOKE ALL ON %s FROM saga_app_role', t.name);
        END IF;
    END LOOP;

    -- A view reads as its owner, who sees everything, unless it is told otherwise.
    FOR t IN SELECT c.oid::regclass AS name, c.relname, c.reloptions FROM pg_class c WHERE c.relnamespace = 'saga'::regnamespace AND c.relkind = 'v' LOOP
        IF t.relname NOT IN ('tenant_metadata', 'tenant_metadata_archive') AND NOT coalesce(t.reloptions @> ARRAY['security_invoker=true'], false) THEN
            EXECUTE format('ALTER VIEW %s SET (security_invoker = true)', t.name);
        END IF;
        EXECUTE format('GRANT SELECT ON %s TO saga_app_role', t.name);
    END LOOP;

    -- What moves rows to and fro between live tables and archives runs as its
    -- owner, because no role may delete from all of them; it does so for every
    -- tenant, so only the engine may call it.
    FOR f IN SELECT p.oid::regprocedure AS name, p.proname ~ '^(cleanup|archive|restore|purge)_' AS moves, p.prosecdef, p.prorettype = 'trigger'::regtype AS is_trigger,
                    p.provolatile <> 'v' AS reads
               FROM pg_proc p WHERE p.pronamespace = 'saga'::regnamespace AND p.prokind = 'f' AND p.proname <> 'secure_tables' LOOP
        CONTINUE WHEN f.is_trigger;
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO saga_engine_role', f.name);
        IF f.moves THEN
            EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', f.name);
            CONTINUE;
        END IF;
        -- Others with their owner's rights are for the engine too, unless they only read.
        IF f.reads OR NOT f.prosecdef THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO saga_app_role', f.name);
        END IF;
        IF f.reads THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO saga_readonly_role', f.name);
        END IF;
    END LOOP;

    -- The record of applied migrations, which every node checks at its start.
    IF to_regclass('skald.schema_migrations') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA skald TO saga_engine_role, saga_readonly_role;
        GRANT SELECT ON skald.schema_migrations TO saga_engine_role, saga_readonly_role;
    END IF;
    RETURN true;
END;
$$;
-- +migrate StatementEnd
REVOKE ALL ON FUNCTION saga.secure_tables() FROM PUBLIC;

-- Metadata of the tenant's sagas. PostgreSQL looks at a row only after its
-- policy has passed, unless the operator is known to leak nothing; of all that
-- lists filter by, @> alone is not known, so that its index would stand idle.
-- This view reads as its owner and is its own fence.
CREATE VIEW saga.tenant_metadata AS
SELECT s.id, s.metadata FROM saga.saga_states s
 WHERE s.tenant_id = (SELECT nullif(current_setting('skald.tenant_id', true), '')::uuid);

CREATE VIEW saga.tenant_metadata_archive AS
SELECT s.id, s.metadata FROM saga.saga_states_archive s
 WHERE s.tenant_id = (SELECT nullif(current_setting('skald.tenant_id', true), '')::uuid);

SELECT saga.secure_tables();

INSERT INTO saga.saga_schema_version (version, description) VALUES (90, 'roles and row-level security');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 90;
-- The roles stay: other databases of the cluster may use them.
-- +migrate StatementBegin
DO $$
DECLARE
    t record;
    roles text;
BEGIN
    FOR t IN SELECT p.polrelid::regclass AS name, p.polname FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
              WHERE c.relnamespace = 'saga'::regnamespace AND p.polname IN ('tenant_rows', 'engine_rows', 'readonly_rows') LOOP
        EXECUTE format('DROP POLICY %I ON %s', t.polname, t.name);
    END LOOP;
    FOR t IN SELECT c.oid::regclass AS name FROM pg_class c
              WHERE c.relnamespace = 'saga'::regnamespace AND c.relkind IN ('r', 'p') AND c.relrowsecurity LOOP
        EXECUTE format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY', t.name);
        EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', t.name);
    END LOOP;
    FOR t IN SELECT c.oid::regclass AS name FROM pg_class c WHERE c.relnamespace = 'saga'::regnamespace AND c.relkind = 'v' LOOP
        EXECUTE format('ALTER VIEW %s RESET (security_invoker)', t.name);
    END LOOP;
    FOR t IN SELECT p.oid::regprocedure AS name FROM pg_proc p
              WHERE p.pronamespace = 'saga'::regnamespace AND p.prosecdef AND p.proname ~ '^(cleanup|archive|restore|purge)_' LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY INVOKER', t.name);
    END LOOP;
    SELECT string_agg(quote_ident(rolname), ', ') INTO roles FROM pg_roles WHERE rolname IN ('saga_app_role', 'saga_engine_role', 'saga_readonly_role');
    IF roles IS NOT NULL THEN
        EXECUTE 'REVOKE ALL ON ALL TABLES IN SCHEMA saga FROM ' || roles;
        EXECUTE 'REVOKE ALL ON ALL SEQUENCES IN SCHEMA saga FROM ' || roles;
        EXECUTE 'REVOKE ALL ON ALL FUNCTIONS IN SCHEMA saga FROM ' || roles;
        EXECUTE 'REVOKE ALL ON SCHEMA saga FROM ' || roles;
        EXECUTE 'ALTER DEFAULT PRIVILEGES IN SCHEMA saga REVOKE ALL ON TABLES FROM ' || roles;
        IF to_regclass('skald.schema_migrations') IS NOT NULL THEN
            EXECUTE 'REVOKE ALL ON skald.schema_migrations FROM ' || roles;
            EXECUTE 'REVOKE ALL ON SCHEMA skald FROM ' || roles;
        END IF;
    END IF;
END;
$$;
-- +migrate StatementEnd
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA saga TO PUBLIC;
DROP VIEW IF EXISTS saga.tenant_metadata, saga.tenant_metadata_archive;
DROP FUNCTION IF EXISTS saga.secure_tables();
