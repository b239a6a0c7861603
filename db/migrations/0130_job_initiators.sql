-- Who is behind a run: the subject of a credential, and the role by whose rights it
-- may do what it does. NULL: made before this, or by a node of an earlier version.

-- +migrate Up
ALTER TABLE jobs.job_runs ADD COLUMN initiated_by varchar(255), ADD COLUMN initiated_as varchar(20);
ALTER TABLE jobs.events ADD COLUMN published_by varchar(255);
INSERT INTO saga.saga_schema_version (version, description) VALUES (130, 'who is behind a job run');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 130;
ALTER TABLE jobs.events DROP COLUMN published_by;
ALTER TABLE jobs.job_runs DROP COLUMN initiated_by, DROP COLUMN initiated_as;
