-- Workflow definitions: immutable versions, and one head per name.

-- +migrate Up
CREATE TABLE IF NOT EXISTS saga.workflows (
    tenant_id      uuid         NOT NULL,
    name           varchar(255) NOT NULL,
    latest_version integer      NOT NULL CHECK (latest_version >= 1),
    enabled        boolean      NOT NULL DEFAULT true,
    inline         boolean      NOT NULL DEFAULT false, -- made for sagas with inline steps; not listed
    revision       bigint       NOT NULL DEFAULT 1,
    created_at     timestamptz  NOT NULL DEFAULT now(),
    updated_at     timestamptz  NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, name)
);

CREATE TABLE IF NOT EXISTS saga.workflow_definitions (
    tenant_id    uuid         NOT NULL,
    name         varchar(255) NOT NULL,
    version      integer      NOT NULL CHECK (version >= 1),
    content_hash bytea        NOT NULL,
    definition   jsonb        NOT NULL,
    created_at   timestamptz  NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, name, version),
    CONSTRAINT uq_workflow_definitions_content UNIQUE (tenant_id, name, content_hash)
);

-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    RAISE EXCEPTION '% is immutable', TG_TABLE_NAME USING ERRCODE = 'check_violation';
END;
$$;
-- +migrate StatementEnd
CREATE TRIGGER guard_workflow_definitions BEFORE UPDATE ON saga.workflow_definitions
    FOR EACH ROW EXECUTE FUNCTION saga.refuse_change();

INSERT INTO saga.saga_schema_version (version, description) VALUES (5, 'workflows');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 5;
DROP TABLE IF EXISTS saga.workflow_definitions;
DROP TABLE IF EXISTS saga.workflows;
DROP FUNCTION IF EXISTS saga.refuse_change();
