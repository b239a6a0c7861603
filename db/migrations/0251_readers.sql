-- Roles that read one schema and know nothing of the others: dlq_readonly_role the dead
-- letters, jobs_readonly_role the job runs, of all tenants (docs/tenants.md). Skald
-- itself needs neither; where its login may not create roles there are none until an
-- administrator has made them.

-- +migrate Up
-- As in 0090: other databases of the cluster may make them at this very moment.
-- +migrate StatementBegin
DO $$
DECLARE
    wanted name;
    attempt integer;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['dlq_readonly_role', 'jobs_readonly_role']::name[] LOOP
        FOR attempt IN 1..20 LOOP
            BEGIN
                IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
                    EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
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

-- What secure_tables() is for Skald's own roles, which it leaves to that. Callable any
-- time, by the owner of the tables; Skald calls it after each migration.
-- +migrate StatementBegin
CREATE FUNCTION saga.secure_readers() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    s name;
    reader name;
    t record;
BEGIN
    FOR s, reader IN VALUES ('dlq'::name, 'dlq_readonly_role'::name), ('jobs', 'jobs_readonly_role') LOOP
        CONTINUE WHEN to_regnamespace(s::text) IS NULL OR to_regrole(reader::text) IS NULL;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', s, reader);
        EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO %I', s, reader);
        EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA %I GRANT SELECT ON TABLES TO %I', s, reader);
        FOR t IN SELECT c.oid::regclass AS name FROM pg_class c
                  WHERE c.relnamespace = s::text::regnamespace AND c.relkind IN ('r', 'p') AND c.relname LIKE '%\_secrets' LOOP
            EXECUTE format('REVOKE ALL ON %s FROM %I', t.name, reader);
        END LOOP;
        FOR t IN SELECT p.polrelid::regclass AS name FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
                  WHERE c.relnamespace = s::text::regnamespace AND p.polname = 'readonly_rows' AND reader::text::regrole <> ALL (p.polroles) LOOP
            EXECUTE format('ALTER POLICY readonly_rows ON %s TO saga_readonly_role, %I', t.name, reader);
        END LOOP;
        -- Functions that views and reports use.
        FOR t IN SELECT p.oid::regprocedure AS name FROM pg_proc p
                  WHERE p.pronamespace = s::text::regnamespace AND p.prokind = 'f' AND p.provolatile <> 'v' AND NOT p.prosecdef LOOP
            EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %I', t.name, reader);
        END LOOP;
    END LOOP;
END;
$$;
-- +migrate StatementEnd
SELECT saga.secure_tables();
SELECT saga.secure_readers();
INSERT INTO saga.saga_schema_version (version, description) VALUES (251, 'roles that read one schema');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 251;
DROP FUNCTION saga.secure_readers();
-- The roles stay: other databases may have them.
-- +migrate StatementBegin
DO $$
DECLARE
    s name;
    reader name;
    t record;
BEGIN
    FOR s, reader IN VALUES ('dlq'::name, 'dlq_readonly_role'::name), ('jobs', 'jobs_readonly_role') LOOP
        CONTINUE WHEN to_regrole(reader::text) IS NULL;
        FOR t IN SELECT p.polrelid::regclass AS name FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
                  WHERE c.relnamespace = s::text::regnamespace AND p.polname = 'readonly_rows' LOOP
            EXECUTE format('ALTER POLICY readonly_rows ON %s TO saga_readonly_role', t.name);
        END LOOP;
        EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA %I REVOKE SELECT ON TABLES FROM %I', s, reader);
        EXECUTE format('REVOKE ALL ON ALL ROUTINES IN SCHEMA %I FROM %I', s, reader);
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %I FROM %I', s, reader);
        EXECUTE format('REVOKE ALL ON SCHEMA %I FROM %I', s, reader);
    END LOOP;
END;
$$;
-- +migrate StatementEnd
