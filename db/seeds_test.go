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

// The tables and views of the seeds in the catalogue, by the numbers of docs/requirements.md:
// types, defaults, keys, checks, triggers and names.
var seedsCatalogue = map[string][]string{
	"S1-04":  {"saga.saga_states.id uuid NOT NULL DEFAULT gen_random_uuid()", "saga.saga_states: saga_states_pkey PRIMARY KEY (id, tenant_id)"},
	"S1-05":  {"saga.saga_states.workflow_name character varying(255) NOT NULL"},
	"S1-06":  {"saga.saga_states.current_step integer NOT NULL DEFAULT 0"},
	"S1-08":  {"saga.saga_states.payload jsonb"},
	"S1-09":  {"saga.saga_states.correlation_id character varying(255)"},
	"S1-10":  {"saga.saga_states.initiated_by character varying(255) NOT NULL DEFAULT ''::character varying"},
	"S1-12":  {"saga.saga_states.created_at timestamp with time zone NOT NULL DEFAULT now()"},
	"S1-13":  {"saga.saga_states.updated_at timestamp with time zone NOT NULL DEFAULT now()", "trigger update_saga_states_updated_at on saga.saga_states calls saga.update_updated_at"},
	"S1-25":  {"saga.saga_step_logs: fk_saga_steps_saga FOREIGN KEY (saga_id, tenant_id) REFERENCES saga.saga_states(id, tenant_id) ON DELETE CASCADE"},
	"S1-26":  {"saga.saga_step_logs.id uuid NOT NULL DEFAULT gen_random_uuid()", "saga.saga_step_logs: saga_step_logs_pkey PRIMARY KEY (id)"},
	"S1-27":  {"saga.saga_step_logs.saga_id uuid NOT NULL"},
	"S1-28":  {"saga.saga_step_logs.step_index integer NOT NULL", "saga.saga_step_logs: saga_step_logs_step_index_check CHECK ((step_index >= 0))"},
	"S1-29":  {"saga.saga_step_logs.step_name character varying(255) NOT NULL"},
	"S1-32":  {"saga.saga_step_logs.request_payload jsonb"},
	"S1-33":  {"saga.saga_step_logs.response_payload jsonb"},
	"S1-35":  {"saga.saga_step_logs.started_at timestamp with time zone NOT NULL DEFAULT now()"},
	"S1-44":  {"saga.saga_step_logs.updated_at timestamp with time zone NOT NULL DEFAULT now()"},
	"S2-07":  {"saga.saga_instances.id uuid"},
	"S2-08":  {"saga.saga_instances.definition_id character varying(300)"},
	"S2-09":  {"saga.saga_instances.name character varying(255)"},
	"S2-10":  {"saga.saga_instances.description text"},
	"S2-11":  {"saga.saga_instances.state integer", "saga.saga_states.state smallint NOT NULL DEFAULT 0", "saga.saga_states: chk_saga_states_state CHECK (((state >= 0) AND (state <= 8)))"},
	"S2-12":  {"saga.saga_instances.current_step integer", "saga.saga_states: chk_saga_states_current_step CHECK (((current_step >= 0) AND (current_step <= total_steps)))"},
	"S2-13":  {"saga.saga_instances.total_steps integer", "saga.saga_states.total_steps integer NOT NULL", "saga.saga_states: chk_saga_states_total_steps CHECK ((total_steps >= 0))"},
	"S2-14":  {"saga.saga_instances.created_at timestamp with time zone"},
	"S2-15":  {"saga.saga_instances.updated_at timestamp with time zone"},
	"S2-26":  {"saga.saga_instances.trace_id character varying(255)"},
	"S2-27":  {"saga.saga_instances.span_id character varying(255)"},
	"S2-52":  {"saga.saga_steps.id character varying(255)"},
	"S2-53":  {"saga.saga_steps.saga_id uuid"}, // not null: S1-27; its key: S2-75
	"S2-54":  {"saga.saga_steps.step_index integer"},
	"S2-55":  {"saga.saga_steps.name character varying(255)"},
	"S2-75":  {"saga.saga_step_logs: fk_saga_steps_saga FOREIGN KEY (saga_id, tenant_id) REFERENCES saga.saga_states(id, tenant_id) ON DELETE CASCADE"},
	"S2-83":  {"saga.audit_events.id bigint NOT NULL DEFAULT nextval('saga.audit_events_id_seq'::regclass)", "saga.audit_events: idx_event_saga_timestamp PRIMARY KEY (saga_id, id)", "saga.saga_events.id bigint"},
	"S2-84":  {"saga.audit_events.saga_id uuid NOT NULL"},
	"S2-85":  {"saga.audit_events.event_type text NOT NULL"},
	"S2-88":  {"saga.audit_events.timestamp timestamp with time zone NOT NULL DEFAULT now()"},
	"S2-93":  {"saga.saga_events.metadata jsonb"},
	"S2-107": {"trigger trigger_saga_updated_at on saga.saga_states calls saga.update_saga_updated_at"},
	"J-42":   {"table jobs.job_definitions", "table jobs.job_runs", "table jobs.events", "table jobs.settings", "table saga.audit_actions"},
	"D-43":   {"table dlq.dlq_messages", "table dlq.dlq_messages_archive"}, // relkind 'r': not partitioned
	"J-31":   {"index jobs.idx_events_processed_at (created_at, id) WHERE (processed_at IS NULL)"},
}

const catalogue = `
SELECT format('%s.%s.%s %s%s%s', n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN ' NOT NULL' END,
              CASE WHEN d.adbin IS NOT NULL AND a.attgenerated = '' THEN ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END)
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE n.nspname IN ('saga', 'dlq', 'jobs') AND c.relkind IN ('r', 'v') AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT format('%s: %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE conrelid <> 0
UNION ALL
SELECT format('trigger %s on %s calls %s', tgname, tgrelid::regclass, tgfoid::regproc) FROM pg_trigger WHERE NOT tgisinternal AND tgenabled = 'O'
UNION ALL
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

// S1-25, S1-27, S2-05, S2-75: step logs belong to an existing saga, and are deleted with it.
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

// S1-46, S1-54 to S1-60: the statements of seed 1, as it writes them. What it reads can be read. What it writes
// is refused, whole: the columns that it sets follow from others.
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

// The statements of seed 2, which names no schema.
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
