-- A key of the role worker may be bound to queues: its workers serve these and no others.
-- An empty list: all queues of the tenant, as before. It never changes, like the role. A
-- node of an older version does not enforce it: create such keys once all nodes are new.

-- +migrate Up
ALTER TABLE saga.api_keys ADD COLUMN queues text[] NOT NULL DEFAULT '{}'
    CONSTRAINT only_workers_have_queues CHECK (queues = '{}' OR role = 'worker');
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.guard_api_keys() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF (NEW.id, NEW.name, NEW.prefix, NEW.hash, NEW.role, NEW.queues, NEW.tenant_region, NEW.tenant_major, NEW.tenant_minor, NEW.created_by, NEW.created_at)
       IS DISTINCT FROM
       (OLD.id, OLD.name, OLD.prefix, OLD.hash, OLD.role, OLD.queues, OLD.tenant_region, OLD.tenant_major, OLD.tenant_minor, OLD.created_by, OLD.created_at)
       OR NEW.bound_tenant_id IS DISTINCT FROM OLD.bound_tenant_id
       OR NEW.expires_at IS DISTINCT FROM OLD.expires_at
       OR (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at) THEN
        RAISE EXCEPTION 'an API key only gets used and revoked' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd

INSERT INTO saga.saga_schema_version (version, description) VALUES (255, 'queues of worker keys');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 255;
-- For an older node they would be for all queues.
UPDATE saga.api_keys SET revoked_at = now(), revoked_by = 'migration 0255' WHERE queues <> '{}' AND revoked_at IS NULL;
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.guard_api_keys() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF (NEW.id, NEW.name, NEW.prefix, NEW.hash, NEW.role, NEW.tenant_region, NEW.tenant_major, NEW.tenant_minor, NEW.created_by, NEW.created_at)
       IS DISTINCT FROM
       (OLD.id, OLD.name, OLD.prefix, OLD.hash, OLD.role, OLD.tenant_region, OLD.tenant_major, OLD.tenant_minor, OLD.created_by, OLD.created_at)
       OR NEW.bound_tenant_id IS DISTINCT FROM OLD.bound_tenant_id
       OR NEW.expires_at IS DISTINCT FROM OLD.expires_at
       OR (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at) THEN
        RAISE EXCEPTION 'an API key only gets used and revoked' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd
ALTER TABLE saga.api_keys DROP COLUMN queues;
