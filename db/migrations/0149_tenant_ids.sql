-- A saga's id is its tenant's: two tenants may have the same one, neither learns of
-- the other's (docs/decisions/0047). The keys of sagas, of their step logs and of
-- both archives name the tenant, the id first, so that looking up by id alone, as
-- seed 1 does, keeps its index.
--
-- Step logs get the tenant of their saga. Where all sagas are of one tenant that is
-- no work: the column's value for the rows that are there is noted once. Others are
-- updated: 14 s for 277,000 logs on two busy cores. The keys and the index took 4.2 s
-- there for 302,000 sagas and 907,000 logs; nothing is read or written meanwhile.
--
-- Nodes of the release before know sagas by their ids alone. docs/operations.md,
-- Upgrades, says when they may still run beside this.

-- +migrate Up
-- Whether the idempotency keys of a saga's calls name the tenant: decided when the
-- saga is created, so that no key ever changes (invariant I7).
ALTER TABLE saga.saga_states ADD COLUMN tenant_in_keys boolean NOT NULL DEFAULT false;
ALTER TABLE saga.saga_states_archive ADD COLUMN tenant_in_keys boolean NOT NULL DEFAULT false;

ALTER TABLE saga.saga_step_logs DROP CONSTRAINT saga_step_logs_saga_id_fkey;
ALTER TABLE saga.saga_step_logs DISABLE TRIGGER trigger_saga_step_logs_update_updated_at;
-- +migrate StatementBegin
DO $$
DECLARE
    most uuid; -- the tenant of most sagas
BEGIN
    most := (SELECT tenant_id FROM saga.saga_states GROUP BY 1 ORDER BY count(*) DESC LIMIT 1);
    EXECUTE format('ALTER TABLE saga.saga_step_logs ADD COLUMN tenant_id uuid NOT NULL DEFAULT %L', coalesce(most, '00000000-0000-0000-0000-000000000000'));
    UPDATE saga.saga_step_logs l SET tenant_id = s.tenant_id FROM saga.saga_states s WHERE s.id = l.saga_id AND s.tenant_id <> most;
    ALTER TABLE saga.saga_step_logs ALTER COLUMN tenant_id DROP DEFAULT;

    most := (SELECT tenant_id FROM saga.saga_states_archive GROUP BY 1 ORDER BY count(*) DESC LIMIT 1);
    EXECUTE format('ALTER TABLE saga.saga_step_logs_archive ADD COLUMN tenant_id uuid NOT NULL DEFAULT %L', coalesce(most, '00000000-0000-0000-0000-000000000000'));
    UPDATE saga.saga_step_logs_archive l SET tenant_id = s.tenant_id FROM saga.saga_states_archive s WHERE s.id = l.saga_id AND s.tenant_id <> most;
    ALTER TABLE saga.saga_step_logs_archive ALTER COLUMN tenant_id DROP DEFAULT;
END;
$$;
-- +migrate StatementEnd
ALTER TABLE saga.saga_step_logs ENABLE TRIGGER trigger_saga_step_logs_update_updated_at;

ALTER TABLE saga.saga_states DROP CONSTRAINT saga_states_pkey, ADD PRIMARY KEY (id, tenant_id);
ALTER TABLE saga.saga_states_archive DROP CONSTRAINT saga_states_archive_pkey, ADD PRIMARY KEY (id, tenant_id);
ALTER TABLE saga.saga_step_logs ADD CONSTRAINT saga_step_logs_saga_id_fkey
    FOREIGN KEY (saga_id, tenant_id) REFERENCES saga.saga_states (id, tenant_id) ON DELETE CASCADE;
DROP INDEX saga.idx_saga_step_logs_saga_id_step_index;
CREATE UNIQUE INDEX idx_saga_step_logs_saga_id_step_index ON saga.saga_step_logs (saga_id, step_index, action, attempt, tenant_id);

-- The counts of sagas that have not ended.
ALTER TABLE saga.saga_counts_pending DROP CONSTRAINT saga_counts_pending_pkey, ADD PRIMARY KEY (saga_id, tenant_id);

