-- What people write beside sagas: who takes care of one, and a few words (decision 0073). A
-- table of its own, because the engine writes a saga's row only if nobody else has.

-- +migrate Up
CREATE TABLE saga.saga_notes (
    tenant_id  uuid          NOT NULL,
    saga_id    uuid          NOT NULL,
    version    bigint        NOT NULL CHECK (version > 0),
    assignee   varchar(255)  NOT NULL DEFAULT '',
    note       varchar(2000) NOT NULL DEFAULT '',
    created_at timestamptz   NOT NULL,  -- of the saga, by which lists are ordered
    updated_at timestamptz   NOT NULL,
    PRIMARY KEY (tenant_id, saga_id)
);
CREATE INDEX idx_saga_notes_assignee ON saga.saga_notes (tenant_id, assignee, created_at, saga_id) WHERE assignee <> '';

SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (265, 'notes on sagas');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 265;
DROP TABLE saga.saga_notes;
