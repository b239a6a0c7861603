-- A bulk operation or backfill knows the request that made it, as a redrive does, so that its
-- Idempotency-Key with any other request is refused, whichever member differs.

-- +migrate Up
ALTER TABLE saga.saga_bulks ADD COLUMN request_hash bytea;   -- NULL: without a key, or requested before this migration
ALTER TABLE jobs.bulks ADD COLUMN request_hash bytea;
ALTER TABLE jobs.backfills ADD COLUMN request_hash bytea;
INSERT INTO saga.saga_schema_version (version, description) VALUES (321, 'requests of bulk operations');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 321;
ALTER TABLE jobs.backfills DROP COLUMN request_hash;
ALTER TABLE jobs.bulks DROP COLUMN request_hash;
ALTER TABLE saga.saga_bulks DROP COLUMN request_hash;
