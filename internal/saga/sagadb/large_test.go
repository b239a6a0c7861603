package sagadb_test

import (
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// A small table hides both bad plans and deadlocks, so these tests share a table of the size at
// which they begin to appear.

const sagasInLargeTable = 50_000

// Of the sagas of the large table, 97 in 100 are completed. The others are failed, compensated,
// cancelled, timed out or unfinished, and the unfinished ones are either owned by one of two nodes
// or unowned. One in fifty took two minutes. The last hour of the table began at the time $2.
const fillLargeTable = `
INSERT INTO saga.saga_states (
	id, tenant_id, workflow_name, workflow_version, saga_type, total_steps, current_step, state, initiated_by,
	created_at, updated_at, started_at, completed_at, clean, end_cause, needs_attention, step_attempt,
	correlation_id, trace_id, business_key, metadata, payload,
	lease_owner, lease_epoch, next_run_at, timeout_at, compensation_timeout_at)
SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid,
       CASE WHEN i % 100 = 99 THEN 'c0000000-0000-4000-8000-000000000000' ELSE 'b1900000-0000-4000-8000-000000000000' END::uuid,
       'workflow-' || i % 20, 1, 'type', 3, CASE state WHEN 3 THEN 3 ELSE 1 END, state, 'caller-' || i % 7,
       at, ended, at, CASE WHEN state IN (3, 5, 6, 7, 8) THEN ended END, CASE WHEN state IN (3, 5, 7, 8) THEN true WHEN state = 6 THEN false END,
       CASE WHEN state IN (4, 5, 6) THEN 'step_failed' WHEN state = 7 THEN 'cancelled' WHEN state = 8 THEN 'deadline' END, state = 6, 1,
       CASE WHEN i % 2 = 0 THEN 'correlation-' || i / 4 END, CASE WHEN i % 2 = 0 THEN 'trace-' || i / 4 END,
       CASE WHEN i % 3 = 0 THEN 'key-' || i / 10 END, CASE WHEN i % 5 = 0 THEN jsonb_build_object('team', i % 500, 'n', i) END, '{"order": 1}',
       CASE WHEN live AND i / 100 % 4 < 3 THEN 1 + i / 100 % 2 END, 1,
       CASE WHEN live AND i / 100 % 4 = 3 THEN now() + (i % 1000 - 500) * interval '1 s' END,
       at + interval '1 hour', CASE WHEN state IN (4, 5, 6) THEN at + interval '2 hours' END
  FROM (SELECT i, (ARRAY[0, 1, 1, 1, 2, 4, 4, 5, 6, 7, 8])[1 + i / 100 % 11] AS rare, i % 33 = 32 AS is_rare,
               $1::timestamptz + i * interval '200 ms' AS at FROM generate_series(1, $2::int) AS i) AS numbered
 CROSS JOIN LATERAL (SELECT CASE WHEN is_rare THEN rare ELSE 3 END AS state, is_rare AND rare IN (0, 1, 2, 4) AS live,
               at + CASE WHEN i % 50 = 7 THEN interval '2 minutes' ELSE interval '5 s' END AS ended) AS derived`

// Every code occurs at both steps; one is rare.
const fillErrors = `
UPDATE saga.saga_states SET error_step = 'step-' || current_step, error_action = CASE state WHEN 6 THEN 'COMPENSATE' ELSE 'EXECUTE' END,
       error_code = c.code, error = jsonb_build_object('code', c.code), attention_since = CASE WHEN needs_attention THEN completed_at END
  FROM (SELECT id AS of, CASE WHEN right(id::text, 3) = '0a0' THEN 'rare' ELSE 'http_50' || right(id::text, 1) END AS code FROM saga.saga_states) AS c
 WHERE c.of = id AND ended_state <> 3`

const fillLogs = `
INSERT INTO saga.saga_step_logs (saga_id, tenant_id, step_index, step_name, action, attempt, status, started_at, completed_at, outcome_code)
SELECT s.id, s.tenant_id, k, 'step-' || k, CASE WHEN s.state IN (5, 6) AND k = 2 THEN 'COMPENSATE' ELSE 'EXECUTE' END, 1,
       CASE WHEN s.state = 3 OR k = 0 THEN 'SUCCESS' WHEN s.state = 8 THEN 'TIMEOUT' WHEN s.state = 7 THEN 'SKIPPED' ELSE 'FAILED' END,
       s.created_at + k * interval '1 s', s.created_at + (k + 1) * interval '1 s', 'http'
  FROM saga.saga_states s, generate_series(0, 2) AS k WHERE s.state <> 3 OR s.created_at >= $1`

const fillEvents = `
INSERT INTO saga.audit_events (saga_id, event_type, timestamp, step_index, trace_id, tenant_id, digest)
SELECT id, CASE WHEN state = 3 THEN 'saga.completed' ELSE 'saga.failed' END, updated_at,
       CASE WHEN state <> 3 THEN 1 END, trace_id, tenant_id, ''
  FROM saga.saga_states WHERE created_at >= $1 ORDER BY created_at`

// One saga in fifty is assigned to one of three people; the same number have a note but no
// assignee.
const fillNotes = `
INSERT INTO saga.saga_notes (tenant_id, saga_id, version, assignee, note, created_at, updated_at)
SELECT tenant_id, id, 1, (ARRAY['ada', 'bob', 'cem', '', '', ''])[1 + (row_number() OVER ()) % 6], 'n', created_at, created_at
  FROM saga.saga_states WHERE right(id::text, 2) IN ('00', '20', '40', '60', '80', 'a0', 'c0', 'e0', 'f0', 'f8')`

// large is the large table, together with the creation time of its first saga.
type large struct {
	dsn   string
	db    *postgres.DB
	since time.Time
}

func openLarge(t *testing.T) large {
	t.Helper()
	l := large{dsn: testdb.DSN(t),
		since: time.Now().UTC().Add(-sagasInLargeTable * 200 * time.Millisecond).Truncate(time.Second)}
	fill := pgtest.Observer(t, l.dsn)
	lastFifth := l.since.Add(sagasInLargeTable * 160 * time.Millisecond)
	for _, s := range []struct {
		text string
		args []any
	}{
		{`SET session_replication_role = replica`, nil}, // no foreign key checks
		{`INSERT INTO saga.workflows (tenant_id, name, latest_version) SELECT $1, 'workflow-' || i, 1 FROM generate_series(0, 19) AS i`, []any{pgtest.Big}},
		{`INSERT INTO saga.workflow_definitions (tenant_id, name, version, content_hash, definition)
		  SELECT $1, 'workflow-' || i, 1, '', '{"name": "w", "steps": [{"name": "step-0"}, {"name": "step-1"}, {"name": "step-2"}]}' FROM generate_series(0, 19) AS i`, []any{pgtest.Big}},
		{`INSERT INTO saga.engine_nodes (node_name, lease_until) VALUES ('alive', now() + interval '1 hour'), ('dead', now() - interval '1 hour')`, nil},
		{`INSERT INTO saga.idempotency_keys (tenant_id, principal, route, key, request_hash, saga_id, created_at)
		  SELECT $1, 'p', 'r', 'k' || i, '', gen_random_uuid(), $2::timestamptz + i * interval '1 s' FROM generate_series(1, 10000) AS i`, []any{pgtest.Big, l.since}},
		{fillLargeTable, []any{l.since, sagasInLargeTable}},
		{fillErrors, nil},
		{fillLogs, []any{lastFifth}},
		{fillEvents, []any{lastFifth}},
		{fillNotes, nil},
		{fillArchive, nil},
		{`VACUUM (ANALYZE) saga.saga_notes, saga.saga_states_archive, saga.saga_step_logs_archive, saga.saga_states, saga.saga_step_logs, saga.audit_events, saga.workflows, saga.workflow_definitions, saga.engine_nodes, saga.idempotency_keys`, nil},
	} {
		if _, err := fill.ExecContext(t.Context(), s.text, s.args...); err != nil {
			t.Fatalf("%s: %v", s.text, err)
		}
	}
	fill.Close()
	l.db = pgtest.Connect(t, l.dsn)
	return l
}
