-- What ingestion found when it first saw a dead-letter topic: the records that lay in
-- it already are backlog, which nobody drives at live topics unasked
-- (docs/decisions/0044).

-- +migrate Up
CREATE TABLE dlq.dlq_readers (
    consumer_group varchar(255) PRIMARY KEY,
    expression     text         NOT NULL, -- the topics that it reads; with another one it sees all topics for the first time
    looked_at      timestamptz  NOT NULL  -- when it last saw which topics there are
) WITH (fillfactor = 50);

CREATE TABLE dlq.dlq_inflows (
    consumer_group varchar(255) NOT NULL,
    topic          varchar(255) COLLATE "C" NOT NULL,
    topic_id       uuid         NOT NULL, -- of this life of the topic; zeros: the broker does not tell
    partition      integer      NOT NULL,
    backlog_end    bigint       NOT NULL, -- records below it lay there when the partition was first seen
    backlog_before timestamptz,           -- of those only the ones written before it are backlog; NULL: all
    seen_at        timestamptz  NOT NULL,
    PRIMARY KEY (consumer_group, topic, topic_id, partition)
);

SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (139, 'backlog of dead-letter topics');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 139;
DROP TABLE dlq.dlq_inflows, dlq.dlq_readers;