-- A log that names no tenant is written by a node of the release before: its saga's
-- tenant is looked up. Where two tenants have that id it is refused.
-- +migrate StatementBegin
CREATE FUNCTION saga.tenant_of_log() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    NEW.tenant_id := (SELECT s.tenant_id FROM saga.saga_states s WHERE s.id = NEW.saga_id);
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd
CREATE TRIGGER tenant_of_saga_step_logs BEFORE INSERT ON saga.saga_step_logs
    FOR EACH ROW WHEN (NEW.tenant_id IS NULL) EXECUTE FUNCTION saga.tenant_of_log();

-- A log was visible where its saga was; it has its own tenant now. As secure_tables() would have it.
-- +migrate StatementBegin
DO $$
DECLARE
    t text;
BEGIN
    FOR t IN SELECT p.polrelid::regclass FROM pg_policy p
              WHERE p.polname = 'tenant_rows' AND p.polrelid IN ('saga.saga_step_logs'::regclass, 'saga.saga_step_logs_archive'::regclass) LOOP
        EXECUTE format('ALTER POLICY tenant_rows ON %s USING %s WITH CHECK %s', t,
            '(tenant_id = (SELECT nullif(current_setting(''skald.tenant_id'', true), '''')::uuid))',
            '(tenant_id = (SELECT nullif(current_setting(''skald.tenant_id'', true), '''')::uuid))');
    END LOOP;
END;
$$;
-- +migrate StatementEnd

INSERT INTO saga.saga_schema_version (version, description) VALUES (149, 'the ids of sagas are their tenants''');

-- +migrate Down
-- It is refused where two tenants have sagas of one id.
DELETE FROM saga.saga_schema_version WHERE version = 149;
-- +migrate StatementBegin
DO $$
DECLARE
    t record;
BEGIN
    FOR t IN SELECT p.polrelid::regclass AS name, CASE p.polrelid WHEN 'saga.saga_step_logs'::regclass THEN 'saga.saga_states' ELSE 'saga.saga_states_archive' END AS heads
               FROM pg_policy p WHERE p.polname = 'tenant_rows' AND p.polrelid IN ('saga.saga_step_logs'::regclass, 'saga.saga_step_logs_archive'::regclass) LOOP
        EXECUTE format('ALTER POLICY tenant_rows ON %1$s USING ((SELECT true FROM %2$s s WHERE s.id = saga_id)) WITH CHECK ((SELECT true FROM %2$s s WHERE s.id = saga_id))', t.name, t.heads);
    END LOOP;
END;
$$;
-- +migrate StatementEnd
DROP TRIGGER tenant_of_saga_step_logs ON saga.saga_step_logs;
DROP FUNCTION saga.tenant_of_log();
ALTER TABLE saga.saga_counts_pending DROP CONSTRAINT saga_counts_pending_pkey, ADD PRIMARY KEY (saga_id);
DROP INDEX saga.idx_saga_step_logs_saga_id_step_index;
CREATE UNIQUE INDEX idx_saga_step_logs_saga_id_step_index ON saga.saga_step_logs (saga_id, step_index, action, attempt);
ALTER TABLE saga.saga_step_logs DROP CONSTRAINT saga_step_logs_saga_id_fkey;
ALTER TABLE saga.saga_states_archive DROP CONSTRAINT saga_states_archive_pkey, ADD PRIMARY KEY (id);
ALTER TABLE saga.saga_states DROP CONSTRAINT saga_states_pkey, ADD PRIMARY KEY (id);
ALTER TABLE saga.saga_step_logs ADD CONSTRAINT saga_step_logs_saga_id_fkey FOREIGN KEY (saga_id) REFERENCES saga.saga_states (id) ON DELETE CASCADE;
ALTER TABLE saga.saga_step_logs_archive DROP COLUMN tenant_id;
ALTER TABLE saga.saga_step_logs DROP COLUMN tenant_id;
ALTER TABLE saga.saga_states_archive DROP COLUMN tenant_in_keys;
ALTER TABLE saga.saga_states DROP COLUMN tenant_in_keys;
