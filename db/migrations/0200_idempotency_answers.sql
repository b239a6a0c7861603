-- Answers of requests with an Idempotency-Key, where no resource carries the key itself
-- (docs/decisions/0064). The row is written in the transaction of the effect; the
-- answer follows when there is one.

-- +migrate Up
CREATE TABLE saga.idempotency_answers (
    tenant_id    uuid         NOT NULL,
    principal    varchar(255) NOT NULL,
    route        varchar(255) NOT NULL, -- method and path template
    key          varchar(255) NOT NULL,
    request_id   uuid         NOT NULL, -- tells the row of one request from that of another
    request_hash bytea        NOT NULL, -- SHA-256 of method, path, query and body
    status       integer,               -- NULL: the effect is stored, an answer is not
    etag         text         NOT NULL DEFAULT '',
    location     text         NOT NULL DEFAULT '',
    body         bytea,                 -- sealed where encryption is configured
    withheld     boolean      NOT NULL DEFAULT false, -- the answer held a secret, or was too large
    created_at   timestamptz  NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, principal, route, key)
);
CREATE INDEX idx_idempotency_answers_created_at ON saga.idempotency_answers USING brin (created_at);
SELECT saga.secure_tables();

INSERT INTO saga.saga_schema_version (version, description) VALUES (200, 'answers of idempotency keys');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 200;
DROP TABLE saga.idempotency_answers;
