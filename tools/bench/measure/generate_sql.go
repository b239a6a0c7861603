package measure

// A generated saga depends only on its number, so that two runs with the same figures generate
// the same data; only times depend on the clock.

// generateHelpers last as long as their connection. u is a number in [0, 1) and v7 a UUID of
// version 7 for a time, both determined by a number and a salt.
const generateHelpers = `
CREATE OR REPLACE FUNCTION pg_temp.u(i bigint, salt bigint) RETURNS float8 LANGUAGE sql IMMUTABLE AS
$$ SELECT (hashint8extended(i, salt) & 1073741823) / 1073741824.0::float8 $$;
CREATE OR REPLACE FUNCTION pg_temp.v7(at timestamptz, i bigint, salt bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS
$$ SELECT (lpad(to_hex((date_part('epoch', at) * 1000)::bigint), 12, '0') || '7' ||
           lpad(to_hex(hashint8extended(i, salt) & 4095), 3, '0') || to_hex(8 + (hashint8extended(i, salt) >> 20 & 3)) ||
           lpad(to_hex(hashint8extended(i, salt + 1) & 1152921504606846975), 15, '0'))::uuid $$`

// generatePiece determines the sagas $1 to $2 of $3; they were created between $4 and $5 and
// have $6 steps. $7 is the tenant of four in five of them, $8 contains the others; $9 are the
// workflows, whose share decreases with their position, and each has six callers.
//
// Of the latest fiftieth a quarter is unfinished. Of the others 97.3 % are completed, 1.45 %
// compensated, 0.7 % cancelled, 0.5 % timed out and 0.05 % failed. bad is the step at which a
// saga began to compensate or is now, again the step that needed a second attempt.
const generatePiece = `
CREATE TEMPORARY TABLE generated ON COMMIT DROP AS
SELECT i, pg_temp.v7(created_at, i, 1) AS id, created_at, state, CASE WHEN state IN (4, 6) THEN greatest(bad0, 1) ELSE bad0 END AS bad,
       CASE WHEN pg_temp.u(i, 3) < 0.8 THEN $7::uuid ELSE ($8::uuid[])[1 + floor(pg_temp.u(i, 4) * cardinality($8::uuid[]))::int] END AS tenant_id,
       ($9::text[])[1 + wf] AS workflow_name,
       CASE WHEN i % 20000 = 7 THEN 'back-office' ELSE 'service-' || (wf + floor(6 * pg_temp.u(i, 6) ^ 2)::int) % 24 END AS initiated_by,
       CASE WHEN state = 3 AND pg_temp.u(i, 7) < 0.03 THEN floor(pg_temp.u(i, 8) * $6)::int END AS again,
       created_at + lasted AS ended_at, lasted / (2 * $6::int) AS slice
  FROM (SELECT i, $4::timestamptz + ((i - pg_temp.u(i, 5)) / $3::float8) * ($5::timestamptz - $4::timestamptz) AS created_at,
               least(floor(20 * pg_temp.u(i, 2) ^ 2)::int, cardinality($9::text[]) - 1) AS wf,
               CASE WHEN i > $3 * 0.98 AND pg_temp.u(i, 9) < 0.25
                    THEN (ARRAY[0, 1, 1, 1, 1, 2, 2, 4, 4, 4])[1 + floor(pg_temp.u(i, 10) * 10)::int]
                    ELSE CASE WHEN pg_temp.u(i, 11) < 0.973 THEN 3 WHEN pg_temp.u(i, 11) < 0.9875 THEN 5 WHEN pg_temp.u(i, 11) < 0.988 THEN 6
                              WHEN pg_temp.u(i, 11) < 0.995 THEN 7 ELSE 8 END
               END AS state,
               floor(pg_temp.u(i, 12) * $6)::int AS bad0,
               CASE WHEN pg_temp.u(i, 13) < 0.02 THEN interval '1 minute' + pg_temp.u(i, 14) * interval '6 hours'
                    ELSE interval '50 ms' + pg_temp.u(i, 14) ^ 4 * interval '20 seconds' END AS lasted
          FROM generate_series($1::bigint, $2::bigint) AS i) AS decided`

