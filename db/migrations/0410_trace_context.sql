-- What a client sends beside its traceparent goes on with the saga or run: tracestate and baggage
-- (W3C Trace Context, W3C Baggage). Baggage is content, so erasing a saga erases it.

-- +migrate Up
ALTER TABLE saga.saga_states ADD COLUMN tracestate text, ADD COLUMN baggage text;
ALTER TABLE saga.saga_states_archive ADD COLUMN tracestate text, ADD COLUMN baggage text;
ALTER TABLE jobs.job_runs ADD COLUMN tracestate text, ADD COLUMN baggage text;

-- The lists by metadata read what lists show (migration 0091).
-- +migrate StatementBegin
DO $$
DECLARE
    v regclass;
    was text;
    becomes text;
BEGIN
    FOREACH v IN ARRAY ARRAY['saga.tenant_metadata', 'saga.tenant_metadata_archive']::regclass[] LOOP
        was := pg_get_viewdef(v);
        becomes := regexp_replace(was, '\s+FROM ', E',\n    s.tracestate, s.baggage\n   FROM ');
        ASSERT becomes <> was, v || ' is not what was expected';
        EXECUTE format('CREATE OR REPLACE VIEW %s AS %s', v, becomes);
    END LOOP;
END;
$$;
-- +migrate StatementEnd

-- +migrate StatementBegin
DO $$
DECLARE
    was text := pg_get_functiondef('saga.purge_contents(uuid, uuid[], uuid[], uuid[], integer[])'::regprocedure);
    becomes text := was;
BEGIN
    becomes := replace(becomes, 'metadata = NULL, name = NULL,', 'metadata = NULL, tracestate = NULL, baggage = NULL, name = NULL,');
    becomes := replace(becomes, 'SET args = NULL, progress = NULL,', 'SET args = NULL, tracestate = NULL, baggage = NULL, progress = NULL,');
    becomes := replace(becomes, $x$SET body = jsonb_set(body::jsonb, '{data,error}', saga.erased_error(body::jsonb #> '{data,error}'))::text,$x$,
        $x$SET body = (CASE WHEN body::jsonb #> '{data,error}' IS NULL THEN body::jsonb
                       ELSE jsonb_set(body::jsonb, '{data,error}', saga.erased_error(body::jsonb #> '{data,error}')) END - 'tracestate' - 'baggage')::text,$x$);
    becomes := replace(becomes, $x$THEN body::jsonb #> '{data,error}' IS NOT NULL ELSE false END$x$,
        $x$THEN body::jsonb #> '{data,error}' IS NOT NULL OR body::jsonb ?| '{tracestate,baggage}' ELSE false END$x$);
    ASSERT (length(becomes) - length(replace(becomes, 'tracestate', ''))) / length('tracestate') = 5,
        'saga.purge_contents is not what was expected';
    EXECUTE becomes;
END;
$$;
-- +migrate StatementEnd
INSERT INTO saga.saga_schema_version (version, description) VALUES (410, 'tracestate and baggage');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 410;
-- +migrate StatementBegin
DO $$
DECLARE
    becomes text := pg_get_functiondef('saga.purge_contents(uuid, uuid[], uuid[], uuid[], integer[])'::regprocedure);
BEGIN
    becomes := replace(becomes, 'tracestate = NULL, baggage = NULL, ', '');
    becomes := replace(becomes, $x$SET body = (CASE WHEN body::jsonb #> '{data,error}' IS NULL THEN body::jsonb
                       ELSE jsonb_set(body::jsonb, '{data,error}', saga.erased_error(body::jsonb #> '{data,error}')) END - 'tracestate' - 'baggage')::text,$x$,
        $x$SET body = jsonb_set(body::jsonb, '{data,error}', saga.erased_error(body::jsonb #> '{data,error}'))::text,$x$);
    becomes := replace(becomes, $x$ OR body::jsonb ?| '{tracestate,baggage}'$x$, '');
    EXECUTE becomes;
END;
$$;
-- +migrate StatementEnd
-- A view cannot lose columns: it is made anew, with the rights that it had.
-- +migrate StatementBegin
DO $$
DECLARE
    v text;
    becomes text;
    granted aclitem[];
    g record;
BEGIN
    FOREACH v IN ARRAY ARRAY['saga.tenant_metadata', 'saga.tenant_metadata_archive'] LOOP
        becomes := regexp_replace(pg_get_viewdef(v::regclass), ',\s+s\.tracestate,\s+s\.baggage', '');
        granted := (SELECT relacl FROM pg_class WHERE oid = v::regclass);
        EXECUTE format('DROP VIEW %s', v);
        EXECUTE format('CREATE VIEW %s AS %s', v, becomes);
        FOR g IN SELECT grantee, privilege_type FROM aclexplode(granted) WHERE grantee <> 0 LOOP
            EXECUTE format('GRANT %s ON %s TO %I', g.privilege_type, v, pg_get_userbyid(g.grantee));
        END LOOP;
    END LOOP;
END;
$$;
-- +migrate StatementEnd
ALTER TABLE jobs.job_runs DROP COLUMN tracestate, DROP COLUMN baggage;
ALTER TABLE saga.saga_states_archive DROP COLUMN tracestate, DROP COLUMN baggage;
ALTER TABLE saga.saga_states DROP COLUMN tracestate, DROP COLUMN baggage;
