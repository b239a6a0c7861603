-- Queues of job runs that people hold.

-- +migrate Up
CREATE TABLE jobs.queues (
    tenant_id uuid         NOT NULL,
    name      varchar(255) COLLATE "C" NOT NULL,
    state     varchar(10)  NOT NULL CHECK (state IN ('OPEN', 'HELD')),
    since     timestamptz  NOT NULL,
    reason    varchar(500) NOT NULL DEFAULT '',
    held_by   varchar(255) NOT NULL DEFAULT '',
    version   bigint       NOT NULL CHECK (version > 0),
    PRIMARY KEY (tenant_id, name)
);
CREATE INDEX idx_job_queues_held ON jobs.queues (tenant_id, name) WHERE state = 'HELD';

SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (459, 'queues that people hold');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 459;
DROP TABLE jobs.queues;