// generateSagas stores the heads of a piece. Unfinished ones wait for a retry far in the
// future, so that a server on this data makes no calls.
const generateSagas = `
INSERT INTO saga.saga_states (
       id, tenant_id, workflow_name, workflow_version, saga_type, total_steps, current_step, state, payload, correlation_id, initiated_by,
       trace_id, span_id, business_key, metadata, error, created_at, updated_at, started_at, completed_at, timed_out_at, cancel_requested_at,
       clean, end_cause, needs_attention, attention_reason, version, step_attempt, step_failures, next_run_at, timeout_ms, timeout_at,
       compensation_timeout_ms, compensation_timeout_at)
SELECT id, tenant_id, workflow_name, 1, workflow_name, $1::int,
       CASE state WHEN 3 THEN $1 WHEN 0 THEN 0 WHEN 5 THEN 0 WHEN 7 THEN 0 WHEN 8 THEN 0 WHEN 6 THEN bad - 1 WHEN 4 THEN bad - 1 ELSE bad END,
       state, jsonb_build_object('order_id', 'o-' || i, 'amount', round((pg_temp.u(i, 20) * 500)::numeric, 2), 'quantity', 1 + i % 5,
                                 'customer', jsonb_build_object('id', 'c-' || i % 50000, 'country', (ARRAY['se', 'jp', 'de', 'us'])[1 + i % 4])),
       CASE WHEN pg_temp.u(i, 21) < 0.7 THEN 'corr-' || i / 2 END, initiated_by,
       CASE WHEN pg_temp.u(i, 22) < 0.9 THEN md5(i::text) END, CASE WHEN pg_temp.u(i, 22) < 0.9 THEN left(md5(i::text), 16) END,
       CASE WHEN i % 2 = 0 THEN 'order-' || CASE WHEN ended THEN i / 3 ELSE i END END, -- unfinished ones have theirs alone
       CASE WHEN pg_temp.u(i, 23) < 0.4 THEN jsonb_build_object('region', (ARRAY['eu', 'us', 'ap'])[1 + i % 3], 'customer', i % 50000)
            || CASE WHEN pg_temp.u(i, 24) < 0.01 THEN '{"priority": "high"}'::jsonb ELSE '{}'::jsonb END END,
       CASE WHEN state IN (4, 5, 6, 7, 8) THEN jsonb_build_object('code', CASE state WHEN 7 THEN 'CANCELLED' WHEN 8 THEN 'DEADLINE' ELSE 'HTTP_409' END,
            'message', CASE state WHEN 7 THEN 'cancelled by a user' WHEN 8 THEN 'the deadline has passed' ELSE 'the participant refused' END,
            'type', CASE state WHEN 7 THEN 'cancelled' WHEN 8 THEN 'deadline' ELSE 'refused' END, 'retryable', false, 'timestamp', created_at + lasted) END,
       created_at, created_at + lasted, created_at, CASE WHEN ended THEN created_at + lasted END,
       CASE WHEN state = 8 THEN created_at + lasted END, CASE WHEN state = 7 THEN created_at + lasted END,
       CASE WHEN ended THEN state <> 6 END, CASE WHEN state IN (4, 5, 6) THEN 'step_failed' WHEN state = 7 THEN 'cancelled' WHEN state = 8 THEN 'deadline' END,
       state = 6, CASE WHEN state = 6 THEN 'compensation failed' END,
       1 + $1 + (again IS NOT NULL)::int, CASE WHEN state IN (1, 4) THEN 2 WHEN state IN (0, 2) THEN 0 ELSE 1 END, CASE WHEN state IN (1, 4) THEN 1 ELSE 0 END,
       CASE WHEN NOT ended THEN now() + interval '365 days' END, 31536000000, CASE WHEN ended THEN created_at ELSE now() END + interval '365 days',
       31536000000, CASE WHEN state IN (4, 5, 6, 7, 8) THEN CASE WHEN ended THEN created_at ELSE now() END + interval '365 days' END
  FROM (SELECT *, ended_at - created_at AS lasted, state IN (3, 5, 6, 7, 8) AS ended FROM generated) AS g`

// generateLogs stores their step logs: the executed steps up to the end or to bad, the failed
// attempt there, and the compensations.
const generateLogs = `
INSERT INTO saga.saga_step_logs (id, saga_id, tenant_id, step_index, step_name, action, attempt, status, final, outcome_code,
       request_payload, response_payload, error, started_at, completed_at, duration_ms, updated_at)
SELECT pg_temp.v7(at, i * 64 + n * 2 + attempt, 30), id, tenant_id, k, ($2::text[])[1 + k], action, attempt, status, final,
       CASE status WHEN 'SUCCESS' THEN 'HTTP_200' WHEN 'TIMEOUT' THEN 'TIMEOUT' WHEN 'FAILED' THEN CASE WHEN final THEN 'HTTP_409' ELSE 'HTTP_503' END END,
       jsonb_build_object('saga_id', id, 'step', ($2::text[])[1 + k], 'action', lower(action)),
       CASE WHEN status = 'SUCCESS' THEN jsonb_build_object('reference', 'r-' || i || '-' || k, 'accepted', true) END,
       CASE WHEN status IN ('FAILED', 'TIMEOUT') THEN jsonb_build_object('code', CASE WHEN final THEN 'HTTP_409' ELSE 'HTTP_503' END,
            'message', 'the participant refused', 'type', CASE WHEN final THEN 'refused' ELSE 'unavailable' END, 'retryable', NOT final, 'timestamp', at) END,
       at, at + slice / 2, (date_part('epoch', slice) * 500)::bigint, at + slice / 2
  FROM (
    SELECT g.*, a.*, g.created_at + (a.n + (a.attempt - 1) * 0.5) * g.slice AS at
      FROM generated g
     CROSS JOIN LATERAL (
        SELECT k AS n, k, 'EXECUTE' AS action, 'SUCCESS' AS status, CASE WHEN k = again THEN 2 ELSE 1 END AS attempt, true AS final
          FROM generate_series(0, CASE WHEN state = 3 THEN $1::int ELSE bad END - 1) AS k WHERE state <> 0
        UNION ALL
        SELECT again, again, 'EXECUTE', 'FAILED', 1, false WHERE again IS NOT NULL
        UNION ALL
        SELECT bad, bad, 'EXECUTE', CASE WHEN state = 8 THEN 'TIMEOUT' ELSE 'FAILED' END, 1, state <> 1 WHERE state IN (1, 4, 5, 6, 8)
        UNION ALL
        SELECT $1 + bad - k, k, 'COMPENSATE', 'SUCCESS', 1, true FROM generate_series(0, bad - 1) AS k WHERE state IN (5, 7, 8)
        UNION ALL
        SELECT $1 + 1, bad - 1, 'COMPENSATE', 'FAILED', 1, state = 6 WHERE state IN (4, 6)) AS a) AS l`
