package jobdb_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestAWorkerGetsOnlyWhatItCanRun(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	gpu := j.Define(t, func(d *jobrun.Definition) { d.Spec.Requires = map[string]string{"gpu": "yes"} })
	mail := j.Define(t, func(d *jobrun.Definition) { d.Spec.CommandName = "mail" })
	slow := j.Define(t, func(d *jobrun.Definition) { d.Spec.Queue = "slow" })
	plain := j.Job
	for name, tt := range map[string]struct {
		worker func(*jobrun.WorkerProcess)
		ask    func(*jobrun.ClaimRequest)
		want   []jobrun.Definition
	}{
		"no labels":        {nil, nil, []jobrun.Definition{plain, mail}},
		"labels":           {func(w *jobrun.WorkerProcess) { w.Labels = []string{"gpu=yes", "zone=a"} }, nil, []jobrun.Definition{plain, mail, gpu}},
		"wrong label":      {func(w *jobrun.WorkerProcess) { w.Labels = []string{"gpu=no"} }, nil, []jobrun.Definition{plain, mail}},
		"commands":         {func(w *jobrun.WorkerProcess) { w.Commands = []string{"mail"} }, nil, []jobrun.Definition{mail}},
		"several queues":   {func(w *jobrun.WorkerProcess) { w.Queues = []string{"slow", "default"} }, nil, []jobrun.Definition{plain, mail, slow}},
		"one of its own":   {func(w *jobrun.WorkerProcess) { w.Queues = []string{"slow", "default"} }, func(a *jobrun.ClaimRequest) { a.Queues = []string{"slow"} }, []jobrun.Definition{slow}},
		"not its own":      {nil, func(a *jobrun.ClaimRequest) { a.Queues = []string{"slow"} }, nil},
		"as many as it is": {func(w *jobrun.WorkerProcess) { w.MaxRuns = 1 }, nil, []jobrun.Definition{plain}},
		"as it is of all":  {func(w *jobrun.WorkerProcess) { w.MaxRuns, w.Queues = 1, []string{"slow", "default"} }, nil, []jobrun.Definition{plain}},
		"no slots":         {nil, func(a *jobrun.ClaimRequest) { a.Slots = 0 }, nil},
	} {
		var want []uuid.UUID
		for i, d := range []jobrun.Definition{plain, mail, gpu, slow} {
			r := j.CreateAll(t,
				j.NewRun(d, func(a *jobrun.Request) { a.ScheduledFor = pgtest.Now().Add(time.Duration(i-10) * time.Second) }))[0]
			if slices.ContainsFunc(tt.want, func(w jobrun.Definition) bool { return w.ID == d.ID }) {
				want = append(want, r.ID)
			}
		}
		var worker []func(*jobrun.WorkerProcess)
		if tt.worker != nil {
			worker = append(worker, tt.worker)
		}
		var ask []func(*jobrun.ClaimRequest)
		if tt.ask != nil {
			ask = append(ask, tt.ask)
		}
		if got := ids(j.ClaimRuns(t, j.NewWorker(t, worker...), ask...)); !slices.Equal(got, want) {
			t.Errorf("%s: claimed %v, want %v", name, got, want)
		}
		pgtest.Execute(t, j.DB.SQL(), `DELETE FROM jobs.job_runs`)
	}
}

func TestRunsOfSeveralQueuesAreClaimedInOrder(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t, func(w *jobrun.WorkerProcess) { w.Queues = []string{"a", "b", "c"} })
	var want []uuid.UUID
	for i := range 12 {
		r := j.NewRun(j.Job, func(a *jobrun.Request) {
			a.ScheduledFor = pgtest.Now().Add(time.Duration(i-100) * time.Second)
			a.Priority = new(i % 3)
		})
		r.Queue = []string{"a", "b"}[i%2]
		want = append(want, j.CreateAll(t, r)[0].ID)
	}
	order := []int{2, 5, 8, 11, 1, 4, 7, 10, 0, 3, 6, 9}
	sorted := make([]uuid.UUID, len(want))
	for i, n := range order {
		sorted[i] = want[n]
	}
	for len(sorted) > 0 {
		got := ids(j.ClaimRuns(t, w, func(a *jobrun.ClaimRequest) { a.Slots = 5 }))
		n := min(5, len(sorted))
		if !slices.Equal(got, sorted[:n]) {
			t.Fatalf("claimed %v, want %v", got, sorted[:n])
		}
		sorted = sorted[n:]
	}
}

