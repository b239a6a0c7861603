-- What people call the caller (principal.Principal.Name: preferred_username of a token) stands
-- beside the subject of the credential wherever a person's request is recorded, as it was then.
-- Audit actions and events of sagas have it in their detail and data, which their digests cover.

-- +migrate Up
ALTER TABLE saga.session_secrets ADD COLUMN name text NOT NULL DEFAULT '';
ALTER TABLE saga.saga_bulks ADD COLUMN actor_name text NOT NULL DEFAULT '';
ALTER TABLE jobs.bulks ADD COLUMN actor_name text NOT NULL DEFAULT '';
ALTER TABLE jobs.backfills ADD COLUMN actor_name text NOT NULL DEFAULT '';
ALTER TABLE dlq.dlq_redrives
    ADD COLUMN actor_name text NOT NULL DEFAULT '',
    ADD COLUMN approved_by_name text NOT NULL DEFAULT '';
ALTER TABLE dlq.dlq_revisions ADD COLUMN author_name text NOT NULL DEFAULT '';
ALTER TABLE dlq.dlq_attempts ADD COLUMN actor_name text NOT NULL DEFAULT '';
INSERT INTO saga.saga_schema_version (version, description) VALUES (450, 'names of actors');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 450;
ALTER TABLE dlq.dlq_attempts DROP COLUMN actor_name;
ALTER TABLE dlq.dlq_revisions DROP COLUMN author_name;
ALTER TABLE dlq.dlq_redrives DROP COLUMN approved_by_name, DROP COLUMN actor_name;
ALTER TABLE jobs.backfills DROP COLUMN actor_name;
ALTER TABLE jobs.bulks DROP COLUMN actor_name;
ALTER TABLE saga.saga_bulks DROP COLUMN actor_name;
ALTER TABLE saga.session_secrets DROP COLUMN name;
