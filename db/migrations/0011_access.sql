-- API keys (decisions 0017 and 0018). Of a key's secret only a hash is kept.
--
-- The column is bound_tenant_id and not tenant_id because this is no tenant's
-- data: a key is looked up to learn the tenant, so that no rule which hides
-- other tenants' rows may stand in front of it. NULL: a key for any tenant.

-- +migrate Up
CREATE TABLE IF NOT EXISTS saga.api_keys (
    id              uuid         PRIMARY KEY, -- UUIDv7: newest last
    name            varchar(100) NOT NULL,
    prefix          varchar(8)   NOT NULL CONSTRAINT uq_api_keys_prefix UNIQUE,
    hash            bytea        NOT NULL CHECK (octet_length(hash) = 32), -- SHA-256 of the whole key
    role            varchar(16)  NOT NULL CHECK (role IN ('auditor', 'operator', 'admin')),
    bound_tenant_id uuid,
    tenant_region   varchar(32)  NOT NULL DEFAULT '',
    tenant_major    integer      NOT NULL DEFAULT 0 CHECK (tenant_major BETWEEN 0 AND 65535),
    tenant_minor    integer      NOT NULL DEFAULT 0 CHECK (tenant_minor BETWEEN 0 AND 65535),
    created_by      varchar(255) NOT NULL,
    created_at      timestamptz  NOT NULL DEFAULT now(),
    expires_at      timestamptz,
    revoked_at      timestamptz,
    revoked_by      varchar(255) NOT NULL DEFAULT '',
    last_used_at    timestamptz,
    CONSTRAINT only_admins_have_any_tenant CHECK (bound_tenant_id IS NOT NULL OR role = 'admin')
);
-- The list of a tenant's keys.
CREATE INDEX IF NOT EXISTS idx_api_keys_tenant ON saga.api_keys (bound_tenant_id, id);

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
CREATE TRIGGER guard_api_keys BEFORE UPDATE ON saga.api_keys
    FOR EACH ROW EXECUTE FUNCTION saga.guard_api_keys();

INSERT INTO saga.saga_schema_version (version, description) VALUES (11, 'API keys');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 11;
DROP TABLE IF EXISTS saga.api_keys;
DROP FUNCTION IF EXISTS saga.guard_api_keys();
