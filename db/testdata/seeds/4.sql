-- Seed 4 has its table as a list of columns and indexes: it is written out here, uint16 as the integer type that holds it.
CREATE SCHEMA seed4;
CREATE TABLE seed4.sagas (
    transaction_id uuid PRIMARY KEY,
    tenant_id      uuid NOT NULL,
    tenant_region  varchar(32) NOT NULL DEFAULT '',
    tenant_major   integer NOT NULL DEFAULT 0 CHECK (tenant_major >= 0 AND tenant_major <= 65535),
    tenant_minor   integer NOT NULL DEFAULT 0 CHECK (tenant_minor >= 0 AND tenant_minor <= 65535),
    saga_type      varchar(64) NOT NULL,
    initiated_by   varchar(255) NOT NULL,
    status         varchar(16) NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'compensating', 'completed', 'failed')),
    saga_data      jsonb NOT NULL,
    version        int NOT NULL DEFAULT 1,
    created_at     timestamp,
    updated_at     timestamp,
    timeout_at     timestamp NULL
);
CREATE INDEX idx_sagas_tenant ON seed4.sagas (tenant_id);
CREATE INDEX idx_sagas_status ON seed4.sagas (status);
CREATE INDEX idx_sagas_timeout ON seed4.sagas (timeout_at);
