-- The rules of participants (docs/participants.md) as functions of PostgreSQL, for languages
-- without a library. For each call of Skald, in one transaction:
--
--   1. SELECT verdict, status, body
--      FROM skald_begin(tenant, saga, step, action, key, fence, digest, attempt, callback);
--      with the values of the headers as received and any digest of the body, such as its SHA-256 in
--      hexadecimal. attempt and callback may be omitted if you never answer later.
--   2. verdict 'answer': answer with status and body after COMMIT; nothing else is left to do.
--      verdict 'perform': SAVEPOINT work, and do what the call asks for in this transaction.
--      verdict 'cancel': SAVEPOINT work, and undo what you wrote when you answered later; see
--      below.
--   3. SELECT skald_keep(tenant, saga, step, action, key, fence, digest, status, body), COMMIT, and
--      only then answer with that status and body. To refuse the call, ROLLBACK TO work first, and
--      keep your 4xx. If the call failed: ROLLBACK TO work, COMMIT, and answer with 500. The row
--      written by skald_begin records that the call arrived, so a copy that arrives after the
--      compensation is refused.
--
-- A concurrent call of the same step waits in skald_begin. Verify signatures before calling it.
--
-- To answer later, note the work and its key instead of doing it, and replace skald_keep by
--
--   3. SELECT skald_later(the nine values of skald_begin), COMMIT, and answer with 202 and
--      {"later":true}. Until the work is finished, repeated calls get that answer from skald_begin.
--   4. A worker does the work in a transaction of its own, which ends with SELECT callback, report
--      FROM skald_finish(key, status, body), with the status and body that would have answered the
--      call: 200 and the output, your 4xx, 425 if nothing was applied and the call may be retried,
--      or 500. If it is not 200, remove the note in the same transaction.
--   5. COMMIT, and only then POST report to callback, as application/json. If the report is lost,
--      no harm is done: Skald repeats the call and gets the answer.
--
-- skald_finish fails if the work must not take effect, which rolls the transaction back: with
-- SQLSTATE SK409 if the step was compensated or the call replaced meanwhile, with SK404 if no such
-- call is waiting, for example because its work was finished before. skald_callback(key) returns
-- the URL for heartbeats, and fails in the same way if the work is no longer needed.

