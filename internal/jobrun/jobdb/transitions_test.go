package jobdb_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// putRunIn stores a run in any state, with the columns that the state requires.
const putRunIn = `
INSERT INTO jobs.job_runs (id, tenant_id, definition_id, definition_name, spec_version, command_name, version, state, trigger, scheduled_for, available_at,
       idempotency_key, root_run_id, attempt, assigned_worker_id, assigned_at, lease_token, lease_expires_at, leader_epoch, started_at, finished_at, created_at, updated_at)
VALUES ($1, $2, $1, 'd', 1, 'c', 5, $3::text, 'MANUAL', now(), now(), 'manual:' || $1::uuid, $1, 2, gen_random_uuid(), now(), gen_random_uuid(), now(), 7, now(),
       CASE WHEN $3::text IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'TIMED_OUT', 'SKIPPED') THEN now() END, now(), now())`

// moveRun moves a run to its new state.
const moveRun = `
UPDATE jobs.job_runs SET state = $2::text, version = version + 1,
       attempt = attempt + CASE WHEN $2::text = 'ASSIGNED' THEN 1 ELSE 0 END,
       lease_token = CASE WHEN $2::text = 'ASSIGNED' THEN gen_random_uuid() ELSE lease_token END,
       finished_at = CASE WHEN $2::text IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'TIMED_OUT', 'SKIPPED') THEN now() END
 WHERE id = $1`

