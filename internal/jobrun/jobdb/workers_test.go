package jobdb_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// putWorker stores a worker directly, registered the given time ago.
func putWorker(t *testing.T, db *sql.DB, tenant uuid.UUID, state jobrun.WorkerState, age time.Duration) uuid.UUID {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	_, err := db.ExecContext(t.Context(), `INSERT INTO jobs.workers (id, tenant_id, state, name, labels, queues, commands, max_runs, registered_at, heartbeat_at, lost_at, detached_at)
		VALUES ($1, $2, $3::text, 'w', '{zone=a}', '{default,mail}', '{}', 5, now() - make_interval(secs => $4), now(),
		        CASE WHEN $3::text = 'LOST' THEN now() END, CASE WHEN $3::text = 'DETACHED' THEN now() END)`, id, tenant, string(state), age.Seconds())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestWorkersAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	raw := pgtest.RawTables(t, dsn)
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	st := jobdb.NewWorkers(db, jobdb.NewSettings(db).Current)
	mine, others := uuid.New(), uuid.New()
	var want []uuid.UUID
	for i, s := range []jobrun.WorkerState{jobrun.WorkerActive, jobrun.WorkerLost, jobrun.WorkerActive,
		jobrun.WorkerDetached, jobrun.WorkerActive} {
		want = append(want, putWorker(t, raw, mine, s, time.Duration(i)*time.Hour))
	}
	foreign := putWorker(t, raw, others, jobrun.WorkerActive, 0)
	var got []uuid.UUID
	for p := (page.ByTime{Limit: 2, Total: true}); ; p.Total = false {
		found, err := st.ListWorkers(t.Context(), mine, nil, p)
		if err != nil || p.Total && found.Total != 5 {
			t.Fatalf("%+v, %v", found, err)
		}
		for _, w := range found.Items {
			got = append(got, w.ID)
		}
		if !found.More {
			break
		}
		last := found.Items[len(found.Items)-1]
		p.After = &page.TimeID{At: last.RegisteredAt, ID: last.ID}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	gone, err := st.ListWorkers(t.Context(), mine, []jobrun.WorkerState{jobrun.WorkerLost, jobrun.WorkerDetached},
		page.ByTime{Limit: 10, Total: true, TotalCap: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(gone.Items) != 2 || gone.Items[0].ID != want[1] || !gone.TotalCapped || gone.Total != 1 {
		t.Errorf("those that are gone: %+v", gone)
	}
	if _, err := st.Worker(t.Context(), mine, foreign); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another tenant's worker: %v", err)
	}
	if _, err := st.Move(t.Context(), mine, foreign, jobrun.WorkerDetached,
		jobAction(mine, operator.JobWorker, foreign.String(), "detach")); fault.KindOf(err) != fault.NotFound {
		t.Errorf("detach another tenant's worker: %v", err)
	}
}

func TestOperatorsMoveWorkers(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	raw := pgtest.RawTables(t, dsn)
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	st, tenant := jobdb.NewWorkers(db, jobdb.NewSettings(db).Current), uuid.New()
	for _, tt := range []struct {
		from     jobrun.WorkerState
		moves    []jobrun.WorkerState
		want     jobrun.WorkerState
		draining bool
		refused  bool
		actions  int
	}{
		{jobrun.WorkerActive, []jobrun.WorkerState{jobrun.WorkerDraining, jobrun.WorkerDraining}, jobrun.WorkerDraining, true, false, 1},
		{jobrun.WorkerActive, []jobrun.WorkerState{jobrun.WorkerDraining, jobrun.WorkerActive}, jobrun.WorkerActive, false, false, 2},
		{jobrun.WorkerActive, []jobrun.WorkerState{jobrun.WorkerActive}, jobrun.WorkerActive, false, false, 0},
		{jobrun.WorkerLost, []jobrun.WorkerState{jobrun.WorkerDraining}, jobrun.WorkerLost, true, false, 1},
		{jobrun.WorkerLost, []jobrun.WorkerState{jobrun.WorkerDraining, jobrun.WorkerActive}, jobrun.WorkerLost, false, false, 2},
		{jobrun.WorkerLost, []jobrun.WorkerState{jobrun.WorkerDetached}, jobrun.WorkerDetached, false, false, 1},
		{jobrun.WorkerActive, []jobrun.WorkerState{jobrun.WorkerDetached, jobrun.WorkerDetached}, jobrun.WorkerDetached, false, false, 1},
		{jobrun.WorkerDetached, []jobrun.WorkerState{jobrun.WorkerActive}, jobrun.WorkerDetached, false, true, 0},
		{jobrun.WorkerDetached, []jobrun.WorkerState{jobrun.WorkerDraining}, jobrun.WorkerDetached, false, true, 0},
		{jobrun.WorkerDetached, []jobrun.WorkerState{jobrun.WorkerLost, jobrun.WorkerLost}, jobrun.WorkerLost, false, false, 1},
		{jobrun.WorkerActive, []jobrun.WorkerState{jobrun.WorkerDraining, jobrun.WorkerDetached, jobrun.WorkerLost}, jobrun.WorkerLost, true, false, 3},
		{jobrun.WorkerActive, []jobrun.WorkerState{jobrun.WorkerLost}, jobrun.WorkerActive, false, false, 0},
	} {
		t.Run(fmt.Sprint(tt.from, tt.moves), func(t *testing.T) {
			id := putWorker(t, raw, tenant, tt.from, 0)
			var refusal error
			for _, to := range tt.moves {
				_, refusal = st.Move(t.Context(), tenant, id, to, jobAction(tenant, operator.JobWorker, id.String(), "move"))
			}
			w, err := st.Worker(t.Context(), tenant, id)
			if err != nil || w.State != tt.want || (w.DrainAt != nil) != tt.draining ||
				(w.LostAt != nil) != (tt.want == jobrun.WorkerLost) || (w.DetachedAt != nil) != (tt.want == jobrun.WorkerDetached) {
				t.Errorf("%+v, %v", w, err)
			}
			if (fault.KindOf(refusal) == fault.Conflict) != tt.refused || !tt.refused && refusal != nil {
				t.Errorf("the last move: %v", refusal)
			}
			found, err := auditdb.NewActions(db).Actions(t.Context(), tenant,
				operator.Filter{Subject: id.String(), ByTime: page.ByTime{Limit: 10}})
			if err != nil || len(found.Items) != tt.actions || int64(tt.actions+1) != w.Version {
				t.Errorf("%d actions at version %d, want %d; %v", len(found.Items), w.Version, tt.actions, err)
			}
		})
	}
}

func TestTheRunsOfADetachedWorkerAreInDoubtAtOnce(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	raw := pgtest.RawTables(t, dsn)
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	st, tenant := jobdb.NewWorkers(db, jobdb.NewSettings(db).Current), uuid.New()
	worker := putWorker(t, raw, tenant, jobrun.WorkerActive, 0)
	running, assigned := putHeldRun(t, raw, tenant, worker, "RUNNING"), putHeldRun(t, raw, tenant, worker, "ASSIGNED")
	if _, err := st.Move(t.Context(), tenant, worker, jobrun.WorkerDetached,
		jobAction(tenant, operator.JobWorker, worker.String(), "detach")); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[uuid.UUID]string{running: "RUNNING CONFIRMING true true",
		assigned: "ASSIGNED NONE true false"} {
		var got string
		if err := raw.QueryRowContext(t.Context(), `SELECT concat_ws(' ', state, continuation_state, CASE WHEN lease_expires_at <= now() THEN 'true' ELSE 'false' END,
			CASE WHEN continuation_check_deadline_at > now() + interval '20 seconds' THEN 'true' ELSE 'false' END) FROM jobs.job_runs WHERE id = $1`, id).Scan(&got); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	var events int
	if err := raw.QueryRowContext(t.Context(), `SELECT count(*) FROM jobs.job_run_events WHERE run_id = $1 AND kind = 'confirming' AND actor = 'key:ops'`, running).Scan(&events); err != nil || events != 1 {
		t.Errorf("%d decisions, %v", events, err)
	}
}

// putHeldRun directly stores a run that a worker holds.
func putHeldRun(t *testing.T, db *sql.DB, tenant, worker uuid.UUID, state string) uuid.UUID {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	_, err := db.ExecContext(context.WithoutCancel(t.Context()), `INSERT INTO jobs.job_runs (id, tenant_id, definition_id, definition_name, spec_version, command_name, state, trigger,
		scheduled_for, available_at, idempotency_key, attempt, assigned_worker_id, assigned_at, lease_token, lease_expires_at, leader_epoch, started_at, root_run_id, created_at, updated_at)
		VALUES ($1::uuid, $2, $1::uuid, 'd', 1, 'c', $4::text, 'MANUAL', now(), now(), $1::uuid::text, 1, $3, now(), gen_random_uuid(), now() + interval '1 hour', 1,
		        CASE WHEN $4::text = 'RUNNING' THEN now() END, $1::uuid, now(), now())`, id, tenant, worker, state)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
