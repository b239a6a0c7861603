package db_test

import (
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// words returns the values that a list in a constraint allows, sorted.
func words[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	slices.Sort(out)
	return out
}

// constraint returns the definition of a constraint.
func constraint(t *testing.T, pool *sql.DB, name string) string {
	t.Helper()
	return ask[string](t, pool, `SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = $1 AND connamespace = 'saga'::regnamespace`, name)
}

func TestConstraintsAllowExactlyTheWordsOfTheRules(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	for name, want := range map[string][]string{
		"chk_saga_step_logs_action": words([]saga.Action{saga.Execute, saga.Compensate}),
		"chk_saga_step_logs_status": words(saga.LogStatuses),
	} {
		var got []string
		for _, m := range regexp.MustCompile(`'(\w+)'`).FindAllStringSubmatch(constraint(t, pool, name), -1) {
			got = append(got, m[1])
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-rules +database):\n%s", name, diff)
		}
	}
	first, last := saga.States[0], saga.States[len(saga.States)-1]
	for name, column := range map[string]string{
		"chk_saga_states_state": "state",
	} {
		want := fmt.Sprintf("CHECK (((%s >= %d) AND (%s <= %d)))", column, first, column, last)
		if got := constraint(t, pool, name); got != want || int(last-first)+1 != len(saga.States) {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// insert stores a saga in a state, with the end and cleanness that the state requires.
func insert(t *testing.T, pool *sql.DB, state saga.State, clean bool) uuid.UUID {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	ended, isClean := end(state, clean)
	execute(t, pool, `INSERT INTO saga.saga_states (id, tenant_id, workflow_name, workflow_version, saga_type, total_steps, state, completed_at, clean)
		VALUES ($1, $1, 'w', 1, 'w', 3, $2, $3, $4)`, id, state, ended, isClean)
	return id
}

func end(state saga.State, clean bool) (at *time.Time, isClean *bool) {
	if !state.Terminal() {
		return nil, nil
	}
	return new(time.Now()), &clean
}

func TestGeneratedColumnsAgreeWithTheRules(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	for _, state := range saga.States {
		for _, clean := range []bool{true, false} {
			id := insert(t, pool, state, clean)
			want := fmt.Sprint(state.Status(), " ", state.Lifecycle(clean), " ")
			if state.Terminal() {
				want += strconv.Itoa(int(state))
			}
			if got := ask[string](t, pool, `SELECT concat(status, ' ', lifecycle, ' ', ended_state) FROM saga.saga_states WHERE id = $1`, id); got != want {
				t.Errorf("%s, clean %v: status, lifecycle and end are %q, want %q", state, clean, got, want)
			}
		}
	}
	// Seed 1's default and its error_message.
	got := ask[string](t, pool, `INSERT INTO saga.saga_states (tenant_id, workflow_name, workflow_version, saga_type, total_steps, error)
		VALUES (gen_random_uuid(), 'w', 1, 'w', 3, '{"message": "it said no"}') RETURNING concat(status, ': ', error_message)`)
	if got != "STARTED: it said no" {
		t.Errorf("a new saga is %q", got)
	}
}

// checkViolation reports whether the database refused a row's content.
func checkViolation(err error) bool {
	var e *pq.Error
	return errors.As(err, &e) && e.Code == "23514"
}

func TestGuardTriggerAllowsExactlyWhatTheTableReaches(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	for _, from := range saga.States {
		for _, to := range saga.States {
			id := insert(t, pool, from, false)
			at, clean := end(to, false)
			_, err := pool.ExecContext(t.Context(), `UPDATE saga.saga_states SET state = $2, completed_at = $3, clean = $4 WHERE id = $1`, id, to, at, clean)
			if err != nil && !checkViolation(err) {
				t.Fatal(err)
			}
			// A commit may leave the state unchanged, unless the saga has ended.
			want := saga.Reachable(from, to) || from == to && !from.Terminal()
			if got := err == nil; got != want {
				t.Errorf("%s to %s: allowed %v, the rules say %v (%v)", from, to, got, want, err)
			}
		}
	}
}

// Invalid rows are refused by the database or, if the check would cost each commit more than it is
// worth (decision 0166), found by the job system.invariants.
func TestRowsThatContradictThemselvesAreRefusedOrFound(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	const insertSaga = `INSERT INTO saga.saga_states (id, tenant_id, workflow_name, workflow_version, saga_type, next_run_at,
		total_steps, state, current_step, completed_at, clean, version, tenant_major, tenant_minor, end_cause)
		VALUES ('00000000-0000-0000-0000-000000000001', gen_random_uuid(), 'w', 1, 'w', now(), `
	const insertLog = `INSERT INTO saga.saga_step_logs (saga_id, step_name, step_index, action, status, completed_at)
		VALUES ('00000000-0000-0000-0000-000000000001', 's', `
	const fine, refused, found = "fine", "refused", "found"
	for _, tt := range []struct{ name, statement, want string }{
		{"an ended saga without an end", insertSaga + `3, 3, 0, NULL, NULL, 1, 0, 0, NULL)`, found},
		{"a live saga with an end", insertSaga + `3, 1, 0, now(), true, 1, 0, 0, NULL)`, found},
		{"an ended saga that is neither clean nor not", insertSaga + `3, 3, 0, now(), NULL, 1, 0, 0, NULL)`, found},
		{"a live saga that is clean", insertSaga + `3, 1, 0, NULL, true, 1, 0, 0, NULL)`, found},
		{"a cause that is none", insertSaga + `3, 6, 0, now(), false, 1, 0, 0, 'weather')`, found},
		{"a version before the first", insertSaga + `3, 1, 0, NULL, NULL, 0, 0, 0, NULL)`, found},
		{"a tenant beyond 16 bits", insertSaga + `3, 1, 0, NULL, NULL, 1, 65536, 0, NULL)`, refused},
		{"a tenant below 0", insertSaga + `3, 1, 0, NULL, NULL, 1, 0, -1, NULL)`, refused},
		{"a step beyond the last", insertSaga + `3, 1, 4, NULL, NULL, 1, 0, 0, NULL)`, refused},
		{"a step before the first", insertSaga + `3, 1, -1, NULL, NULL, 1, 0, 0, NULL)`, refused},
		{"a negative number of steps", insertSaga + `-1, 1, -1, NULL, NULL, 1, 0, 0, NULL)`, refused},
		{"a state that is none", insertSaga + `3, 9, 0, NULL, NULL, 1, 0, 0, NULL)`, refused},
		{"a saga at its end", insertSaga + `3, 3, 3, now(), true, 1, 65535, 65535, NULL)`, fine},
		{"a running call with an end", insertLog + `0, 'EXECUTE', 'RUNNING', now())`, refused},
		{"an answered call without an end", insertLog + `0, 'EXECUTE', 'SUCCESS', NULL)`, refused},
		{"a log of a step before the first", insertLog + `-1, 'EXECUTE', 'SUCCESS', now())`, refused},
		{"a running call", insertLog + `0, 'EXECUTE', 'RUNNING', NULL)`, fine},
	} {
		got := fine
		if _, err := pool.ExecContext(t.Context(), tt.statement); err != nil {
			if got = refused; !checkViolation(err) {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
		if n := ask[int](t, pool, `SELECT count(*) FROM jobs.invariants`); n == 1 {
			got = found
			execute(t, pool, `DELETE FROM saga.saga_states`)
		}
		if got != tt.want {
			t.Errorf("%s is %s, want it %s", tt.name, got, tt.want)
		}
	}
	// The values are those of the rules.
	execute(t, pool, `DELETE FROM saga.saga_states`)
	insert(t, pool, saga.Failed, false)
	for _, cause := range saga.Causes {
		execute(t, pool, `UPDATE saga.saga_states SET end_cause = $1`, string(cause))
		if n := ask[int](t, pool, `SELECT count(*) FROM jobs.invariants`); n != 0 {
			t.Errorf("the cause %s contradicts the view", cause)
		}
	}
}

func TestUpdatedAtIsStampedForThoseWhoDoNotStampIt(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	id := insert(t, pool, saga.Running, false)
	execute(t, pool, `INSERT INTO saga.saga_step_logs (saga_id, step_index, step_name, action, status) VALUES ($1, 0, 's', 'EXECUTE', 'RUNNING')`, id)
	for table, column := range map[string]string{"saga_states": "id", "saga_step_logs": "saga_id"} {
		old := "UPDATE saga." + table + " SET updated_at = '2020-01-01' WHERE " + column + " = $1"
		execute(t, pool, old, id)
		if got := ask[string](t, pool, "SELECT updated_at::date::text FROM saga."+table+" WHERE "+column+" = $1", id); got != "2020-01-01" {
			t.Errorf("%s: a stamp of one's own became %s", table, got)
		}
		change := map[string]string{"saga_states": "description = 'x'", "saga_step_logs": "outcome_code = 'x'"}[table]
		execute(t, pool, "UPDATE saga."+table+" SET "+change+" WHERE "+column+" = $1", id)
		if !ask[bool](t, pool, "SELECT updated_at > now() - interval '1 minute' FROM saga."+table+" WHERE "+column+" = $1", id) {
			t.Errorf("%s: an update without a stamp was not stamped", table)
		}
	}
}

func TestDefinitionsAreImmutable(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	execute(t, pool, `INSERT INTO saga.workflow_definitions (tenant_id, name, version, content_hash, definition) VALUES (gen_random_uuid(), 'w', 1, '', '{}')`)
	if _, err := pool.ExecContext(t.Context(), `UPDATE saga.workflow_definitions SET definition = '{"steps": []}'`); !checkViolation(err) {
		t.Errorf("a definition was changed: %v", err)
	}
}
