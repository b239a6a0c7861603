-- Schema, the shared trigger function and the version record (seed 1, 001; seed 2, saga_schema_version).
-- gen_random_uuid() is core since PostgreSQL 13, so no extension is created, and none is dropped (trap X39).

-- +migrate Up
CREATE SCHEMA IF NOT EXISTS saga;

-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.update_updated_at() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    NEW.updated_at = now();
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd

CREATE TABLE IF NOT EXISTS saga.saga_schema_version (
    version     integer      PRIMARY KEY,
    description varchar(255) NOT NULL,
    applied_at  timestamptz  NOT NULL DEFAULT now()
);
INSERT INTO saga.saga_schema_version (version, description) VALUES (1, 'schema and shared functions');

-- +migrate Down
DROP TABLE IF EXISTS saga.saga_schema_version;
DROP FUNCTION IF EXISTS saga.update_updated_at();
DROP SCHEMA IF EXISTS saga;
