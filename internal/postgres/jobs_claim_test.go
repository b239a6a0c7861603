package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

func TestAWorkerGetsOnlyWhatItCanRun(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	gpu := j.define(t, func(d *jobrun.Definition) { d.Spec.Requires = map[string]string{"gpu": "yes"} })
	mail := j.define(t, func(d *jobrun.Definition) { d.Spec.CommandName = "mail" })
	slow := j.define(t, func(d *jobrun.Definition) { d.Spec.Queue = "slow" })
	plain := j.job
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
			r := j.create(t, j.run(d, func(a *jobrun.Request) { a.ScheduledFor = now().Add(time.Duration(i-10) * time.Second) }))[0]
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
		if got := ids(j.claim(t, j.worker(t, worker...), ask...)); !slices.Equal(got, want) {
			t.Errorf("%s: claimed %v, want %v", name, got, want)
		}
		execute(t, j.db.SQL(), `DELETE FROM jobs.job_runs`)
	}
}

func TestOfSeveralQueuesTheFirstInOrderAreGiven(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	w := j.worker(t, func(w *jobrun.WorkerProcess) { w.Queues = []string{"a", "b", "c"} })
	var want []uuid.UUID
	for i := range 12 {
		r := j.run(j.job, func(a *jobrun.Request) {
			a.ScheduledFor = now().Add(time.Duration(i-100) * time.Second)
			a.Priority = new(i % 3)
		})
		r.Queue = []string{"a", "b"}[i%2]
		want = append(want, j.create(t, r)[0].ID)
	}
	order := []int{2, 5, 8, 11, 1, 4, 7, 10, 0, 3, 6, 9}
	sorted := make([]uuid.UUID, len(want))
	for i, n := range order {
		sorted[i] = want[n]
	}
	for len(sorted) > 0 {
		got := ids(j.claim(t, w, func(a *jobrun.ClaimRequest) { a.Slots = 5 }))
		n := min(5, len(sorted))
		if !slices.Equal(got, sorted[:n]) {
			t.Fatalf("claimed %v, want %v", got, sorted[:n])
		}
		sorted = sorted[n:]
	}
}

func TestAWorkerHoldsNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	w := j.worker(t, func(w *jobrun.WorkerProcess) { w.MaxRuns = 3 })
	for range 10 {
		j.create(t, j.run(j.job))
	}
	first := j.claim(t, w)
	if len(first) != 3 || len(j.claim(t, w)) != 0 {
		t.Fatalf("claimed %d of at most 3", len(first))
	}
	j.start(t, first[0].Run)
	j.finish(t, success(first[0].Run))
	if again := j.claim(t, w); len(again) != 1 {
		t.Errorf("with 2 of 3 under way it got %d", len(again))
	}
}

func TestWhoGetsNothing(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	j.create(t, j.run(j.job))
	waits := j.worker(t)
	change := func(set string) uuid.UUID {
		w := j.worker(t)
		execute(t, j.db.SQL(), `UPDATE jobs.workers SET `+set+` WHERE id = $1`, w)
		return w
	}
	for name, w := range map[string]uuid.UUID{
		"it drains":                 change(`state = 'DRAINING', drain_at = now()`),
		"it is lost":                change(`state = 'LOST'`),
		"its heartbeat is too old":  change(`heartbeat_at = now() - interval '16 seconds'`),
		"what it has is not enough": change(`queues = '{other}'`),
	} {
		if got := j.claim(t, w); len(got) != 0 {
			t.Errorf("%s: claimed %v", name, ids(got))
		}
	}
	for name, w := range map[string]uuid.UUID{"it is detached": change(`state = 'DETACHED', detached_at = now()`), "it does not exist": newID()} {
		if _, err := j.Claim(t.Context(), jobrun.ClaimRequest{TenantID: j.tenant, WorkerID: w, Slots: 1}); !fault.IsCode(err, jobrun.CodeWorkerGone) || fault.KindOf(err) != fault.Gone {
			t.Errorf("%s: %v", name, err)
		}
	}
	execute(t, j.db.SQL(), `UPDATE jobs.leader SET expires_at = now()`)
	if got := j.claim(t, waits); len(got) != 0 {
		t.Errorf("nobody leads: claimed %v", ids(got))
	}
	j.lead(t, 9)
	if got := j.claim(t, waits); len(got) != 1 || got[0].LeaderEpoch != 9 {
		t.Errorf("under epoch 9: claimed %v", got)
	}
}

func TestWhatIsToBeCanceledOrNotDueIsNotClaimed(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	w := j.worker(t)
	later := j.create(t, j.run(j.job, func(a *jobrun.Request) { a.ScheduledFor = now().Add(time.Minute) }))[0]
	doomed := j.create(t, j.run(j.job))[0]
	execute(t, j.db.SQL(), `UPDATE jobs.job_runs SET cancel_requested_at = now() WHERE id = $1`, doomed.ID)
	if got := j.claim(t, w); len(got) != 0 {
		t.Errorf("claimed %v", ids(got))
	}
	j.admit(t, later.ID)
	if got := ids(j.claim(t, w)); !slices.Equal(got, []uuid.UUID{later.ID}) {
		t.Errorf("claimed %v, want %v", got, later.ID)
	}
}

func TestTheCheckpointGoesToTheNextAttempt(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	w := j.worker(t)
	r := j.running(t, w, j.job)
	kept, err := j.Progress(t.Context(), j.tenant, jobrun.Beat{RunID: r.ID, Fence: r.Fence(), Progress: &jobrun.Progress{Percent: new(40.0)}, Checkpoint: []byte(`{"row": 7}`)})
	if err != nil || *kept.Progress.Percent != 40 || !kept.LeaseExpiresAt.After(*r.LeaseExpiresAt) || kept.Version != r.Version {
		t.Fatalf("progress: %+v, %v", kept, err)
	}
	if _, err := j.Release(t.Context(), j.tenant, r.ID, r.Fence(), "deploy"); err != nil {
		t.Fatal(err)
	}
	o := j.claim(t, w)[0]
	if string(o.LastCheckpoint) != `{"row": 7}` || o.Progress != nil {
		t.Errorf("the next attempt gets %s, %v", o.LastCheckpoint, o.Progress)
	}
	j.start(t, o.Run)
	next := j.finish(t, failure(o.Run, true))[0].RetryID
	if got := j.get(t, next); string(got.Checkpoint) != `{"row": 7}` {
		t.Errorf("the retry gets %s", got.Checkpoint)
	}
}
