-- Building an index of an empty table notes that it has no rows, and the planner then
-- takes it to have one however large it grows, until it is analyzed: the indexes of 0400
-- undid what 0268 did for a new database. It is done again, in the same way.

-- +migrate Up
-- +migrate StatementBegin
DO $$
DECLARE
    sample uuid[] := ARRAY(SELECT gen_random_uuid() FROM generate_series(1, 100));
BEGIN
    IF EXISTS (SELECT FROM saga.saga_states) THEN
        RETURN; -- the index counted them
    END IF;
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
