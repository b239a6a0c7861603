-- Skald never changes the payload of a saga, except when it erases or encrypts it. Who changes it by hand must not
-- change what the step logs say was sent: before that, requests made of the payload are written into their logs.

-- +migrate Up
-- +migrate StatementBegin
CREATE FUNCTION saga.keep_requests() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    EXECUTE format('UPDATE saga.%I l SET request_payload = e.request_payload, request_parts = NULL
                      FROM saga.every_step_log e
                     WHERE l.saga_id = $1 AND l.tenant_id = $2 AND l.request_parts IS NOT NULL
                       AND e.id = l.id AND e.saga_id = $1 AND e.tenant_id = $2',
                   replace(TG_TABLE_NAME, 'saga_states', 'saga_step_logs')) USING OLD.id, OLD.tenant_id;
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd
CREATE TRIGGER keep_requests BEFORE UPDATE OF payload ON saga.saga_states FOR EACH ROW
    WHEN (NEW.payload IS DISTINCT FROM OLD.payload AND NEW.payload IS DISTINCT FROM '{"$skald_erased": true}'
          AND (OLD.payload ? '$skald_enc') IS NOT TRUE)
    EXECUTE FUNCTION saga.keep_requests();
CREATE TRIGGER keep_requests BEFORE UPDATE OF payload ON saga.saga_states_archive FOR EACH ROW
    WHEN (NEW.payload IS DISTINCT FROM OLD.payload AND NEW.payload IS DISTINCT FROM '{"$skald_erased": true}'
          AND (OLD.payload ? '$skald_enc') IS NOT TRUE)
    EXECUTE FUNCTION saga.keep_requests();
SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (468, 'requests as they were sent');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 468;
DROP TRIGGER keep_requests ON saga.saga_states_archive;
DROP TRIGGER keep_requests ON saga.saga_states;
DROP FUNCTION saga.keep_requests();
