package claimrule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/claimrule"
)

var (
	noon     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	settings = jobrun.NewSettings(1, nil)
)

// worker returns a worker that takes any run of queue q, up to five at once.
func worker(id byte, change ...func(*jobrun.WorkerProcess)) jobrun.WorkerProcess {
	w := jobrun.WorkerProcess{ID: uuid.UUID{id}, State: jobrun.WorkerActive, Queues: []string{"q"}, MaxRuns: 5,
		HeartbeatAt: noon}
	for _, c := range change {
		c(&w)
	}
	return w
}

// waiting returns a run of queue q that may be claimed.
func waiting(id byte, change ...func(*claimrule.Pooled)) claimrule.Pooled {
	r := claimrule.Pooled{Run: jobrun.Run{
		ID: uuid.UUID{id}, State: jobrun.Pending, Queue: "q", CommandName: "report", ScheduledFor: noon, AdmittedAt: &noon,
	}}
	for _, c := range change {
		c(&r)
	}
	return r
}

// with returns a change that makes worker 9 hold a run in a state.
func with(state jobrun.State) func(*claimrule.Pooled) {
	return func(r *claimrule.Pooled) { r.State, r.WorkerID = state, uuid.UUID{9} }
}

func pool(workers []jobrun.WorkerProcess, runs ...claimrule.Pooled) *claimrule.Pool {
	return &claimrule.Pool{Now: noon, Led: true, Settings: settings, Workers: workers, Runs: runs}
}

func asks(id byte, slots int, queues ...string) jobrun.ClaimRequest {
	return jobrun.ClaimRequest{WorkerID: uuid.UUID{id}, Slots: slots, Queues: queues}
}

