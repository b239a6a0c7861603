-- Logs of job runs outside of the database that have to go: those of erased and of purged runs. The
-- row is written in the transaction that gives up the log, so a crash before its objects are
-- deleted only delays that. An erased run no longer has a log: as far as the row knows, it never had
-- one. (docs/decisions/0108)

-- +migrate Up
CREATE TABLE jobs.log_removals (
    tenant_id  uuid        NOT NULL,
    run_id     uuid        NOT NULL,
    created_at timestamptz NOT NULL, -- of the run: its objects are named by it
    due_at     timestamptz NOT NULL DEFAULT now(),
    until      timestamptz NOT NULL, -- the last time that they are deleted: an upload may have been under way
    moved      boolean     NOT NULL, -- the log was in the store; false: an upload may have begun
    PRIMARY KEY (tenant_id, run_id)
);
CREATE INDEX idx_log_removals_due ON jobs.log_removals (due_at);
SELECT saga.secure_tables();

-- +migrate StatementBegin
DO $$
DECLARE
    was text := pg_get_functiondef('saga.purge_contents(uuid, uuid[], uuid[], uuid[], integer[])'::regprocedure);
    becomes text := was;
BEGIN
    becomes := replace(becomes, 'UPDATE jobs.job_runs SET args = NULL,', $x$INSERT INTO jobs.log_removals (tenant_id, run_id, created_at, until, moved)
    SELECT r.tenant_id, r.id, r.created_at, now() + interval '1 hour', r.log_ref IS NOT NULL
      FROM jobs.job_runs r WHERE r.tenant_id = of_tenant AND r.id = ANY (of_runs) AND r.log_bytes > 0
    ON CONFLICT (tenant_id, run_id) DO UPDATE SET due_at = now(), until = excluded.until, moved = log_removals.moved OR excluded.moved;
    UPDATE jobs.job_runs SET log_ref = NULL, log_sha256 = NULL, log_bytes = 0, args = NULL,$x$);
    ASSERT becomes <> was, 'saga.purge_contents is not what was expected';
    EXECUTE becomes;
END;
$$;
-- +migrate StatementEnd
INSERT INTO saga.saga_schema_version (version, description) VALUES (451, 'logs that have to go');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 451;
-- +migrate StatementBegin
DO $$
DECLARE
    is_now text := pg_get_functiondef('saga.purge_contents(uuid, uuid[], uuid[], uuid[], integer[])'::regprocedure);
    was text := regexp_replace(is_now, 'INSERT INTO jobs\.log_removals.+?log_bytes = 0, args = NULL,', 'UPDATE jobs.job_runs SET args = NULL,');
BEGIN
    ASSERT was <> is_now, 'saga.purge_contents is not what was expected';
    EXECUTE was;
END;
$$;
-- +migrate StatementEnd
DROP TABLE jobs.log_removals;
