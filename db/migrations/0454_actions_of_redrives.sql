-- The action of a redrive has the word that requests use, which is that of the action on a single letter
-- (decision 0133).

-- +migrate Up
ALTER TABLE dlq.dlq_redrives DROP CONSTRAINT dlq_redrives_action_check;
UPDATE dlq.dlq_redrives SET action = lower(action);
ALTER TABLE dlq.dlq_redrives ADD CONSTRAINT dlq_redrives_action_check
    CHECK (action IN ('retry', 'discard', 'resolve', 'requeue', 'delete'));
INSERT INTO saga.saga_schema_version (version, description) VALUES (454, 'actions of redrives');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 454;
ALTER TABLE dlq.dlq_redrives DROP CONSTRAINT dlq_redrives_action_check;
UPDATE dlq.dlq_redrives SET action = upper(action);
ALTER TABLE dlq.dlq_redrives ADD CONSTRAINT dlq_redrives_action_check
    CHECK (action IN ('RETRY', 'DISCARD', 'RESOLVE', 'REQUEUE', 'DELETE'));