// given describes which claim got which runs, such as "1: 4 5; 2: 6".
func given(of []jobrun.ClaimRequest, got [][]uuid.UUID) string {
	var out []string
	for i, ids := range got {
		text := fmt.Sprintf("%d:", of[i].WorkerID[0])
		for _, id := range ids {
			text += fmt.Sprintf(" %d", id[0])
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func TestWhichRunsAWorkerGets(t *testing.T) {
	t.Parallel()
	type (
		w = jobrun.WorkerProcess
		r = claimrule.Pooled
	)
	prio := func(n int) func(*r) { return func(r *r) { r.Priority = n } }
	ago := func(d time.Duration) func(*r) { return func(r *r) { r.ScheduledFor = noon.Add(-d) } }
	key := func(k string) func(*r) { return func(r *r) { r.ConcurrencyKey = k } }
	queue := func(q string) func(*r) { return func(r *r) { r.Queue = q } }
	requires := func(l ...string) func(*r) { return func(r *r) { r.RequiredLabels = l } }
	for _, tt := range []struct {
		name   string
		worker func(*w)
		slots  int
		queues []string
		runs   []r
		want   string
	}{
		{"what there is", nil, 5, nil, []r{waiting(4), waiting(5)}, "1: 4 5"},
		{"as many as it asks for", nil, 1, nil, []r{waiting(4), waiting(5)}, "1: 4"},
		{"as many as it may hold", func(w *w) { w.MaxRuns = 1 }, 5, nil, []r{waiting(4), waiting(5)}, "1: 4"},
		{"less what it holds", func(w *w) { w.ID, w.MaxRuns = uuid.UUID{9}, 3 }, 5, nil,
			[]r{waiting(4), waiting(5), waiting(6, with(jobrun.Assigned)), waiting(7, with(jobrun.Running))}, "9: 4"},
		{"what it has lost it does not hold", func(w *w) { w.ID, w.MaxRuns = uuid.UUID{9}, 1 }, 5, nil, []r{waiting(4, with(jobrun.Orphaned))}, "9: 4"},
		{"of several queues not more", func(w *w) { w.Queues, w.MaxRuns = []string{"q", "p"}, 1 }, 5, nil, []r{waiting(4), waiting(5, queue("p"))}, "1: 4"},
		{"nothing without slots", nil, 0, nil, []r{waiting(4)}, "1:"},
		{"the highest priority first", nil, 2, nil, []r{waiting(4), waiting(5, prio(2)), waiting(6, prio(1))}, "1: 5 6"},
		{"then the earliest slot", nil, 2, nil, []r{waiting(4), waiting(5, ago(time.Minute)), waiting(6, ago(time.Hour))}, "1: 6 5"},
		{"then the lowest id", nil, 2, nil, []r{waiting(6), waiting(5), waiting(4)}, "1: 4 5"},
		{"across its queues", func(w *w) { w.Queues = []string{"q", "p"} }, 2, nil, []r{waiting(4), waiting(5, queue("p"), prio(1)), waiting(6, queue("p"))}, "1: 5 4"},
		{"not of other queues", nil, 5, nil, []r{waiting(4, queue("p"))}, "1:"},
		{"of those that it asks for", func(w *w) { w.Queues = []string{"q", "p"} }, 5, []string{"p"}, []r{waiting(4), waiting(5, queue("p"))}, "1: 5"},
		{"but only its own", nil, 5, []string{"p"}, []r{waiting(4, queue("p"))}, "1:"},
		{"with the labels that it has", func(w *w) { w.Labels = []string{"gpu=yes", "zone=a"} }, 5, nil, []r{waiting(4, requires("gpu=yes", "zone=a"))}, "1: 4"},
		{"not with others", func(w *w) { w.Labels = []string{"gpu=no"} }, 5, nil, []r{waiting(4, requires("gpu=yes")), waiting(5)}, "1: 5"},
		{"the commands that it runs", func(w *w) { w.Commands = []string{"mail"} }, 5, nil, []r{waiting(4), waiting(5, func(r *r) { r.CommandName = "mail" })}, "1: 5"},
		{"what was given up", nil, 5, nil, []r{waiting(4, with(jobrun.Orphaned))}, "1: 4"},
		{"not what others have", nil, 5, nil, []r{waiting(4, with(jobrun.Assigned)), waiting(5, with(jobrun.Running))}, "1:"},
		{"nor what has ended", nil, 5, nil, []r{waiting(4, with(jobrun.Succeeded)), waiting(5, with(jobrun.Skipped))}, "1:"},
		{"nor what was not admitted", nil, 5, nil, []r{waiting(4, func(r *r) { r.AdmittedAt = nil })}, "1:"},
		{"nor what is held", nil, 5, nil, []r{waiting(4, func(r *r) { r.Held = true })}, "1:"},
		{"nor what is to be canceled", nil, 5, nil, []r{waiting(4, with(jobrun.Orphaned), func(r *r) { r.CancelRequestedAt = &noon })}, "1:"},
		{"one run of a key", nil, 5, nil, []r{waiting(4, key("k")), waiting(5, key("k")), waiting(6, key("l"))}, "1: 4 6"},
		{"the first of it", nil, 5, nil, []r{waiting(4, key("k")), waiting(5, key("k"), prio(1))}, "1: 5"},
		{"none of a key that is with a worker", nil, 5, nil, []r{waiting(4, key("k")), waiting(5, key("k"), with(jobrun.Running))}, "1:"},
		{"nor of one that was lost", nil, 5, nil, []r{waiting(4, key("k")), waiting(5, key("k"), with(jobrun.Orphaned), func(r *r) { r.AdmittedAt = nil })}, "1:"},
		{"but the lost one itself", nil, 5, nil, []r{waiting(4, key("k")), waiting(5, key("k"), with(jobrun.Orphaned))}, "1: 5"},
		{"others of the key take up room", nil, 2, nil, []r{waiting(4, key("k")), waiting(5, key("k")), waiting(6)}, "1: 4"},
		{"nothing while it drains", func(w *w) { w.State = jobrun.WorkerDraining }, 5, nil, []r{waiting(4)}, "1:"},
		{"nor when it is lost", func(w *w) { w.State = jobrun.WorkerLost }, 5, nil, []r{waiting(4)}, "1:"},
		{"nor detached", func(w *w) { w.State = jobrun.WorkerDetached }, 5, nil, []r{waiting(4)}, "1:"},
		{"nor silent", func(w *w) { w.HeartbeatAt = noon.Add(-15 * time.Second) }, 5, nil, []r{waiting(4)}, "1:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := worker(1)
			if tt.worker != nil {
				tt.worker(&p)
			}
			of := []jobrun.ClaimRequest{asks(p.ID[0], tt.slots, tt.queues...)}
			if got := given(of, pool([]w{p}, tt.runs...).Assign(of)); got != tt.want {
				t.Errorf("given %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWithoutALeaderNothingIsAssigned(t *testing.T) {
	t.Parallel()
	p := pool([]jobrun.WorkerProcess{worker(1)}, waiting(4))
	p.Led = false
	of := []jobrun.ClaimRequest{asks(1, 5)}
	if got := given(of, p.Assign(of)); got != "1:" {
		t.Errorf("given %q", got)
	}
}

func TestAClaimThatWasAnsweredIsGivenNothingNew(t *testing.T) {
	t.Parallel()
	p := pool([]jobrun.WorkerProcess{worker(1), worker(2)}, waiting(4))
	p.Answered = map[uuid.UUID][]string{{1}: {"a"}}
	for _, tt := range []struct {
		worker byte
		claim  string
		want   string
	}{{1, "a", "1:"}, {1, "b", "1: 4"}, {1, "", "1: 4"}, {2, "a", "2: 4"}, {3, "", "3:"}} {
		of := []jobrun.ClaimRequest{asks(tt.worker, 5)}
		of[0].ClaimID = tt.claim
		if got := given(of, p.Assign(of)); got != tt.want {
			t.Errorf("claim %q: given %q, want %q", tt.claim, got, tt.want)
		}
	}
}

func TestWorkersThatAskTogetherAreGivenRunsInTurns(t *testing.T) {
	t.Parallel()
	runs := []claimrule.Pooled{waiting(4), waiting(5), waiting(6), waiting(7), waiting(8)}
	gpu := func(w *jobrun.WorkerProcess) { w.Labels = []string{"gpu=yes"} }
	for _, tt := range []struct {
		name    string
		workers []jobrun.WorkerProcess
		asks    []jobrun.ClaimRequest
		want    string
	}{
		{"one each, and again", []jobrun.WorkerProcess{worker(1), worker(2)}, []jobrun.ClaimRequest{asks(1, 5, "q"), asks(2, 5, "q")}, "1: 4 6 8; 2: 5 7"},
		{"as many as each asks for", []jobrun.WorkerProcess{worker(1), worker(2)}, []jobrun.ClaimRequest{asks(1, 1, "q"), asks(2, 5, "q")}, "1: 4; 2: 5 6 7 8"},
		{"by their ids, whoever asked first", []jobrun.WorkerProcess{worker(1), worker(2)}, []jobrun.ClaimRequest{asks(2, 1, "q"), asks(1, 1, "q")}, "2: 5; 1: 4"},
		{"those that are alike", []jobrun.WorkerProcess{worker(1, gpu), worker(2), worker(3, gpu)},
			[]jobrun.ClaimRequest{asks(1, 5, "q"), asks(2, 5, "q"), asks(3, 1, "q")}, "1: 4 6 7 8; 2:; 3: 5"},
		{"like the first who has room", []jobrun.WorkerProcess{worker(1, gpu, func(w *jobrun.WorkerProcess) { w.MaxRuns = 0 }), worker(2)},
			[]jobrun.ClaimRequest{asks(1, 5, "q"), asks(2, 2, "q")}, "1:; 2: 4 5"},
	} {
		if got := given(tt.asks, pool(tt.workers, runs...).Assign(tt.asks)); got != tt.want {
			t.Errorf("%s: given %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestNoClaimTakesWhatIsNotItsOwn tries random pools: no worker gets a run twice, a run that it
// can't run, more runs than it has room for, or a run whose concurrency key another run has.
func TestNoClaimTakesWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var workers []jobrun.WorkerProcess
		var of []jobrun.ClaimRequest
		for n := range rapid.IntRange(1, 4).Draw(t, "workers") {
			w := worker(byte(1+n), func(w *jobrun.WorkerProcess) {
				w.MaxRuns = rapid.IntRange(0, 3).Draw(t, "max_runs")
				w.Labels = []string{"gpu=yes", "zone=a"}[:rapid.IntRange(0, 2).Draw(t, "labels")]
			})
			workers = append(workers, w)
			of = append(of, asks(w.ID[0], rapid.IntRange(0, 4).Draw(t, "slots"), "q"))
		}
		var runs []claimrule.Pooled
		for n := range rapid.IntRange(0, 12).Draw(t, "runs") {
			runs = append(runs, waiting(byte(10+n), func(r *claimrule.Pooled) {
				r.State = rapid.SampledFrom(jobrun.States).Draw(t, "state")
				r.ConcurrencyKey = rapid.SampledFrom([]string{"", "k", "l"}).Draw(t, "key")
				r.RequiredLabels = []string{"gpu=yes"}[:rapid.IntRange(0, 1).Draw(t, "required")]
				r.Held = rapid.Bool().Draw(t, "held")
				if r.State != jobrun.Pending {
					r.WorkerID = workers[0].ID
				}
			}))
		}
		p := pool(workers, runs...)
		seen, keys := map[uuid.UUID]bool{}, map[string]bool{}
		for i, ids := range p.Assign(of) {
			if most := min(of[i].Slots, workers[i].MaxRuns); len(ids) > most {
				t.Fatalf("worker %d has room for %d, and got %d", i, most, len(ids))
			}
			for _, id := range ids {
				r := runs[slices.IndexFunc(runs, func(r claimrule.Pooled) bool { return r.ID == id })]
				switch {
				case seen[id]:
					t.Fatalf("run %v is given twice", id)
				case !jobrun.CanMove(r.State, jobrun.Assigned, jobrun.Worker) || r.Held || !claimrule.CanRun(&workers[i], &r.Run):
					t.Fatalf("run %+v is not for worker %+v", r, workers[i])
				case r.ConcurrencyKey != "" && keys[r.ConcurrencyKey]:
					t.Fatalf("two runs of key %s are given", r.ConcurrencyKey)
				}
				seen[id], keys[r.ConcurrencyKey] = true, true
			}
		}
	})
}

func TestWhichWorkersAreGivenRuns(t *testing.T) {
	t.Parallel()
	for _, state := range []jobrun.WorkerState{jobrun.WorkerActive, jobrun.WorkerDraining, jobrun.WorkerLost,
		jobrun.WorkerDetached} {
		for silence, fresh := range map[time.Duration]bool{0: true, 14 * time.Second: true, 15 * time.Second: false,
			time.Hour: false} {
			w := worker(1)
			w.State, w.HeartbeatAt = state, noon.Add(-silence)
			if got := claimrule.MayClaim(&w, settings, noon); got != (fresh && state == jobrun.WorkerActive) {
				t.Errorf("%s, silent for %s: %v", state, silence, got)
			}
		}
	}
}

func TestHowManyRunsAWorkerIsGiven(t *testing.T) {
	t.Parallel()
	few := jobrun.NewSettings(1, map[string]float64{jobrun.MaxRunsPerWorker: 3})
	for _, tt := range []struct {
		asks, may, holds int
		settings         jobrun.Settings
		want             int
	}{
		{5, 10, 0, settings, 5},
		{5, 10, 7, settings, 3},
		{5, 2, 0, settings, 2},
		{5, 2, 2, settings, 0},
		{5, 2, 3, settings, -1},
		{0, 2, 0, settings, 0},
		{5, 10, 0, few, 3},
		{5, 10, 2, few, 1},
		{10_000, 10_000, 0, jobrun.NewSettings(1, map[string]float64{jobrun.MaxRunsPerWorker: 10_000}), jobrun.MaxClaim},
	} {
		w := jobrun.WorkerProcess{MaxRuns: tt.may}
		if got := claimrule.Room(&w, tt.asks, tt.holds, tt.settings); got != tt.want {
			t.Errorf("asks for %d, may hold %d, holds %d: %d, want %d", tt.asks, tt.may, tt.holds, got, tt.want)
		}
	}
}
