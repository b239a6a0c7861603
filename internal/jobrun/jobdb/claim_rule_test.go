package jobdb_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/claimrule"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// claimWorlds is the number of random cases.
const claimWorlds = 100

// TestClaimsFollowTheRule lets the statements choose among random workers and runs, and compares
// the result with claimrule.Pool.
func TestClaimsFollowTheRule(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	for seed := range uint64(claimWorlds) {
		w := claimWorld{t: t, j: j, rand: rand.New(rand.NewPCG(seed, 13))}
		w.build()
		for round := range 3 {
			asks := w.asks()
			want := w.Assign(asks)
			got := w.claim(asks)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("world %d, round %d: claims %+v of workers %+v are given others than the rule says (-rule +statement):\n%s",
					seed, round, asks, w.Workers, diff)
			}
			w.assigned(asks, got)
		}
	}
}

// claimWorld contains a few workers and runs, both in the database and in the rule's types.
type claimWorld struct {
	claimrule.Pool
	t    *testing.T
	j    pgtest.Jobs
	rand *rand.Rand
}

func (w *claimWorld) one(of ...string) string    { return of[w.rand.IntN(len(of))] }
func (w *claimWorld) often(percent int) bool     { return w.rand.IntN(100) < percent }
func (w *claimWorld) some(of ...string) []string { return of[:w.rand.IntN(len(of)+1)] }

func (w *claimWorld) build() {
	for _, table := range []string{"claims", "workers", "job_runs", "queues"} {
		pgtest.Execute(w.t, w.j.DB.SQL(), `DELETE FROM jobs.`+table)
	}
	w.Now, w.Settings, w.Answered = pgtest.Now(), jobrun.NewSettings(1, nil), map[uuid.UUID][]string{}
	w.Led = !w.often(5)
	pgtest.Execute(w.t, w.j.DB.SQL(), `UPDATE jobs.leader SET expires_at = now() + $1 * interval '1 hour'`, map[bool]int{true: 1, false: -1}[w.Led])
	for range 1 + w.rand.IntN(4) {
		p := jobrun.WorkerProcess{
			ID: pgtest.NewID(), TenantID: w.j.Tenant, State: jobrun.WorkerActive,
			Queues: []string{"a", "b", "c"}[w.rand.IntN(2):][:1+w.rand.IntN(2)],
			Labels: w.some("gpu=yes", "zone=a"), Commands: w.some("mail", "report"), MaxRuns: 1 + w.rand.IntN(5),
			HeartbeatAt: w.Now,
		}
		if w.often(20) {
			p.State = jobrun.WorkerState(w.one("DRAINING", "LOST", "DETACHED"))
		}
		if w.often(10) {
			p.HeartbeatAt = w.Now.Add(-time.Minute)
		}
		w.j.NewWorker(w.t, func(reg *jobrun.WorkerProcess) { *reg = p })
		pgtest.Execute(w.t, w.j.DB.SQL(), `UPDATE jobs.workers SET state = $2::text, heartbeat_at = $3,
			lost_at = CASE WHEN $2::text = 'LOST' THEN now() END, detached_at = CASE WHEN $2::text = 'DETACHED' THEN now() END WHERE id = $1`,
			p.ID, p.State, p.HeartbeatAt)
		w.Workers = append(w.Workers, p)
	}
	w.Held = nil
	for _, queue := range []string{"a", "b", "c"} {
		state := jobrun.QueueOpen
		if w.often(15) {
			state, w.Held = jobrun.QueueHeld, append(w.Held, queue)
		}
		pgtest.Execute(w.t, w.j.DB.SQL(), `INSERT INTO jobs.queues (tenant_id, name, state, since, version)
			VALUES ($1, $2, $3, now(), 1)`, w.j.Tenant, queue, state)
	}
	for range w.rand.IntN(14) {
		w.addRun()
	}
}

// addRun creates a run in any state in which it can be claimed or blocks others.
func (w *claimWorld) addRun() {
	r := claimrule.Pooled{Run: w.j.NewRun(w.j.Job)}
	r.Queue, r.CommandName, r.Priority = w.one("a", "b", "c"), w.one("mail", "report"), w.rand.IntN(3)
	r.ScheduledFor = w.Now.Add(-time.Duration(w.rand.IntN(3)) * time.Minute)
	if w.often(30) {
		r.RequiredLabels = []string{w.one("gpu=yes", "zone=a")}
	}
	if w.often(40) {
		r.ConcurrencyKey, r.Concurrency = w.one("k", "l", "m"), jobrun.Queue
	}
	r.AdmittedAt = &w.Now
	if w.often(10) {
		r.AdmittedAt = nil
	}
	state := jobrun.Pending
	if !w.keyTaken(r.ConcurrencyKey) && w.often(40) {
		state = jobrun.State(w.one("ASSIGNED", "RUNNING", "ORPHANED"))
	}
	w.j.CreateAll(w.t, r.Run)
	if r.State = state; state != jobrun.Pending {
		r.WorkerID = w.Workers[w.rand.IntN(len(w.Workers))].ID
		pgtest.Execute(w.t, w.j.DB.SQL(), `UPDATE jobs.job_runs SET state = 'ASSIGNED', version = 2, attempt = 1, assigned_worker_id = $2, assigned_at = now(),
			lease_token = gen_random_uuid(), lease_expires_at = now() + interval '1 hour', leader_epoch = 1 WHERE id = $1`, r.ID, r.WorkerID)
	}
	if state == jobrun.Running || state == jobrun.Orphaned {
		pgtest.Execute(w.t, w.j.DB.SQL(), `UPDATE jobs.job_runs SET state = 'RUNNING', version = 3, started_at = now() WHERE id = $1`, r.ID)
	}
	if state == jobrun.Orphaned {
		pgtest.Execute(w.t, w.j.DB.SQL(), `UPDATE jobs.job_runs SET state = 'ORPHANED', version = 4 WHERE id = $1`, r.ID)
	}
	if state != jobrun.Pending && w.often(15) {
		r.CancelRequestedAt = &w.Now
		pgtest.Execute(w.t, w.j.DB.SQL(), `UPDATE jobs.job_runs SET cancel_requested_at = now() WHERE id = $1`, r.ID)
	}
	if r.Held = w.often(10); r.Held {
		pgtest.Execute(w.t, w.j.DB.SQL(), `UPDATE jobs.job_runs SET held = true WHERE id = $1`, r.ID)
	}
	w.Runs = append(w.Runs, r)
}

