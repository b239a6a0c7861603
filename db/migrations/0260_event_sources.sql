-- Events that are records of Kafka topics (docs/decisions/0062): which record each was,
-- and how far each partition has become events. The mark moves in the transaction that
-- stores the events, so a record that is read again makes no second one, even after its
-- event was deleted.

-- +migrate Up
ALTER TABLE jobs.events
    ADD COLUMN source_topic     varchar(255),
    ADD COLUMN source_partition integer,
    ADD COLUMN source_offset    bigint;

CREATE TABLE jobs.event_sources (
    topic       varchar(255) COLLATE "C" NOT NULL,
    topic_id    uuid        NOT NULL, -- of this life of the topic
    partition   integer     NOT NULL,
    next_offset bigint      NOT NULL, -- records below it are events already, or were not meant to be
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (topic, topic_id, partition)
) WITH (fillfactor = 50);

SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (260, 'events from Kafka topics');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 260;
DROP TABLE jobs.event_sources;
ALTER TABLE jobs.events DROP COLUMN source_topic, DROP COLUMN source_partition, DROP COLUMN source_offset;
