-- Why a saga makes no progress: unowned and failing, which were nobody_drives_it and keeps_failing. Audit
-- events keep the words with which they were written.

-- +migrate Up
-- The triggers would take this for changes of the sagas.
ALTER TABLE saga.saga_states DISABLE TRIGGER USER;
UPDATE saga.saga_states
   SET attention_reason = CASE attention_reason WHEN 'keeps_failing' THEN 'failing' ELSE 'unowned' END
 WHERE needs_attention
   AND attention_reason IN ('nobody_drives_it', 'keeps_failing');
ALTER TABLE saga.saga_states ENABLE TRIGGER USER;
INSERT INTO saga.saga_schema_version (version, description) VALUES (330, 'words for why a saga makes no progress');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 330;
ALTER TABLE saga.saga_states DISABLE TRIGGER USER;
UPDATE saga.saga_states
   SET attention_reason = CASE attention_reason WHEN 'failing' THEN 'keeps_failing' ELSE 'nobody_drives_it' END
 WHERE needs_attention
   AND attention_reason IN ('unowned', 'failing');
ALTER TABLE saga.saga_states ENABLE TRIGGER USER;
