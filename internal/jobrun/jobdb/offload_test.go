package jobdb_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// newLogs returns a store of logs, and a run that a worker holds.
func newLogs(t *testing.T) (pgtest.Jobs, *jobdb.Logs, jobrun.Run) {
	t.Helper()
	j := pgtest.NewJobs(t)
	return j, jobdb.NewLogs(j.Base), j.Running(t, j.NewWorker(t), j.Job)
}

func offloadable(t *testing.T, logs *jobdb.Logs, before time.Time) (out []uuid.UUID) {
	t.Helper()
	runs, err := logs.Offloadable(t.Context(), before, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		out = append(out, runs[i].ID)
	}
	return out
}

var logSum = sha256.Sum256([]byte("a log"))

func TestALogIsReplacedByItsRefInOneTransaction(t *testing.T) {
	t.Parallel()
	j, logs, r := newLogs(t)
	j.Writes(t, r, 0, "one\n", "two\n")
	hour := pgtest.Now().Add(time.Hour)
	if got := offloadable(t, logs, hour); len(got) != 0 {
		t.Errorf("while it runs %v may leave", got)
	}
	if done, err := logs.Offloaded(t.Context(), j.Tenant, r.ID, "ref", logSum[:], 2, 8); done || err != nil {
		t.Errorf("while it runs: %v, %v", done, err)
	}
	j.FinishRuns(t, pgtest.Success(r))
	silent := j.Running(t, j.NewWorker(t), j.Job)
	j.FinishRuns(t, pgtest.Success(silent))
	if got := offloadable(t, logs, pgtest.Now().Add(-time.Hour)); len(got) != 0 {
		t.Errorf("before its time %v may leave", got)
	}
	if got := offloadable(t, logs, hour); !slices.Equal(got, []uuid.UUID{r.ID}) {
		t.Errorf("%v may leave, want %s alone", got, r.ID)
	}
	j.Writes(t, r, 2, "last words\n") // from a worker that sent them late
	for name, given := range map[string][2]int{"another number": {2, 19}, "other bytes": {3, 8}, "the old state": {2, 8},
		"nothing": {0, 0}} {
		if done, err := logs.Offloaded(t.Context(), j.Tenant, r.ID, "ref", logSum[:], given[0], int64(given[1])); done ||
			err != nil {
			t.Errorf("%s: %v, %v", name, done, err)
		}
	}
	if _, err := logs.Offloaded(t.Context(), pgtest.NewID(), r.ID, "ref", logSum[:], 3,
		19); fault.KindOf(err) != fault.NotFound {
		t.Errorf("for another tenant: %v", err)
	}
	if got := j.GetRun(t, r.ID); got.LogRef != "" || j.Chunks(t, r.ID) != 3 ||
		j.CountEvents(t, r.ID, jobrun.WasOffloaded) != 0 {
		t.Errorf("a refusal left ref %q and %d chunks", got.LogRef, j.Chunks(t, r.ID))
	}
	for range 2 { // the second time simulates that the answer to the first call was lost
		if done, err := logs.Offloaded(t.Context(), j.Tenant, r.ID, "ref", logSum[:], 3, 19); !done || err != nil {
			t.Errorf("%v, %v", done, err)
		}
	}
	if done, err := logs.Offloaded(t.Context(), j.Tenant, r.ID, "other", logSum[:], 3, 19); done || err != nil {
		t.Errorf("once more, elsewhere: %v, %v", done, err)
	}
	got := j.GetRun(t, r.ID)
	if got.LogRef != "ref" || !bytes.Equal(got.LogSHA256, logSum[:]) || got.LogBytes != 19 ||
		got.State != jobrun.Succeeded {
		t.Errorf("the run says %q, %x, %d bytes, %s", got.LogRef, got.LogSHA256, got.LogBytes, got.State)
	}
	if n := j.Chunks(t, r.ID); n != 0 || j.CountEvents(t, r.ID, jobrun.WasOffloaded) != 1 {
		t.Errorf("%d chunks are left, and %d events", n, j.CountEvents(t, r.ID, jobrun.WasOffloaded))
	}
	if got := offloadable(t, logs, hour); len(got) != 0 {
		t.Errorf("afterwards %v may leave", got)
	}
	_, err := j.AppendLog(t.Context(), j.Tenant, r.ID, r.Fence(), jobrun.LogChunk{LogPosition: jobrun.LogPosition{Seq: 3},
		Body: []byte("x")})
	if fault.KindOf(err) != fault.Conflict || j.Chunks(t, r.ID) != 0 {
		t.Errorf("appending afterwards: %v, %d chunks", err, j.Chunks(t, r.ID))
	}
}