CREATE TABLE skald_calls (
    id         varchar(600) COLLATE "C" PRIMARY KEY,
    state      text         NOT NULL,
    changed_at bigint       NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX skald_calls_changed_at ON skald_calls (changed_at);

-- skald_run returns n for a key that ends in #n, otherwise 1.
CREATE FUNCTION skald_run(call_key text) RETURNS integer LANGUAGE sql IMMUTABLE AS
$$ SELECT coalesce(substring(call_key FROM '#([0-9]{1,9})$')::integer, 1) $$;

-- skald_note returns the id of the row that says to which step the key of a call that was answered
-- later belongs. The ids of rows of steps contain a slash.
CREATE FUNCTION skald_note(call_key text) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT 'later:' || encode(sha256(convert_to(call_key, 'UTF8')), 'hex') $$;

CREATE FUNCTION skald_begin(
    call_tenant text, call_saga text, call_step text, call_action text, call_key text, call_fence bigint,
    call_digest text, call_attempt integer DEFAULT 1, call_callback text DEFAULT '',
    OUT verdict text, OUT status integer, OUT body text
) LANGUAGE plpgsql AS $$
DECLARE
    row_id  text := call_saga || '/' || call_tenant || '/' || call_step;
    stored  text;
    s       jsonb;
    known   jsonb;
    run     integer := skald_run(call_key);
    seen    integer;
    blocked integer;
    done    integer;
    pending boolean; -- the newest execute was answered later and is neither finished nor compensated
BEGIN
    INSERT INTO skald_calls (id, state, changed_at) VALUES (row_id, '', extract(epoch FROM now())::bigint)
    ON CONFLICT (id) DO UPDATE SET changed_at = excluded.changed_at RETURNING state INTO stored;
    s := coalesce(nullif(stored, ''), '{}')::jsonb;
    seen := coalesce((s ->> 'seen')::integer, 0);
    blocked := coalesce((s ->> 'blocked')::integer, 0);
    done := coalesce((s ->> 'done')::integer, 0);
    known := s -> 'calls' -> call_key;
    pending := jsonb_path_exists(s, '$.calls.*.later ? (@.action == "execute" && @.run == $seen && !(@.over == true))',
        jsonb_build_object('seen', seen));
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
    IF known IS NOT NULL AND known -> 'later' IS NULL THEN
        status := (known ->> 'status')::integer;
        body := coalesce(known ->> 'body', '');
    ELSIF call_action = 'execute' AND run <= blocked THEN
        status := 409;
        body := '{"code":"ALREADY_COMPENSATED","message":"the step was compensated before"}';
    ELSIF call_action = 'execute' AND run < seen THEN
        status := 409;
        body := '{"code":"SUPERSEDED","message":"an operator has replaced this call by another one"}';
    ELSIF known IS NOT NULL AND coalesce(call_callback, '') = '' THEN
        status := 503; -- Skald would interpret 202 as success
        body := '{"code":"STILL_AT_WORK","message":"the call was answered later, but this one has no X-Saga-Callback"}';
    ELSIF known IS NOT NULL THEN
        status := known -> 'status';
        body := known ->> 'body';
        IF call_attempt >= (known -> 'later' -> 'attempt')::integer THEN -- attempts may overtake each other
            s := jsonb_set(s, ARRAY['calls', call_key, 'later'], known -> 'later' || jsonb_build_object(
                'callback', call_callback, 'attempt', call_attempt));
        END IF;
    ELSIF jsonb_path_exists(s, '$.calls.*.later ? (@.action == "compensate")') THEN
        status := 425; -- what it undoes must not change meanwhile
        body := '{"code":"NOT_APPLIED","message":"a compensation of the step goes on"}';
    ELSIF call_action = 'compensate' AND done = 0 AND NOT pending THEN
        -- There is nothing to undo, but from now on it must not be done. If no execute has arrived
        -- since the previous compensation, this one belongs to a run that never arrived: the next
        -- one.
        status := 200;
        body := '{}';
        s := s || jsonb_build_object(
            'blocked', greatest(CASE WHEN seen > blocked THEN seen ELSE blocked + 1 END, run));
    ELSIF call_action = 'compensate' THEN
        -- Only runs that have arrived are closed: the run of a compensation may be higher than that
        -- of its execute.
        verdict := CASE done WHEN 0 THEN 'cancel' ELSE 'perform' END;
        s := s || jsonb_build_object('blocked', greatest(blocked, seen));
    ELSE
        verdict := 'perform';
        s := s || jsonb_build_object('seen', run);
    END IF;
    UPDATE skald_calls SET state = s::text WHERE id = row_id;
    IF verdict = 'answer' AND known IS NULL AND call_action = 'compensate' AND status = 200 THEN
        PERFORM skald_keep(
            call_tenant, call_saga, call_step, call_action, call_key, call_fence, call_digest, status, body);
    END IF;
END $$;

-- skald_store records the answer of a call if repeated calls must get it. That does not apply to a
-- refused compensation: it comes again with the same key after the participant is repaired.
CREATE FUNCTION skald_store(
    row_id text, call_action text, call_key text, call_digest text, answer_status integer, answer_body text
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    s     jsonb;
    calls jsonb;
BEGIN
    SELECT state::jsonb INTO STRICT s FROM skald_calls WHERE id = row_id FOR UPDATE;
    calls := coalesce(s -> 'calls', '{}') - call_key;
    IF answer_status < 300 OR call_action = 'execute' AND skald_refuses(answer_status) THEN
        calls := calls || jsonb_build_object(call_key, jsonb_build_object(
            'digest', call_digest, 'status', answer_status, 'body', answer_body));
    END IF;
    IF answer_status < 300 AND call_action = 'execute' THEN
        s := s || jsonb_build_object('done', skald_run(call_key));
    ELSIF answer_status < 300 THEN -- there is nothing left to undo, including work that was only begun
        s := s || '{"done": 0}';
        SELECT jsonb_object_agg(key, CASE value #>> '{later,action}'
            WHEN 'execute' THEN jsonb_set(value, '{later,over}', 'true') ELSE value END)
        INTO calls FROM jsonb_each(calls);
    END IF;
    UPDATE skald_calls SET state = (s || jsonb_build_object('calls', calls))::text WHERE id = row_id;
END $$;

CREATE FUNCTION skald_refuses(status integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT status BETWEEN 400 AND 499 AND status NOT IN (408, 425, 429) $$;

CREATE FUNCTION skald_keep(
    call_tenant text, call_saga text, call_step text, call_action text, call_key text, call_fence bigint,
    call_digest text, answer_status integer, answer_body text
) RETURNS void LANGUAGE sql AS $$
    SELECT skald_store(
        call_saga || '/' || call_tenant || '/' || call_step, call_action, call_key, call_digest, answer_status,
        answer_body)
$$;

CREATE FUNCTION skald_later(
    call_tenant text, call_saga text, call_step text, call_action text, call_key text, call_fence bigint,
    call_digest text, call_attempt integer, call_callback text
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    row_id text := call_saga || '/' || call_tenant || '/' || call_step;
BEGIN
    IF coalesce(call_callback, '') = '' THEN
        RAISE EXCEPTION 'answered later without X-Saga-Callback: the definition of the step has no answer.later';
    END IF;
    UPDATE skald_calls SET state = (state::jsonb || jsonb_build_object('calls',
        coalesce(state::jsonb -> 'calls', '{}') || jsonb_build_object(call_key, jsonb_build_object(
            'digest', call_digest, 'status', 202, 'body', '{"later":true}', 'later', jsonb_build_object(
                'callback', call_callback, 'attempt', call_attempt, 'action', call_action, 'run', skald_run(call_key))
        ))))::text WHERE id = row_id;
    INSERT INTO skald_calls (id, state, changed_at)
    VALUES (skald_note(call_key), row_id, extract(epoch FROM now())::bigint)
    ON CONFLICT (id) DO UPDATE SET changed_at = excluded.changed_at;
END $$;

CREATE FUNCTION skald_callback(call_key text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    s    jsonb;
    work jsonb;
BEGIN
    SELECT step.state::jsonb INTO s FROM skald_calls note JOIN skald_calls step ON step.id = note.state
    WHERE note.id = skald_note(call_key);
    work := s -> 'calls' -> call_key -> 'later';
    IF work IS NULL THEN
        RAISE EXCEPTION 'no call with the key % is waiting for its answer', call_key USING ERRCODE = 'SK404';
    ELSIF work ->> 'action' = 'execute'
        AND skald_run(call_key) < greatest((s ->> 'seen')::integer, coalesce((s ->> 'blocked')::integer, 0) + 1) THEN
        RAISE EXCEPTION 'the call % was compensated or replaced while the work went on', call_key
            USING ERRCODE = 'SK409';
    END IF;
    RETURN work ->> 'callback';
END $$;

CREATE FUNCTION skald_finish(
    call_key text, answer_status integer, answer_body text, OUT callback text, OUT report text
) LANGUAGE plpgsql AS $$
DECLARE
    row_id text;
    known  jsonb;
    result text := CASE
        WHEN answer_status < 300 THEN 'done'
        WHEN answer_status IN (425, 429) THEN 'not_applied'
        WHEN skald_refuses(answer_status) THEN 'refused'
        ELSE 'unknown' END;
BEGIN
    SELECT state INTO row_id FROM skald_calls WHERE id = skald_note(call_key);
    UPDATE skald_calls SET changed_at = extract(epoch FROM now())::bigint WHERE id = row_id
    RETURNING state::jsonb -> 'calls' -> call_key INTO known; -- other calls of the step wait from here on
    callback := skald_callback(call_key);
    PERFORM skald_store(
        row_id, known -> 'later' ->> 'action', call_key, known ->> 'digest', answer_status, coalesce(answer_body, ''));
    report := CASE
        WHEN coalesce(answer_body, '') = '' OR result = 'done' AND known -> 'later' ->> 'action' = 'compensate'
            THEN json_build_object('result', result)
        WHEN result = 'done' THEN json_build_object('result', result, 'output', answer_body::json)
        ELSE json_build_object('result', result, 'error', answer_body::json) END;
END $$;