// keyTaken reports whether a worker holds a run of the key, because the database allows only one.
func (w *claimWorld) keyTaken(key string) bool {
	return key != "" &&
		slices.ContainsFunc(w.Runs,
			func(r claimrule.Pooled) bool { return r.ConcurrencyKey == key && r.State != jobrun.Pending })
}

// asks returns either a claim of any queues by one worker, or claims of one queue by several
// workers.
func (w *claimWorld) asks() (all []jobrun.ClaimRequest) {
	start := w.often(50)
	ask := func(p jobrun.WorkerProcess, queues []string) {
		a := jobrun.ClaimRequest{TenantID: w.j.Tenant, WorkerID: p.ID, Slots: 1 + w.rand.IntN(6), Queues: queues,
			Start: start}
		if w.often(40) {
			a.ClaimID = w.one("first", "second")
		}
		all = append(all, a)
	}
	if w.often(50) {
		ask(w.Workers[w.rand.IntN(len(w.Workers))], [][]string{nil, {"a", "b"}, {"a", "b", "c"}, {"a"}}[w.rand.IntN(4)])
		return all
	}
	queue := []string{w.one("a", "b", "c")}
	for _, n := range w.rand.Perm(len(w.Workers)) {
		ask(w.Workers[n], queue)
	}
	return all
}

// claim makes claims as production code does, and returns the new runs of each.
func (w *claimWorld) claim(asks []jobrun.ClaimRequest) [][]uuid.UUID {
	out := make([][]uuid.UUID, len(asks))
	var offers [][]jobrun.Offer
	var err error
	if len(asks) > 1 {
		offers, err = w.j.ClaimEach(w.t.Context(), asks)
	} else {
		var one []jobrun.Offer
		one, err = w.j.Claim(w.t.Context(), asks[0])
		offers = [][]jobrun.Offer{one}
	}
	if err != nil && !w.detached(asks) {
		w.t.Fatalf("claim %+v: %v", asks, err)
	}
	for i := range offers {
		for _, o := range offers[i] {
			if !w.knownAt(o.ID, asks[i].WorkerID) { // a repeated claim gets the same answer
				out[i] = append(out[i], o.ID)
			}
		}
	}
	return out
}

// detached reports whether the claiming worker learns that it is detached.
func (w *claimWorld) detached(asks []jobrun.ClaimRequest) bool {
	return len(asks) == 1 && slices.ContainsFunc(w.Workers, func(p jobrun.WorkerProcess) bool {
		return p.ID == asks[0].WorkerID && p.State == jobrun.WorkerDetached
	})
}

func (w *claimWorld) knownAt(run, worker uuid.UUID) bool {
	return slices.ContainsFunc(w.Runs, func(r claimrule.Pooled) bool {
		return r.ID == run && r.WorkerID == worker && r.State.Phase() == jobrun.Held
	})
}

// assigned records the runs of claims, and checks them in the database.
func (w *claimWorld) assigned(asks []jobrun.ClaimRequest, got [][]uuid.UUID) {
	for i := range asks {
		if len(got[i]) > 0 && asks[i].ClaimID != "" {
			w.Answered[asks[i].WorkerID] = append(w.Answered[asks[i].WorkerID], asks[i].ClaimID)
		}
		for _, id := range got[i] {
			n := slices.IndexFunc(w.Runs, func(r claimrule.Pooled) bool { return r.ID == id })
			r := &w.Runs[n]
			r.State, r.WorkerID = jobrun.Assigned, asks[i].WorkerID
			if asks[i].Start {
				r.State = jobrun.Running
			}
			stored := w.j.GetRun(w.t, id)
			if stored.State != r.State || stored.WorkerID != r.WorkerID || stored.LeaderEpoch != 1 {
				w.t.Fatalf("a run that was claimed is stored as %s", fmt.Sprint(stored.State, stored.WorkerID, stored.LeaderEpoch))
			}
		}
	}
}
