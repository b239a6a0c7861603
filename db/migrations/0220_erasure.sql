-- Erasure of contents (docs/lifecycle.md): what clients and participants said goes,
-- what happened stays, and so does the chain of the audit trail.

-- +migrate Up
-- The parts of an error that no participant wrote, as saga.Error.Erased has it.
-- +migrate StatementBegin
CREATE FUNCTION saga.erased_error(e jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog AS $$
    SELECT CASE WHEN e IS NOT NULL THEN jsonb_build_object('code', e->'code', 'message', 'erased', 'type', e->'type',
                                                           'retryable', e->'retryable', 'timestamp', e->'timestamp') END
$$;
-- +migrate StatementEnd

-- Interventions without the JSON that operators gave; views count by the rest.
-- +migrate StatementBegin
CREATE FUNCTION saga.erased_interventions(i jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog AS $$
    SELECT CASE WHEN i ? 'steps' THEN jsonb_set(i #- '{order,output}', '{steps}', coalesce(
                    (SELECT jsonb_object_agg(s.k, s.v #- '{input}' #- '{next,input}') FROM jsonb_each(i->'steps') AS s (k, v)), '{}'))
                ELSE i #- '{order,output}' END
$$;
-- +migrate StatementEnd

-- Nobody changes an event but saga.purge_events, also in the archive, and that only as
-- the next function allows.
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.refuse_audit_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND TG_TABLE_NAME LIKE 'audit\_events%' AND current_setting('skald.erasing', true) = 'on' THEN
        RETURN NULL;
    END IF;
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END;
$$;
-- +migrate StatementEnd

-- An event may lose the content of its error, and nothing else may happen to it; and
-- only after an event of its saga that names it, and the digest of what remains.
-- +migrate StatementBegin
CREATE FUNCTION saga.guard_audit_event() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RETURN NEW;
    END IF;
    IF NEW.error = saga.erased_error(OLD.error) AND to_jsonb(NEW) - 'error' = to_jsonb(OLD) - 'error'
       AND EXISTS (SELECT FROM saga.every_audit_event x WHERE x.tenant_id = OLD.tenant_id AND x.saga_id = OLD.saga_id
                      AND x.event_type = 'saga.erased' AND x.event_data->'erased_events' ? OLD.id::text) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END;
$$;
-- +migrate StatementEnd
CREATE TRIGGER guard_audit_event BEFORE UPDATE ON saga.audit_events
    FOR EACH ROW EXECUTE FUNCTION saga.guard_audit_event();
CREATE TRIGGER guard_audit_event BEFORE UPDATE ON saga.audit_events_archive
    FOR EACH ROW EXECUTE FUNCTION saga.guard_audit_event();

-- An ended saga may lose its content, and nothing else may happen to it. The version
-- grows: whoever read the saga before, to reopen it, has to read it again.
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.refuse_transition() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF NEW.payload = '{"$skald_erased": true}' AND NEW.state = OLD.state AND NEW.version = OLD.version + 1
       AND OLD.completed_at IS NOT NULL AND NEW.completed_at = OLD.completed_at THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'saga %: state % cannot become %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'check_violation';
END;
$$;
-- +migrate StatementEnd

-- Erases the contents of sagas, dead letters and job runs of one tenant, with all that
-- belongs to the sagas, live or archived. Changes nothing if any of it is active, and
-- says what. Letters of sagas and runs are found by of_terms. Locks in the order of everybody else: runs, letters, sagas. The events are
-- left: saga.purge_events erases them once it is recorded which.
-- +migrate StatementBegin
CREATE FUNCTION saga.purge_contents(of_tenant uuid, of_sagas uuid[], of_letters uuid[], of_runs uuid[], of_terms integer[]) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    marker constant jsonb := '{"$skald_erased": true}';
    heads uuid[];      -- of live sagas
    old_heads uuid[];  -- of archived ones
    since timestamptz;
    active jsonb;
    logs integer;
    n integer;
    deliveries integer;
BEGIN
    SELECT coalesce(array_agg(r.id), '{}') INTO of_runs FROM (
        SELECT id FROM jobs.job_runs WHERE tenant_id = of_tenant AND id = ANY (of_runs)
        UNION SELECT id FROM jobs.job_runs WHERE tenant_id = of_tenant AND saga_id = ANY (of_sagas)) r;
    SELECT coalesce(array_agg(m.id), '{}') INTO of_letters FROM (
        SELECT id FROM dlq.dlq_messages WHERE tenant_id = of_tenant AND id = ANY (of_letters)
        UNION SELECT id FROM dlq.dlq_messages_archive WHERE tenant_id = of_tenant AND id = ANY (of_letters)
        UNION SELECT id FROM dlq.dlq_messages WHERE tenant_id = of_tenant AND terms && of_terms AND saga_id = ANY (of_sagas)
        UNION SELECT id FROM dlq.dlq_messages_archive WHERE tenant_id = of_tenant AND terms && of_terms AND saga_id = ANY (of_sagas)
        UNION SELECT id FROM dlq.dlq_messages WHERE tenant_id = of_tenant AND terms && of_terms AND job_run_id = ANY (of_runs)
        UNION SELECT id FROM dlq.dlq_messages_archive WHERE tenant_id = of_tenant AND terms && of_terms AND job_run_id = ANY (of_runs)) m;
    -- A retry of a letter may be a run, with the letter's content.
    SELECT coalesce(array_agg(r.id), '{}') INTO of_runs FROM (
        SELECT unnest(of_runs) AS id
        UNION SELECT id FROM jobs.job_runs WHERE tenant_id = of_tenant AND letter_id = ANY (of_letters)) r;

    PERFORM id FROM jobs.job_runs WHERE tenant_id = of_tenant AND id = ANY (of_runs) ORDER BY id FOR UPDATE;
    PERFORM id FROM dlq.dlq_messages WHERE tenant_id = of_tenant AND id = ANY (of_letters) ORDER BY id FOR UPDATE;
    PERFORM id FROM saga.saga_states WHERE tenant_id = of_tenant AND id = ANY (of_sagas) ORDER BY id FOR UPDATE;
    PERFORM id FROM saga.saga_states_archive WHERE tenant_id = of_tenant AND id = ANY (of_sagas) ORDER BY id FOR UPDATE;
    SELECT array_agg(id), min(created_at) INTO heads, since FROM saga.saga_states WHERE tenant_id = of_tenant AND id = ANY (of_sagas);
    SELECT array_agg(id), least(since, min(created_at)) INTO old_heads, since
      FROM saga.saga_states_archive WHERE tenant_id = of_tenant AND id = ANY (of_sagas);

    active := jsonb_build_object(
        'active_sagas', (SELECT array_agg(id ORDER BY id) FROM saga.saga_states
                          WHERE tenant_id = of_tenant AND id = ANY (heads) AND (completed_at IS NULL OR needs_attention)),
        'active_letters', (SELECT array_agg(id ORDER BY id) FROM dlq.dlq_messages
                            WHERE tenant_id = of_tenant AND id = ANY (of_letters) AND terminal_at IS NULL),
        'active_runs', (SELECT array_agg(id ORDER BY id) FROM jobs.job_runs
                         WHERE tenant_id = of_tenant AND id = ANY (of_runs) AND finished_at IS NULL));
    IF jsonb_strip_nulls(active) <> '{}' THEN
        RETURN active;
    END IF;

    UPDATE saga.saga_states SET payload = marker, result_data = CASE WHEN result_data IS NOT NULL THEN marker END,
           error = saga.erased_error(error), interventions = saga.erased_interventions(interventions),
           metadata = NULL, name = NULL, description = NULL, version = version + 1, updated_at = now()
     WHERE tenant_id = of_tenant AND id = ANY (heads);
    UPDATE saga.saga_states_archive SET payload = marker, result_data = CASE WHEN result_data IS NOT NULL THEN marker END,
           error = saga.erased_error(error), error_message = saga.erased_error(error)->>'message',
           interventions = saga.erased_interventions(interventions),
           metadata = NULL, name = NULL, description = NULL, version = version + 1, updated_at = now()
     WHERE tenant_id = of_tenant AND id = ANY (old_heads);
    UPDATE saga.saga_step_logs SET request_payload = CASE WHEN request_payload IS NOT NULL THEN marker END,
           response_payload = CASE WHEN response_payload IS NOT NULL THEN marker END, error = saga.erased_error(error), updated_at = now()
     WHERE tenant_id = of_tenant AND saga_id = ANY (heads);
    GET DIAGNOSTICS logs = ROW_COUNT;
    UPDATE saga.saga_step_logs_archive SET request_payload = CASE WHEN request_payload IS NOT NULL THEN marker END,
           response_payload = CASE WHEN response_payload IS NOT NULL THEN marker END,
           error = saga.erased_error(error), error_message = saga.erased_error(error)->>'message', updated_at = now()
     WHERE tenant_id = of_tenant AND saga_id = ANY (old_heads);
    GET DIAGNOSTICS n = ROW_COUNT;
    logs := logs + n;
    -- CASE, so that no other text is taken for JSON. The time is for the index.
    UPDATE saga.webhook_deliveries SET body = jsonb_set(body::jsonb, '{data,error}', saga.erased_error(body::jsonb #> '{data,error}'))::text,
           error = CASE WHEN error IS NOT NULL THEN 'erased' END
     WHERE tenant_id = of_tenant AND saga_id = ANY (of_sagas) AND created_at >= since - interval '1 hour'
       AND CASE WHEN saga_id IS NOT NULL THEN body::jsonb #> '{data,error}' IS NOT NULL ELSE false END;
    GET DIAGNOSTICS deliveries = ROW_COUNT;

    UPDATE jobs.job_runs SET args = NULL, progress = NULL, checkpoint = NULL, result = NULL,
           error = saga.erased_error(error), error_summary = CASE WHEN error_summary IS NOT NULL THEN 'erased' END, updated_at = now()
     WHERE tenant_id = of_tenant AND id = ANY (of_runs);
    DELETE FROM jobs.job_run_logs WHERE tenant_id = of_tenant AND run_id = ANY (of_runs);

    -- Letters have ended and nobody may retry them without their content, so they go.
    UPDATE dlq.dlq_groups SET message = 'erased', updated_at = now() WHERE tenant_id = of_tenant AND sample_id = ANY (of_letters);
    UPDATE dlq.dlq_redrive_items SET detail = '' WHERE tenant_id = of_tenant AND message_id = ANY (of_letters) AND detail <> '';
    UPDATE dlq.dlq_redrives SET last_error = '' WHERE tenant_id = of_tenant AND last_error <> ''
       AND id IN (SELECT redrive_id FROM dlq.dlq_redrive_items WHERE tenant_id = of_tenant AND message_id = ANY (of_letters));
    DELETE FROM dlq.dlq_attempts WHERE tenant_id = of_tenant AND message_id = ANY (of_letters);
    DELETE FROM dlq.dlq_revisions WHERE tenant_id = of_tenant AND message_id = ANY (of_letters);
    DELETE FROM dlq.dlq_messages WHERE tenant_id = of_tenant AND id = ANY (of_letters);
    DELETE FROM dlq.dlq_messages_archive WHERE tenant_id = of_tenant AND id = ANY (of_letters);

    -- Answers kept for Idempotency-Keys may repeat any of it, and do not say what they
    -- are about. Their keys still keep a request from taking effect twice.
    UPDATE saga.idempotency_answers SET body = NULL, withheld = true
     WHERE tenant_id = of_tenant AND body IS NOT NULL AND route NOT LIKE '%/admin/erasures';

    RETURN jsonb_build_object('erased_sagas', coalesce(heads, '{}') || coalesce(old_heads, '{}'), 'sagas',
        coalesce(cardinality(heads), 0) + coalesce(cardinality(old_heads), 0),
        'step_logs', logs, 'dead_letters', cardinality(of_letters), 'job_runs', cardinality(of_runs), 'webhook_deliveries', deliveries);
END;
$$;
-- +migrate StatementEnd

-- +migrate StatementBegin
CREATE FUNCTION saga.purge_events(of_tenant uuid, events bigint[], of_sagas uuid[]) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    erased integer;
    n integer;
BEGIN
    -- Not a SET clause of the function: only superusers may write one for a custom parameter.
    PERFORM set_config('skald.erasing', 'on', true);
    UPDATE saga.audit_events SET error = saga.erased_error(error)
     WHERE tenant_id = of_tenant AND saga_id = ANY (of_sagas) AND id = ANY (events);
    GET DIAGNOSTICS erased = ROW_COUNT;
    UPDATE saga.audit_events_archive SET error = saga.erased_error(error)
     WHERE tenant_id = of_tenant AND saga_id = ANY (of_sagas) AND id = ANY (events);
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM set_config('skald.erasing', 'off', true);
    RETURN erased + n;
END;
$$;
-- +migrate StatementEnd
SELECT saga.secure_tables();

INSERT INTO saga.saga_schema_version (version, description) VALUES (220, 'erasure of contents');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 220;
DROP FUNCTION IF EXISTS saga.purge_events(uuid, bigint[], uuid[]);
DROP FUNCTION IF EXISTS saga.purge_contents(uuid, uuid[], uuid[], uuid[], integer[]);
DROP TRIGGER IF EXISTS guard_audit_event ON saga.audit_events_archive;
DROP TRIGGER IF EXISTS guard_audit_event ON saga.audit_events;
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.refuse_audit_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END;
$$;
-- +migrate StatementEnd
DROP FUNCTION IF EXISTS saga.guard_audit_event();
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.refuse_transition() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    RAISE EXCEPTION 'saga %: state % cannot become %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'check_violation';
END;
$$;
-- +migrate StatementEnd
DROP FUNCTION IF EXISTS saga.erased_interventions(jsonb);
DROP FUNCTION IF EXISTS saga.erased_error(jsonb);
