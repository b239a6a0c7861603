-- Servers examine participants that answer later. What these report comes to any node, and is kept with the certification
-- until the node that examines has ended it. What was pushed by a pipeline says too what it is about.

-- +migrate Up
ALTER TABLE saga.certifications
    ADD COLUMN later    boolean NOT NULL DEFAULT false,
    ADD COLUMN later_ms integer NOT NULL DEFAULT 0,
    ADD COLUMN mail     jsonb;                       -- sealed
DROP INDEX saga.idx_certifications_latest;
CREATE INDEX idx_certifications_latest ON saga.certifications (tenant_id, host, later, created_at, id)
    WHERE state = 'COMPLETED';
INSERT INTO saga.saga_schema_version (version, description) VALUES (470, 'certifications of later answers');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 470;
DELETE FROM saga.certifications WHERE later;
DROP INDEX saga.idx_certifications_latest;
CREATE INDEX idx_certifications_latest ON saga.certifications (tenant_id, host, created_at, id) WHERE state = 'COMPLETED';
ALTER TABLE saga.certifications
    DROP COLUMN later,
    DROP COLUMN later_ms,
    DROP COLUMN mail;
