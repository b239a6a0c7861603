-- Certifications of participants (docs/certification.md): what is asked for, who examines it, and what was found.
-- Only one participant of a host is examined at a time, whichever tenant asks. token and lease_until say which node
-- does; after the lease another node begins again.

-- +migrate Up
CREATE TABLE saga.certifications (
    id           uuid          PRIMARY KEY,
    tenant_id    uuid          NOT NULL,
    version      bigint        NOT NULL DEFAULT 1,
    state        varchar(10)   NOT NULL CHECK (state IN ('PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELED')),
    host         varchar(300)  NOT NULL,
    url          text          NOT NULL,
    compensation text          NOT NULL DEFAULT '',
    effects      text          NOT NULL DEFAULT '',
    step         text          NOT NULL DEFAULT '',
    payload      jsonb,                              -- sealed
    race_seconds integer       NOT NULL DEFAULT 0,
    timeout_ms   integer       NOT NULL DEFAULT 0,
    attempt      integer       NOT NULL DEFAULT 0,   -- 0 and ended: it was examined elsewhere
    played       integer       NOT NULL DEFAULT 0,
    planned      integer       NOT NULL DEFAULT 0,
    verdict      varchar(10)   NOT NULL DEFAULT '',
    findings     integer       NOT NULL DEFAULT 0,
    warnings     integer       NOT NULL DEFAULT 0,
    not_tried    integer       NOT NULL DEFAULT 0,
    examiner     varchar(100)  NOT NULL DEFAULT '',
    error        text          NOT NULL DEFAULT '',
    report       jsonb,                              -- sealed
    reason       varchar(500)  NOT NULL DEFAULT '',
    actor        varchar(255)  NOT NULL DEFAULT '',
    actor_name   text          NOT NULL DEFAULT '',
    request_hash bytea,
    created_at   timestamptz   NOT NULL,
    started_at   timestamptz,
    ended_at     timestamptz,
    token        uuid,
    lease_until  timestamptz,
    CHECK ((state IN ('PENDING', 'RUNNING')) = (ended_at IS NULL)),
    CHECK ((state = 'RUNNING') = (token IS NOT NULL AND lease_until IS NOT NULL))
);
CREATE INDEX idx_certifications_created_at ON saga.certifications (tenant_id, created_at, id);
CREATE INDEX idx_certifications_latest ON saga.certifications (tenant_id, host, created_at, id) WHERE state = 'COMPLETED';
CREATE INDEX idx_certifications_open ON saga.certifications (created_at) WHERE state IN ('PENDING', 'RUNNING');
CREATE UNIQUE INDEX uq_certifications_host ON saga.certifications (host) WHERE state = 'RUNNING';

SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (456, 'certifications of participants');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 456;
DROP TABLE saga.certifications;
