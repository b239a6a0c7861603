-- The action of a bulk has the word that requests use, which is lower_case since decision 0133.

-- +migrate Up
ALTER TABLE jobs.bulks DROP CONSTRAINT bulks_action_check;
UPDATE jobs.bulks SET action = lower(action);
ALTER TABLE jobs.bulks ADD CONSTRAINT bulks_action_check CHECK (action IN ('cancel', 'rerun'));
INSERT INTO saga.saga_schema_version (version, description) VALUES (452, 'words of bulks');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 452;
ALTER TABLE jobs.bulks DROP CONSTRAINT bulks_action_check;
UPDATE jobs.bulks SET action = upper(action);
ALTER TABLE jobs.bulks ADD CONSTRAINT bulks_action_check CHECK (action IN ('CANCEL', 'RERUN'));
