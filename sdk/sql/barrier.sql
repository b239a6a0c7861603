-- The rules of participants (docs/participants.md) as functions of PostgreSQL, for languages without
-- a library. In one transaction, for each call of Skald:
--
--   1. SELECT verdict, status, body FROM skald_begin(tenant, saga, step, action, key, fence, digest);
--      the values of the headers as received, and any digest of the body, such as the hex of its SHA-256.
--   2. verdict 'answer': answer with status and body, after COMMIT. You are done.
--      verdict 'perform': SAVEPOINT work, and do what the call asks for, in this transaction.
--   3. SELECT skald_keep(tenant, saga, step, action, key, fence, digest, status, body), COMMIT, and only then
--      answer with that status and body. To refuse: ROLLBACK TO work before, and keep your 4xx.
--      If the call failed: ROLLBACK TO work, COMMIT, and answer with 500. What skald_begin has written says that
--      the call has come: a copy of it that arrives after its compensation is refused.
--
-- A concurrent call of the same step waits in skald_begin. A signature is verified before.

CREATE TABLE skald_calls (
    id         varchar(600) COLLATE "C" PRIMARY KEY,
    state      text         NOT NULL,
    changed_at bigint       NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX skald_calls_changed_at ON skald_calls (changed_at);

-- skald_run is n of a key that ends in #n, otherwise 1.
CREATE FUNCTION skald_run(call_key text) RETURNS integer LANGUAGE sql IMMUTABLE AS
$$ SELECT coalesce(substring(call_key FROM '#([0-9]{1,9})$')::integer, 1) $$;

CREATE FUNCTION skald_begin(
    call_tenant text, call_saga text, call_step text, call_action text, call_key text, call_fence bigint,
    call_digest text, OUT verdict text, OUT status integer, OUT body text
) LANGUAGE plpgsql AS $$
DECLARE
    row_id  text := call_saga || '/' || call_tenant || '/' || call_step;
    stored  text;
    s       jsonb;
    known   jsonb;
    run     integer := skald_run(call_key);
    seen    integer;
    blocked integer;
BEGIN
    INSERT INTO skald_calls (id, state, changed_at) VALUES (row_id, '', extract(epoch FROM now())::bigint)
    ON CONFLICT (id) DO UPDATE SET changed_at = excluded.changed_at RETURNING state INTO stored;
    s := coalesce(nullif(stored, ''), '{}')::jsonb;
    seen := coalesce((s ->> 'seen')::integer, 0);
    blocked := coalesce((s ->> 'blocked')::integer, 0);
    known := s -> 'calls' -> call_key;
    verdict := 'answer';
    IF call_fence < coalesce((s ->> 'fence')::bigint, 0) THEN
        status := 409;
        body := '{"code":"OLDER_FENCE","message":"another node has taken over this saga: the call is late"}';
        RETURN;
    ELSIF known ->> 'digest' <> call_digest THEN
        status := 422;
        body := '{"code":"KEY_REUSED","message":"the key came with another body before"}';
        RETURN;
    END IF;
    s := s || jsonb_build_object('fence', call_fence);
    IF known IS NOT NULL THEN
        status := (known ->> 'status')::integer;
        body := coalesce(known ->> 'body', '');
    ELSIF call_action = 'compensate' AND coalesce((s ->> 'done')::integer, 0) = 0 THEN
        -- Nothing is to be undone, but from now on it must not be done. If no execute has come since the
        -- compensation before, this one is for a run that never arrived: the next.
        status := 200;
        body := '{}';
        s := s || jsonb_build_object(
            'blocked', greatest(CASE WHEN seen > blocked THEN seen ELSE blocked + 1 END, run));
    ELSIF call_action = 'compensate' THEN
        -- No more is closed than has arrived: the run of a compensation may be ahead of that of its execute.
        verdict := 'perform';
        s := s || jsonb_build_object('blocked', greatest(blocked, seen));
    ELSIF run <= blocked THEN
        status := 409;
        body := '{"code":"ALREADY_COMPENSATED","message":"the step was compensated before"}';
    ELSIF run < seen THEN
        status := 409;
        body := '{"code":"SUPERSEDED","message":"an operator has replaced this call by another one"}';
    ELSE
        verdict := 'perform';
        s := s || jsonb_build_object('seen', run);
    END IF;
    UPDATE skald_calls SET state = s::text WHERE id = row_id;
    IF verdict = 'answer' AND known IS NULL AND call_action = 'compensate' THEN
        PERFORM skald_keep(
            call_tenant, call_saga, call_step, call_action, call_key, call_fence, call_digest, status, body);
    END IF;
END $$;

CREATE FUNCTION skald_keep(
    call_tenant text, call_saga text, call_step text, call_action text, call_key text, call_fence bigint,
    call_digest text, answer_status integer, answer_body text
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    row_id text := call_saga || '/' || call_tenant || '/' || call_step;
    s      jsonb;
BEGIN
    -- A refused compensation is not kept: it comes again with the same key when the participant is repaired.
    IF call_action = 'compensate' AND answer_status >= 300 THEN
        RETURN;
    END IF;
    SELECT state::jsonb INTO STRICT s FROM skald_calls WHERE id = row_id FOR UPDATE;
    s := s || jsonb_build_object('calls', coalesce(s -> 'calls', '{}') || jsonb_build_object(
        call_key, jsonb_build_object('digest', call_digest, 'status', answer_status, 'body', answer_body)));
    IF answer_status < 300 THEN
        s := s || jsonb_build_object('done', CASE call_action WHEN 'execute' THEN skald_run(call_key) ELSE 0 END);
    END IF;
    UPDATE skald_calls SET state = s::text WHERE id = row_id;
END $$;