// TestAChunkThatArrivesMeanwhileIsNotLost checks J9: there is either a reference without chunks, or
// all chunks and no reference, in either order of the calls.
func TestAChunkThatArrivesMeanwhileIsNotLost(t *testing.T) {
	t.Parallel()
	j, logs, _ := newLogs(t)
	w := j.NewWorker(t)
	left := 0
	for range 40 {
		r := j.Running(t, w, j.Job)
		j.Writes(t, r, 0, "one")
		j.FinishRuns(t, pgtest.Success(r))
		var both sync.WaitGroup
		var appended error
		var done bool
		both.Go(func() {
			_, appended = j.AppendLog(t.Context(), j.Tenant, r.ID, r.Fence(),
				jobrun.LogChunk{LogPosition: jobrun.LogPosition{Seq: 1}, Body: []byte("two")})
		})
		both.Go(func() {
			var err error
			if done, err = logs.Offloaded(t.Context(), j.Tenant, r.ID, "ref", logSum[:], 1, 3); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		ref, chunks := j.GetRun(t, r.ID).LogRef, j.Chunks(t, r.ID)
		switch {
		case done && ref == "ref" && chunks == 0 && fault.KindOf(appended) == fault.Conflict:
			left++
		case !done && ref == "" && chunks == 2 && appended == nil:
		default:
			t.Errorf("offloaded %v, ref %q, %d chunks, appended: %v", done, ref, chunks, appended)
		}
	}
	t.Logf("%d of 40 logs left before the chunk came", left)
}

func TestExpiredRunsArePurgedOfAllTenants(t *testing.T) {
	t.Parallel()
	j, logs, _ := newLogs(t)
	other := j
	other.Tenant = pgtest.NewID()
	other.Job = other.Define(t, nil)
	var want []string
	ended := map[uuid.UUID]bool{} // whether the run is to be purged
	for i, owner := range []pgtest.Jobs{j, j, other, j, other} {
		r := owner.Running(t, owner.NewWorker(t), owner.Job)
		owner.Writes(t, r, 0, "x")
		owner.FinishRuns(t, pgtest.Success(r))
		ended[r.ID] = i < 3
		// The later runs are younger. The trigger does not allow any other session to change the
		// time when a run ended.
		pgtest.Execute(t, pgtest.Observer(t, j.Dsn), fmt.Sprintf(`SET session_replication_role = replica;
			UPDATE jobs.job_runs SET finished_at = now() - interval '100 days' + interval '%d hours' WHERE id = '%s'`, i, r.ID))
		if i != 1 {
			ref := r.ID.String()
			if done, err := logs.Offloaded(t.Context(), owner.Tenant, r.ID, ref, logSum[:], 1, 1); !done || err != nil {
				t.Fatal(done, err)
			}
			if i < 3 {
				want = append(want, ref)
			}
		}
	}
	active := j.Running(t, j.NewWorker(t), j.Job)
	before := pgtest.Now().Add(-100*24*time.Hour + 150*time.Minute)
	deleted := 0
	for range 4 {
		n, err := logs.Purge(t.Context(), before, 2)
		if err != nil || n > 2 {
			t.Fatal(n, err)
		}
		deleted += n
	}
	var got []string
	removals, err := logs.Removals(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range removals {
		got = append(got, r.RunID.String())
		if err := logs.Removed(t.Context(), r); err != nil || !r.Moved {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if left, err := logs.Removals(t.Context(), 100); len(left) > 0 || err != nil {
		t.Errorf("removals that have ended: %+v, %v", left, err)
	}
	slices.Sort(got)
	slices.Sort(want)
	if deleted != 3 || !slices.Equal(got, want) {
		t.Errorf("%d runs are deleted, with %v; want 3 with %v", deleted, got, want)
	}
	for id, gone := range ended {
		n := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE id = $1`, id)
		rest := j.Count(t, `SELECT (SELECT count(*) FROM jobs.job_run_logs WHERE run_id = $1) + (SELECT count(*) FROM jobs.job_run_events WHERE run_id = $1)`, id)
		if gone != (n == 0) || gone && rest > 0 {
			t.Errorf("run %s that is to go %v: %d rows, and %d of its own", id, gone, n, rest)
		}
	}
	j.GetRun(t, active.ID)
}

// A start does not change an index either, because indexes only contain that a worker holds the
// run.
func TestStartingARunAndAppendingToItsLogTouchNoIndex(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db := pgtest.Connect(t, dsn)
	base := jobdb.NewDB(db, pgtest.JobChance, nil)
	j := pgtest.Jobs{Jobs: jobdb.NewJobs(base, pgtest.Defaults), DB: db, Base: base, Dsn: dsn, Tenant: pgtest.NewID(),
		Job: jobrun.Definition{}}
	j.Lead(t, 1)
	j.Job = j.Define(t, nil)
	j.CreateAll(t, j.NewRun(j.Job))
	r := j.ClaimRuns(t, j.NewWorker(t))[0].Run
	j.StartRuns(t, r)
	j.Writes(t, r, 0, "the first says that there is a log")
	j.Writes(t, r, 1, "a", "b", "c", "d")
	db.Close()
	watch := pgtest.Observer(t, dsn)
	pgtest.Quiet(t, watch)
	var updated, hot int
	if err := watch.QueryRowContext(t.Context(), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = 'jobs' AND relname = 'job_runs'`).Scan(&updated, &hot); err != nil {
		t.Fatal(err)
	}
	if updated < 6 || hot != 5 { // the start, and every chunk after the first one
		t.Errorf("%d updates, %d of them HOT; want 5", updated, hot)
	}
}
