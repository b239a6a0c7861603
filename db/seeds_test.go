package db_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// The requirements of the seeds for the catalogue, by the numbers of docs/requirements.md.
// TestTheTablesAreThoseOfTheSeedsButForWhatDiffers compares their whole tables.
var seedsCatalogue = map[string][]string{
	"J-42": {"table jobs.job_definitions", "table jobs.job_runs", "table jobs.events", "table jobs.settings", "table saga.audit_actions"},
	"D-43": {"table dlq.dlq_messages", "table dlq.dlq_messages_archive"}, // relkind 'r': not partitioned
	"J-31": {"index jobs.idx_events_processed_at (created_at, id) WHERE (processed_at IS NULL)"},
}

const catalogue = `
SELECT format('index %s.%s %s', schemaname, indexname, substring(indexdef FROM 'USING btree (.*)')) FROM pg_indexes
UNION ALL
SELECT format('table %s.%s', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r'`

func TestTheCatalogueIsWhatTheSeedsAskFor(t *testing.T) {
	t.Parallel()
	have := texts(t, open(t, testdb.DSN(t)), catalogue)
	for no, lines := range seedsCatalogue {
		for _, line := range lines {
			if !slices.Contains(have, line) {
				t.Errorf("%s: the database has no\n%s", no, line)
			}
		}
	}
}

// S1-25, S1-27, S2-05, S2-75: step logs belong to an existing saga and are deleted with it.
func TestStepLogsGoWithTheirSaga(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	id := insert(t, pool, saga.Running, false)
	const log = `INSERT INTO saga.saga_step_logs (saga_id, step_index, step_name, action, status) VALUES ($1, 0, 's', 'EXECUTE', 'RUNNING')`
	execute(t, pool, log, id)
	execute(t, pool, `DELETE FROM saga.saga_states WHERE id = $1`, id)
	if n := ask[int](t, pool, `SELECT count(*) FROM saga.saga_step_logs WHERE saga_id = $1`, id); n != 0 {
		t.Errorf("%d step logs of a saga that is gone", n)
	}
	if _, err := pool.ExecContext(t.Context(), log, id); err == nil {
		t.Error("a step log was written to a saga that is gone")
	}
}

// S1-46, S1-54 to S1-60: the statements of seed 1, as written there. Its reads succeed. Its writes
// are refused as a whole, because the columns that they set are derived from others.
func TestSeed1sStatementsByHand(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	id := insert(t, pool, saga.Running, false)
	for _, write := range []string{
		`INSERT INTO saga.saga_states (
    id, workflow_name, current_step, status, payload, correlation_id, initiated_by
) VALUES ($1, $2, 0, 'STARTED', $3, $4, $5)
RETURNING *`,
		`UPDATE saga.saga_states
SET current_step = $2, status = $3, error_message = $4, updated_at = NOW()
WHERE id = $1`,
	} {
		args := []any{uuid.New(), "order", "{}", "c", "shop"}
		if strings.HasPrefix(write, "UPDATE") {
			args = []any{id, 1, "COMPLETED", "none"}
		}
		_, err := pool.ExecContext(t.Context(), write, args...)
		if e, is := errors.AsType[*pq.Error](err); !is || e.Code != "428C9" { // generated_always
			t.Errorf("%s: %v", write, err)
		}
	}
	if n := ask[int](t, pool, `SELECT count(*) FROM saga.saga_states WHERE status = 'RUNNING' AND current_step = 0`); n != 1 {
		t.Errorf("%d sagas are as before", n)
	}
	for _, read := range []string{
		`SELECT id FROM (SELECT * FROM saga.saga_states
WHERE status IN ('STARTED', 'RUNNING', 'COMPENSATING')
ORDER BY created_at ASC) AS unfinished`,
		`SELECT id FROM (SELECT * FROM saga.saga_states
WHERE
    (NULL::VARCHAR IS NULL OR workflow_name = NULL)
    AND ('RUNNING'::VARCHAR IS NULL OR status = 'RUNNING')
    AND (NULL::VARCHAR IS NULL OR correlation_id = NULL)
ORDER BY created_at DESC
LIMIT 10 OFFSET 0) AS listed`,
	} {
		if got := texts(t, pool, read); !slices.Equal(got, []string{id.String()}) {
			t.Errorf("%s: %v, want the one saga", read, got)
		}
	}
	if made := texts(t, pool, `SELECT extname FROM pg_extension WHERE extname <> 'plpgsql'`); len(made) > 0 {
		t.Errorf("extensions %v", made)
	}
	if defined := texts(t, pool, `SELECT p.oid::regprocedure FROM pg_proc p WHERE p.oid = to_regprocedure('saga.update_updated_at()')`); len(defined) != 1 {
		t.Error("there is no saga.update_updated_at()")
	}
}

// The statements of seed 2, which do not name a schema.
func TestSeed2sStatementsByHand(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	pool.SetMaxOpenConns(1)
	execute(t, pool, `SET search_path = saga`)
	id := insert(t, pool, saga.Running, false)
	for read, want := range map[string]int{
		`SELECT * FROM saga_instances WHERE state IN (1, 2, 4) ORDER BY created_at`:                        1,
		`SELECT * FROM saga_instances WHERE state IN (1, 2, 4) AND created_at < NOW() - INTERVAL '1 hour'`: 0,
		`SELECT * FROM saga_steps WHERE saga_id = '` + id.String() + `' ORDER BY step_index`:               0,
		`SELECT * FROM saga_events WHERE saga_id = '` + id.String() + `' ORDER BY timestamp DESC`:          0,
		`SELECT * FROM saga_steps WHERE state = 3 AND attempts < max_attempts`:                             0,
		`SELECT * FROM saga_instances WHERE trace_id = 'none'`:                                             0,
		`SELECT * FROM saga_events WHERE trace_id = 'none' ORDER BY timestamp`:                             0,
		`SELECT * FROM active_sagas`:    1,
		`SELECT * FROM failed_sagas`:    0,
		`SELECT * FROM completed_sagas`: 0,
	} {
		if n := ask[int](t, pool, `SELECT count(*) FROM (`+read+`) AS rows`); n != want {
			t.Errorf("%s: %d rows, want %d", read, n, want)
		}
	}
}
