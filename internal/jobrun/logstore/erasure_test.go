package logstore_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/erasure"
	"github.com/skald-saga/skald/internal/erasure/erasuredb"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/jobrun/joblog"
	"github.com/skald-saga/skald/internal/jobrun/logstore"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// erasing contains a database with ended runs whose logs are moved to a store and whose content is
// erased.
type erasing struct {
	*testing.T
	kept
	db     *postgres.DB
	mover  *joblog.Mover
	tenant uuid.UUID
}

func newErasing(t *testing.T, s kept) *erasing {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: testdb.DSN(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	settings := func(context.Context) (jobrun.Settings, error) { return jobrun.NewSettings(1, nil), nil }
	jobs := jobdb.NewDB(db, jobrun.Chance{Jitter: rand.Float64, NewID: uuid.New}, nil)
	return &erasing{t, s, db, joblog.NewMover(joblog.Config{
		Store: s.Store, Chunks: jobdb.NewJobs(jobs, settings), Offloading: jobdb.NewLogs(jobs), Settings: settings,
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}), uuid.New()}
}

// run creates a run of a correlation that ended the given number of days ago, with a log in the
// database.
func (e *erasing) run(correlation string, days int) uuid.UUID {
	e.Helper()
	id := uuid.New()
	pgtest.Execute(e.T, e.db.SQL(), `INSERT INTO jobs.job_runs (id, tenant_id, definition_id, definition_name, spec_version,
			command_name, state, trigger, scheduled_for, available_at, attempt, idempotency_key, root_run_id, log_bytes,
			created_at, updated_at, finished_at, correlation_id, args)
		VALUES ($1::uuid, $2, gen_random_uuid(), 'd', 1, 'c', 'SUCCEEDED', 'MANUAL', now(), now(), 1,
			gen_random_uuid()::text, $1::uuid, 3, now(), now(), now() - $3 * interval '1 day', $4, '{}')`,
		id, e.tenant, days, correlation)
	pgtest.Execute(e.T, e.db.SQL(), `INSERT INTO jobs.job_run_logs (run_id, tenant_id, attempt, seq, at, stream, body)
		VALUES ($1, $2, 1, 0, now(), 'stdout', 'kim')`, id, e.tenant)
	return id
}

// round executes a round of moving, and returns how many removals are left.
func (e *erasing) round() int {
	e.Helper()
	if _, err := e.mover.Once(e.Context()); err != nil {
		e.Fatal(err)
	}
	return pgtest.Ask[int](e.T, e.db.SQL(), `SELECT count(*) FROM jobs.log_removals`)
}

// objects counts the stored logs of a run.
func (e *erasing) objects(run uuid.UUID) int {
	e.Helper()
	found, err := filepath.Glob(filepath.Join(e.dir, "*", "*", "*", run.String()+"-*"))
	if err != nil {
		e.Fatal(err)
	}
	return len(found)
}

// upload stores an object to which no run refers, like a node that dies before its transaction.
func (e *erasing) upload(run uuid.UUID, content string) {
	e.Helper()
	name := logstore.Name{Tenant: e.tenant, Run: run, Attempt: 1, Created: time.Now()}
	if _, err := e.Put(e.Context(), name, strings.NewReader(content)); err != nil {
		e.Fatal(err)
	}
}

// Erasing the content of runs erases their logs wherever they are: in the database, in the store,
// or left in the store by a node that died while it moved them, even if that node stores them
// afterwards.
func TestErasureReachesStoredLogs(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		e := newErasing(t, s)
		moved, young, neighbour := e.run("kim", 30), e.run("kim", 0), e.run("lee", 30)
		e.round()
		e.upload(moved, "kim, of an upload that was lost")
		e.upload(young, "kim, of an upload that is under way")
		if e.objects(moved) != 2 || e.objects(young) != 1 || e.objects(neighbour) != 1 {
			t.Fatalf("%d, %d and %d objects are stored", e.objects(moved), e.objects(young), e.objects(neighbour))
		}
		erase := func(dry bool) {
			t.Helper()
			erased, err := erasuredb.New(e.db).Erase(t.Context(), erasure.Erasure{ID: uuid.New(), TenantID: e.tenant,
				Subject: erasure.Subject{CorrelationID: "kim"}, At: time.Now(), Reason: "r", DryRun: dry})
			if err != nil || erased.Runs != 2 {
				t.Fatalf("%+v, %v", erased, err)
			}
		}
		if erase(true); e.round() != 0 || e.objects(moved) != 2 {
			t.Error("a dry run has deleted a stored log")
		}
		erase(false)
		left := pgtest.Ask[int](t, e.db.SQL(), `SELECT count(*) FROM jobs.job_runs
			WHERE id IN ($1, $2) AND (log_ref IS NOT NULL OR log_sha256 IS NOT NULL OR logged)`, moved, young)
		if left != 0 {
			t.Errorf("%d of the erased runs still have a log", left)
		}
		if n := e.round(); n != 2 {
			t.Errorf("%d removals wait for uploads that were under way, want 2", n)
		}
		if e.objects(moved)+e.objects(young) > 0 || e.objects(neighbour) != 1 {
			t.Errorf("%d, %d and %d objects are left", e.objects(moved), e.objects(young), e.objects(neighbour))
		}
		e.upload(young, "kim, of an upload that took long")
		pgtest.Execute(t, e.db.SQL(), `UPDATE jobs.log_removals SET due_at = now(), until = now()`)
		if n := e.round(); n != 0 || e.objects(young) > 0 {
			t.Errorf("in the end %d removals and %d objects are left", n, e.objects(young))
		}
	})
}