func TestAWorkerHoldsNoMoreRunsThanItsLimit(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t, func(w *jobrun.WorkerProcess) { w.MaxRuns = 3 })
	for range 10 {
		j.CreateAll(t, j.NewRun(j.Job))
	}
	first := j.ClaimRuns(t, w)
	if len(first) != 3 || len(j.ClaimRuns(t, w)) != 0 {
		t.Fatalf("claimed %d of at most 3", len(first))
	}
	j.StartRuns(t, first[0].Run)
	j.FinishRuns(t, pgtest.Success(first[0].Run))
	if again := j.ClaimRuns(t, w); len(again) != 1 {
		t.Errorf("with 2 of 3 under way it got %d", len(again))
	}
}

func TestWorkersWithoutAMatchingRunGetNothing(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	j.CreateAll(t, j.NewRun(j.Job))
	waits := j.NewWorker(t)
	change := func(set string) uuid.UUID {
		w := j.NewWorker(t)
		pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.workers SET `+set+` WHERE id = $1`, w)
		return w
	}
	for name, w := range map[string]uuid.UUID{
		"it drains":                 change(`state = 'DRAINING', drain_at = now()`),
		"it is lost":                change(`state = 'LOST'`),
		"its heartbeat is too old":  change(`heartbeat_at = now() - interval '16 seconds'`),
		"what it has is not enough": change(`queues = '{other}'`),
	} {
		if got := j.ClaimRuns(t, w); len(got) != 0 {
			t.Errorf("%s: claimed %v", name, ids(got))
		}
	}
	for name, w := range map[string]uuid.UUID{"it is detached": change(`state = 'DETACHED', detached_at = now()`), "it does not exist": pgtest.NewID()} {
		if _, err := j.Claim(t.Context(), jobrun.ClaimRequest{TenantID: j.Tenant, WorkerID: w, Slots: 1}); !fault.IsCode(err,
			jobrun.CodeWorkerGone) || fault.KindOf(err) != fault.Gone {
			t.Errorf("%s: %v", name, err)
		}
	}
	pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.leader SET expires_at = now()`)
	if got := j.ClaimRuns(t, waits); len(got) != 0 {
		t.Errorf("nobody leads: claimed %v", ids(got))
	}
	j.Lead(t, 9)
	if got := j.ClaimRuns(t, waits); len(got) != 1 || got[0].LeaderEpoch != 9 {
		t.Errorf("under epoch 9: claimed %v", got)
	}
}

func TestARunThatIsToBeCanceledOrNotDueIsNotClaimed(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	later := j.CreateAll(t, j.NewRun(j.Job, func(a *jobrun.Request) { a.ScheduledFor = pgtest.Now().Add(time.Minute) }))[0]
	doomed := j.CreateAll(t, j.NewRun(j.Job))[0]
	pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET cancel_requested_at = now() WHERE id = $1`, doomed.ID)
	if got := j.ClaimRuns(t, w); len(got) != 0 {
		t.Errorf("claimed %v", ids(got))
	}
	j.AdmitRun(t, later.ID)
	if got := ids(j.ClaimRuns(t, w)); !slices.Equal(got, []uuid.UUID{later.ID}) {
		t.Errorf("claimed %v, want %v", got, later.ID)
	}
}

func TestTheCheckpointGoesToTheNextAttempt(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	r := j.Running(t, w, j.Job)
	kept, err := j.Progress(t.Context(), j.Tenant, jobrun.Beat{RunID: r.ID, Fence: r.Fence(),
		Progress: &jobrun.Progress{Percent: new(40.0)}, Checkpoint: []byte(`{"row": 7}`)})
	if err != nil || *kept.Progress.Percent != 40 || !kept.LeaseExpiresAt.After(*r.LeaseExpiresAt) ||
		kept.Version != r.Version {
		t.Fatalf("progress: %+v, %v", kept, err)
	}
	if _, err := j.Release(t.Context(), j.Tenant, r.ID, r.Fence(), jobrun.Released{Reason: "deploy"}); err != nil {
		t.Fatal(err)
	}
	o := j.ClaimRuns(t, w)[0]
	if string(o.LastCheckpoint) != `{"row": 7}` || o.Progress != nil {
		t.Errorf("the next attempt gets %s, %v", o.LastCheckpoint, o.Progress)
	}
	j.StartRuns(t, o.Run)
	next := j.FinishRuns(t, pgtest.Failure(o.Run, true))[0].RetryID
	if got := j.GetRun(t, next); string(got.Checkpoint) != `{"row": 7}` {
		t.Errorf("the retry gets %s", got.Checkpoint)
	}
}
