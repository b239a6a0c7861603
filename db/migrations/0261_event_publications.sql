-- Events of job runs that are published to Kafka topics as well (docs/decisions/0062):
-- the outbox, written with the outcome of the run.

-- +migrate Up
CREATE TABLE jobs.event_publications (
    event_id   uuid         PRIMARY KEY,
    tenant_id  uuid         NOT NULL,
    topic      varchar(255) NOT NULL,
    key        varchar(255) NOT NULL,          -- of the record; those of one key keep their order
    position   bigint       GENERATED ALWAYS AS IDENTITY,
    created_at timestamptz  NOT NULL,
    ended_at   timestamptz,                    -- the brokers have acknowledged it, or it became a dead letter
    error      varchar(500) NOT NULL DEFAULT '',
    letter_id  uuid
) WITH (fillfactor = 80);
CREATE INDEX idx_event_publications_position ON jobs.event_publications (position) WHERE ended_at IS NULL;

SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (261, 'events of job runs in Kafka');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 261;
DROP TABLE jobs.event_publications;
