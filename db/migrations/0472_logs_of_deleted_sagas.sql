-- Step logs go with their saga by a trigger of each DELETE, no longer by a foreign key (docs/decisions/0166), which locks
-- the saga's row once more for every log. Skald writes logs only for sagas that it locks in the same statement. A log
-- that names no tenant, as seed 1 writes it, is refused as before if its saga is not there (tenant_of_log).

-- +migrate Up
-- The plan of the DELETE is kept while the table grows.
-- +migrate StatementBegin
CREATE FUNCTION saga.delete_step_logs() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog SET enable_seqscan = off AS $$
BEGIN
    DELETE FROM saga.saga_step_logs l USING gone WHERE l.saga_id = gone.id AND l.tenant_id = gone.tenant_id;
    RETURN NULL;
END;
$$;
-- +migrate StatementEnd
CREATE TRIGGER delete_step_logs AFTER DELETE ON saga.saga_states REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION saga.delete_step_logs();
ALTER TABLE saga.saga_step_logs DROP CONSTRAINT fk_saga_steps_saga;

INSERT INTO saga.saga_schema_version (version, description) VALUES (472, 'step logs of deleted sagas');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 472;
ALTER TABLE saga.saga_step_logs ADD CONSTRAINT fk_saga_steps_saga
    FOREIGN KEY (saga_id, tenant_id) REFERENCES saga.saga_states (id, tenant_id) ON DELETE CASCADE;
DROP TRIGGER delete_step_logs ON saga.saga_states;
DROP FUNCTION saga.delete_step_logs();
