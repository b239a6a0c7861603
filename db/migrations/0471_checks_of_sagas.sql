-- The CHECKs of sagas that follow from others or from the rules (docs/decisions/0166). PostgreSQL compiles each again for
-- every statement: these six took about a tenth of its work for a commit. The words of status and lifecycle are those of
-- their own columns' expressions. What the others said is looked for by the job system.invariants.

-- +migrate Up
ALTER TABLE saga.saga_states
    DROP CONSTRAINT chk_saga_states_status,
    DROP CONSTRAINT chk_saga_states_lifecycle,
    DROP CONSTRAINT chk_saga_states_end_cause,
    DROP CONSTRAINT chk_saga_states_version,
    DROP CONSTRAINT chk_saga_states_ended,
    DROP CONSTRAINT chk_saga_states_clean;

-- Those that have not ended, or did so within a day: the indexes find them.
-- +migrate StatementBegin
DO $$
BEGIN
    EXECUTE 'CREATE OR REPLACE VIEW jobs.invariants WITH (security_invoker = true) AS '
        || rtrim(pg_get_viewdef('jobs.invariants'::regclass), ';') || $view$
UNION ALL
    SELECT 'I5 a saga is as its state says'::text, s.id::text FROM saga.saga_states s
     WHERE (s.completed_at IS NULL OR s.completed_at > now() - interval '1 day')
       AND ((s.state IN (3, 5, 6, 7, 8)) = (s.completed_at IS NULL)
         OR (s.completed_at IS NULL) <> (s.clean IS NULL)
         OR s.end_cause NOT IN ('step_failed', 'cancelled', 'deadline', 'operator')
         OR s.version < 1)
$view$;
END;
$$;
-- +migrate StatementEnd
SELECT saga.secure_tables();

INSERT INTO saga.saga_schema_version (version, description) VALUES (471, 'what the rules say is not checked at each write');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 471;
-- +migrate StatementBegin
DO $$
BEGIN
    EXECUTE 'CREATE OR REPLACE VIEW jobs.invariants WITH (security_invoker = true) AS '
        || substring(pg_get_viewdef('jobs.invariants'::regclass) FROM '^(.+)UNION ALL.+$');
END;
$$;
-- +migrate StatementEnd
SELECT saga.secure_tables();
ALTER TABLE saga.saga_states
    ADD CONSTRAINT chk_saga_states_status
        CHECK (status IN ('STARTED', 'RUNNING', 'COMPLETED', 'COMPENSATING', 'FAILED', 'CANCELLED')),
    ADD CONSTRAINT chk_saga_states_lifecycle CHECK (lifecycle IN ('active', 'compensating', 'completed', 'failed')),
    ADD CONSTRAINT chk_saga_states_end_cause CHECK (end_cause IN ('step_failed', 'cancelled', 'deadline', 'operator')),
    ADD CONSTRAINT chk_saga_states_version CHECK (version >= 1),
    ADD CONSTRAINT chk_saga_states_ended CHECK ((state IN (3, 5, 6, 7, 8)) = (completed_at IS NOT NULL)),
    ADD CONSTRAINT chk_saga_states_clean CHECK ((completed_at IS NULL) = (clean IS NULL));
