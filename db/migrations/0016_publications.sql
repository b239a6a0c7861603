-- Publications: audit events on their way to a message broker, as far as they
-- have got (docs/decisions/0016). One node at a time leads a publication; its
-- epoch fences a former leader's writes.

-- +migrate Up
CREATE TABLE saga.publications (
    name        varchar(64)  PRIMARY KEY,
    owner       varchar(255) NOT NULL,
    epoch       bigint       NOT NULL CHECK (epoch >= 1), -- grows with every leader
    lease_until timestamptz  NOT NULL                     -- set and compared by the database's clock
) WITH (fillfactor = 50);

CREATE TABLE saga.publication_cursors (
    name      varchar(64) NOT NULL REFERENCES saga.publications (name) ON DELETE CASCADE,
    tenant_id uuid        NOT NULL,
    txid      xid8        NOT NULL, -- everything up to here is on the broker
    id        bigint      NOT NULL,
    PRIMARY KEY (name, tenant_id)
) WITH (fillfactor = 50);

INSERT INTO saga.saga_schema_version (version, description) VALUES (16, 'publications');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 16;
DROP TABLE IF EXISTS saga.publication_cursors;
DROP TABLE IF EXISTS saga.publications;
