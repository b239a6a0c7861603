-- When participants were held and released, and how many of their calls each node has in flight.

-- +migrate Up
-- One row for each time from the hold of an open gate to its next opening. Of a participant the last ones are kept.
CREATE TABLE saga.participant_outages (
    tenant_id    uuid         NOT NULL,
    participant  varchar(255) NOT NULL,
    held_at      timestamptz  NOT NULL,
    reason       text         NOT NULL,
    held_by      text         NOT NULL DEFAULT '',
    releasing_at timestamptz,
    released_at  timestamptz, -- NULL: it is not over
    waited       bigint       NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, participant, held_at)
);

-- A node writes its number when it changes, and again every few seconds while it is not 0.
CREATE TABLE saga.participant_flights (
    tenant_id   uuid         NOT NULL,
    participant varchar(255) NOT NULL,
    node        text         NOT NULL,
    in_flight   integer      NOT NULL,
    at          timestamptz  NOT NULL,
    PRIMARY KEY (tenant_id, participant, node)
);

SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (457, 'outages of participants');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 457;
DROP TABLE saga.participant_flights;
DROP TABLE saga.participant_outages;
