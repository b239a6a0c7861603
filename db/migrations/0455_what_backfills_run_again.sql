-- What a backfill runs again has the word that requests use (decision 0133).

-- +migrate Up
ALTER TABLE jobs.backfills DROP CONSTRAINT backfills_reprocess_check;
UPDATE jobs.backfills SET reprocess = lower(reprocess);
ALTER TABLE jobs.backfills ADD CONSTRAINT backfills_reprocess_check CHECK (reprocess IN ('none', 'failed', 'completed'));
INSERT INTO saga.saga_schema_version (version, description) VALUES (455, 'what backfills run again');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 455;
ALTER TABLE jobs.backfills DROP CONSTRAINT backfills_reprocess_check;
UPDATE jobs.backfills SET reprocess = upper(reprocess);
ALTER TABLE jobs.backfills ADD CONSTRAINT backfills_reprocess_check CHECK (reprocess IN ('NONE', 'FAILED', 'COMPLETED'));
