-- Sessions of browsers (docs/decisions/0086). Of a session's cookie only a hash is kept, and
-- nothing of the credential that it was made with.
--
-- bound_tenant_id and not tenant_id, and a name that ends in _secrets: as with API keys, a
-- session is looked up to learn the tenant, and its hash is nothing to read reports with.

-- +migrate Up
CREATE TABLE saga.session_secrets (
    id              uuid         PRIMARY KEY, -- UUIDv7: newest last
    hash            bytea        NOT NULL CONSTRAINT uq_session_secrets_hash UNIQUE CHECK (octet_length(hash) = 32),
    subject         varchar(255) NOT NULL,
    role            varchar(16)  NOT NULL CHECK (role IN ('', 'worker', 'auditor', 'operator', 'admin')),
    key_id          uuid,                     -- NULL: made with a JWT
    bound_tenant_id uuid,                     -- NULL: of a key for any tenant
    tenant_region   varchar(32)  NOT NULL DEFAULT '',
    tenant_major    integer      NOT NULL DEFAULT 0,
    tenant_minor    integer      NOT NULL DEFAULT 0,
    address         varchar(64)  NOT NULL DEFAULT '',
    created_at      timestamptz  NOT NULL,
    expires_at      timestamptz  NOT NULL,
    last_used_at    timestamptz  NOT NULL,
    CONSTRAINT any_tenant_by_key_only CHECK (bound_tenant_id IS NOT NULL OR key_id IS NOT NULL)
);
CREATE INDEX idx_session_secrets_tenant ON saga.session_secrets (bound_tenant_id, id);
CREATE INDEX idx_session_secrets_expires ON saga.session_secrets (expires_at);

SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (270, 'sessions of browsers');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 270;
DROP TABLE saga.session_secrets;
