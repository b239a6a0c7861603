-- Building an index of an empty table notes that it has no rows, and the planner then
-- takes it to have one however large it grows, until it is analyzed: the indexes of 0400
-- undid what 0268 did for a new database. It is done again, in the same way, after the
-- deleted rows of 0268 have left their pages: a table of half as many rows a page has
-- other plans.

-- +migrate Up
-- +migrate StatementBegin
DO $$
DECLARE
    sample uuid[] := ARRAY(SELECT gen_random_uuid() FROM generate_series(1, 100));
BEGIN
    IF EXISTS (SELECT FROM saga.saga_states) THEN
        RETURN; -- the index counted them
    END IF;
    BEGIN
        LOCK TABLE saga.saga_states, saga.saga_step_logs IN ACCESS EXCLUSIVE MODE NOWAIT;
        IF EXISTS (SELECT FROM saga.saga_states) OR EXISTS (SELECT FROM saga.saga_step_logs) THEN
            RETURN; -- one was created meanwhile
        END IF;
        TRUNCATE saga.saga_states, saga.saga_step_logs;
    EXCEPTION
        -- In use, or another table refers to them: the pages stay as they are.
        WHEN lock_not_available OR feature_not_supported THEN NULL;
    END;
    INSERT INTO saga.saga_states (id, tenant_id, workflow_name, workflow_version, saga_type, total_steps)
        SELECT id, id, 'sample', 1, 'SAMPLE', 1 FROM unnest(sample) AS s (id);
    ANALYZE saga.saga_states (id, tenant_id);
    DELETE FROM saga.saga_states WHERE id = ANY (sample) AND tenant_id = id;
END;
$$;
-- +migrate StatementEnd
INSERT INTO saga.saga_schema_version (version, description) VALUES (420, 'a saga is found by its key after 0400, too');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 420;
