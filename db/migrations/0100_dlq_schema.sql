-- The dead-letter queue (seed 3, 001_create_schema). pgcrypto is not needed:
-- gen_random_uuid() is PostgreSQL's own; and nothing here drops what it did not
-- make (defect B19).

-- +migrate Up
CREATE SCHEMA dlq;

-- +migrate StatementBegin
CREATE FUNCTION dlq.update_updated_at() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    NEW.updated_at = now();
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd

INSERT INTO saga.saga_schema_version (version, description) VALUES (100, 'dead-letter queue: schema');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 100;
DROP FUNCTION dlq.update_updated_at();
DROP SCHEMA dlq;