func TestTheDatabaseKnowsTheTableOfTransitions(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	legal := map[[2]jobrun.State]bool{}
	for _, e := range jobrun.Edges {
		legal[[2]jobrun.State{e.From, e.To}] = true
	}
	for _, from := range jobrun.States {
		for _, to := range jobrun.States {
			id := pgtest.NewID()
			pgtest.Execute(t, j.DB.SQL(), putRunIn, id, j.Tenant, from)
			_, err := j.DB.SQL().ExecContext(t.Context(), moveRun, id, to)
			switch want := legal[[2]jobrun.State{from, to}]; {
			case want && err != nil:
				t.Errorf("%s → %s is legal, and is refused: %v", from, to, err)
			case !want && from != to && !moveRefused(err):
				t.Errorf("%s → %s is not in the table, and the database says %v", from, to, err)
			case from == to && from.Terminal() && !moveRefused(err):
				t.Errorf("%s moves again: %v", from, err)
			}
			if n := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE id = $1 AND state = $2 AND version = 5`, id, from); moveRefused(err) && n != 1 {
				t.Errorf("%s → %s was refused, and changed the row", from, to)
			}
		}
	}
}

// A claim that starts its runs makes two transitions in one change of the row. Both are in the
// table, and both leave their traces.
func TestTheDatabaseKnowsClaimsThatStart(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	const start = `state = 'RUNNING', version = version + 2, attempt = attempt + 1, lease_token = gen_random_uuid()`
	for _, from := range jobrun.States {
		legal := slices.Contains(jobrun.From(jobrun.Assigned, jobrun.Worker), from) &&
			slices.Contains(jobrun.From(jobrun.Running, jobrun.Worker), jobrun.Assigned)
		for what, set := range map[string]string{
			"a claim that starts": start,
			"with one version":    strings.Replace(start, "version + 2", "version + 1", 1),
			"without an attempt":  strings.Replace(start, "attempt + 1", "attempt", 1),
			"with two attempts":   strings.Replace(start, "attempt + 1", "attempt + 2", 1),
			"with the old token":  strings.Replace(start, "gen_random_uuid()", "lease_token", 1),
		} {
			id := pgtest.NewID()
			pgtest.Execute(t, j.DB.SQL(), putRunIn, id, j.Tenant, from)
			_, err := j.DB.SQL().ExecContext(t.Context(), `UPDATE jobs.job_runs SET `+set+` WHERE id = $1`, id)
			switch allowed := legal && set == start; {
			case allowed && err != nil:
				t.Errorf("%s, %s: %v", from, what, err)
			case !allowed && !moveRefused(err):
				t.Errorf("%s, %s: the database says %v", from, what, err)
			}
		}
	}
}

// moveRefused reports whether the trigger refused a change.
func moveRefused(err error) bool {
	var e *pq.Error
	return errors.As(err, &e) && e.Code == "JR001"
}

func TestTheDatabaseRefusesWhatNoTransitionMayDo(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	for _, tt := range []struct {
		name string
		from jobrun.State
		set  string
	}{
		{"a transition without a new version", jobrun.Pending, `state = 'CANCELED', finished_at = now()`},
		{"an assignment with the token of the one before", jobrun.Orphaned, `state = 'ASSIGNED', version = version + 1, attempt = attempt + 1`},
		{"an assignment that is not a new attempt", jobrun.Orphaned, `state = 'ASSIGNED', version = version + 1, lease_token = gen_random_uuid()`},
		{"an assignment that skips an attempt", jobrun.Pending, `state = 'ASSIGNED', version = version + 1, attempt = attempt + 2, lease_token = gen_random_uuid()`},
		{"a start by another worker", jobrun.Assigned, `state = 'RUNNING', version = version + 1, assigned_worker_id = gen_random_uuid()`},
		{"a start with another token", jobrun.Assigned, `state = 'RUNNING', version = version + 1, lease_token = gen_random_uuid()`},
		{"a success under another epoch", jobrun.Running, `state = 'SUCCEEDED', version = version + 1, finished_at = now(), leader_epoch = 8`},
		{"a success with another token", jobrun.Running, `state = 'SUCCEEDED', version = version + 1, finished_at = now(), lease_token = gen_random_uuid()`},
		{"an end with another attempt", jobrun.Running, `state = 'FAILED', version = version + 1, finished_at = now(), attempt = 3`},
		{"a token that is changed under its worker", jobrun.Running, `lease_token = gen_random_uuid()`},
		{"an attempt that falls", jobrun.Pending, `attempt = 1`},
		{"a version that falls", jobrun.Pending, `version = 4`},
		{"an end at another time", jobrun.Succeeded, `finished_at = now() + interval '1 second'`},
		{"a terminal run with a new version", jobrun.Failed, `version = version + 1`},
	} {
		id := pgtest.NewID()
		pgtest.Execute(t, j.DB.SQL(), putRunIn, id, j.Tenant, tt.from)
		if _, err := j.DB.SQL().ExecContext(t.Context(), `UPDATE jobs.job_runs SET `+tt.set+` WHERE id = $1`,
			id); !moveRefused(err) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for _, allowed := range []string{
		`lease_expires_at = now() + interval '1 hour'`,
		`continuation_state = 'CONFIRMING', continuation_check_deadline_at = now()`,
		`progress = '{}', log_bytes = 5`,
	} {
		id := pgtest.NewID()
		pgtest.Execute(t, j.DB.SQL(), putRunIn, id, j.Tenant, jobrun.Running)
		pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET `+allowed+` WHERE id = $1`, id)
	}
	id := pgtest.NewID()
	pgtest.Execute(t, j.DB.SQL(), putRunIn, id, j.Tenant, jobrun.Succeeded)
	pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET log_ref = 'file', log_bytes = 0 WHERE id = $1`, id)
}

func TestTheDatabaseHasEachSlotAndEachActiveKeyOnce(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	slot, definition := any(pgtest.Now()), pgtest.NewID()
	put := func(trigger, key string, state jobrun.State, concurrency any) error {
		id := pgtest.NewID()
		_, err := j.DB.SQL().ExecContext(t.Context(), `
			INSERT INTO jobs.job_runs (id, tenant_id, definition_id, definition_name, spec_version, command_name, state, trigger, scheduled_for, available_at,
			       idempotency_key, concurrency_key, root_run_id, assigned_worker_id, assigned_at, lease_token, lease_expires_at, leader_epoch, started_at, created_at, updated_at)
			VALUES ($1, $2, $3, 'd', 1, 'c', $4, $5, $6, $6, $7, $8, $1, $1, now(), $1, now(), 1, now(), now(), now())`,
			id, j.Tenant, definition, state, trigger, slot, key, concurrency)
		return err
	}
	for i, tt := range []struct {
		trigger, key string
		state        jobrun.State
		concurrency  any
		index        string // the index that rejects it; "": none
	}{
		{"TIME", "a", jobrun.Pending, nil, ""},
		{"TIME", "b", jobrun.Pending, nil, "idx_job_runs_definition_scheduled_for"},
		{"RETRY", "c", jobrun.Pending, nil, ""},
		{"BACKFILL", "d", jobrun.Pending, nil, ""},
		{"MANUAL", "d", jobrun.Pending, nil, "idx_job_runs_idempotency_key"},
		{"MANUAL", "e", jobrun.Assigned, "k", ""},
		{"MANUAL", "f", jobrun.Running, "k", "idx_job_runs_concurrency_key"},
		{"MANUAL", "g", jobrun.Orphaned, "k", "idx_job_runs_concurrency_key"},
		{"MANUAL", "h", jobrun.Pending, "k", ""},
		{"MANUAL", "i", jobrun.Running, "l", ""},
	} {
		err := put(tt.trigger, tt.key, tt.state, tt.concurrency)
		var e *pq.Error
		if errors.As(err, &e) && e.Constraint != tt.index || err == nil && tt.index != "" {
			t.Errorf("row %d %s: %v, want it refused by %q", i, fmt.Sprint(tt), err, tt.index)
		}
	}
	if err := put("MANUAL", "z", jobrun.State("UNKNOWN"), nil); err == nil {
		t.Error("a state that does not exist is stored")
	}
	slot = nil // a unique index would allow any number of these (gap 4)
	var e *pq.Error
	if err := put("TIME", "y", jobrun.Pending, nil); !errors.As(err, &e) || e.Column != "scheduled_for" {
		t.Errorf("a run without a slot: %v, want it refused", err)
	}
}
