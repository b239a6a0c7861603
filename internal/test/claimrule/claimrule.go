// Package claimrule is a model, for tests, of which runs a worker gets (W3). A claim is one
// statement that selects and assigns runs, so that workers don't wait for each other; a test of the
// store compares what the statement selects with this model on many small data sets.
package claimrule

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
)

// CanRun reports whether a worker is able to run r: the worker serves r's queue, has the labels
// that r requires, and supports r's command.
func CanRun(w *jobrun.WorkerProcess, r *jobrun.Run) bool {
	return slices.Contains(w.Queues, r.Queue) &&
		!slices.ContainsFunc(r.RequiredLabels, func(l string) bool { return !slices.Contains(w.Labels, l) }) &&
		(len(w.Commands) == 0 || slices.Contains(w.Commands, r.CommandName))
}

// MayClaim reports whether a worker may be given runs: it is alive and not draining.
func MayClaim(w *jobrun.WorkerProcess, s jobrun.Settings, now time.Time) bool {
	return w.State == jobrun.WorkerActive && w.HeartbeatAt.After(now.Add(-s.Seconds(jobrun.HeartbeatTTL)))
}

// Room returns how many runs a worker gets that asks for some and already holds others.
func Room(w *jobrun.WorkerProcess, asks, holds int, s jobrun.Settings) int {
	return min(asks, jobrun.MaxClaim, min(w.MaxRuns, s.Int(jobrun.MaxRunsPerWorker))-holds)
}

// Pool is the data that a tenant's claims choose from.
type Pool struct {
	Now      time.Time
	Led      bool // there is a leader; otherwise nothing is assigned
	Settings jobrun.Settings
	Workers  []jobrun.WorkerProcess
	Runs     []Pooled
	Held     []string // queues that an operator holds
	// Answered lists the claims that have already been answered, by worker.
	Answered map[uuid.UUID][]string
}

// Pooled is a run as claims see it.
type Pooled struct {
	jobrun.Run
	Held bool // the run is a step of a suspended saga
}

// claimable reports whether r may be assigned to any worker.
func (p *Pool) claimable(r *Pooled) bool {
	return jobrun.CanMove(r.State, jobrun.Assigned, jobrun.Worker) && r.AdmittedAt != nil && !r.Held &&
		!slices.Contains(p.Held, r.Queue) &&
		r.CancelRequestedAt == nil && p.keyIsFree(&r.Run)
}

// keyIsFree reports whether no other run holds r's concurrency key.
func (p *Pool) keyIsFree(r *jobrun.Run) bool {
	return r.ConcurrencyKey == "" || !slices.ContainsFunc(p.Runs, func(o Pooled) bool {
		return o.ID != r.ID && o.ConcurrencyKey == r.ConcurrencyKey &&
			(o.State.Phase() == jobrun.Held || o.State == jobrun.Orphaned)
	})
}

// seat is a free slot for one run at a worker.
type seat struct {
	worker uuid.UUID
	nth    int // its number among the worker's seats
}

// Assign returns the runs that each of several claims gets, in the order in which the runs are
// taken. The claims are one claim of any queues, or several of the same queue. Workers that claim
// together are given runs in turns, so that none of them gets all the runs. Workers whose labels or
// commands differ from those of the first worker with room get nothing, and have to claim
// separately. Only the first run of a concurrency key is assigned.
func (p *Pool) Assign(asks []jobrun.ClaimRequest) [][]uuid.UUID {
	out := make([][]uuid.UUID, len(asks))
	var first *jobrun.WorkerProcess
	var seats []seat
	at := map[uuid.UUID]int{}
	for i := range asks {
		w, room := p.claimant(&asks[i])
		if room <= 0 {
			continue
		}
		if first == nil {
			first = w
		}
		if !slices.Equal(w.Labels, first.Labels) || !slices.Equal(w.Commands, first.Commands) {
			continue
		}
		at[w.ID] = i
		for n := range room {
			seats = append(seats, seat{w.ID, n})
		}
	}
	if first == nil {
		return out
	}
	slices.SortFunc(seats, func(a, b seat) int {
		return cmp.Or(cmp.Compare(a.nth, b.nth), bytes.Compare(a.worker[:], b.worker[:]))
	})
	for n, r := range p.turns(first, asks[at[first.ID]].Queues, len(seats)) {
		i := at[seats[n].worker]
		out[i] = append(out[i], r.ID)
	}
	return out
}

// claimant returns the worker of a claim and the maximum number of runs it gets.
func (p *Pool) claimant(a *jobrun.ClaimRequest) (w *jobrun.WorkerProcess, room int) {
	i := slices.IndexFunc(p.Workers, func(w jobrun.WorkerProcess) bool { return w.ID == a.WorkerID })
	if i < 0 || !p.Led || a.ClaimID != "" && slices.Contains(p.Answered[a.WorkerID], a.ClaimID) {
		return nil, 0
	}
	w = &p.Workers[i]
	takes := a.Queues == nil || slices.ContainsFunc(a.Queues, func(q string) bool { return slices.Contains(w.Queues, q) })
	if !takes || !MayClaim(w, p.Settings, p.Now) {
		return nil, 0
	}
	holds := 0
	for i := range p.Runs {
		if r := &p.Runs[i]; r.WorkerID == w.ID && r.State.Phase() == jobrun.Held {
			holds++
		}
	}
	return w, Room(w, a.Slots, holds, p.Settings)
}

// turns returns the first n runs of the queues that w can run, without those whose concurrency key
// belongs to an earlier one of them.
func (p *Pool) turns(w *jobrun.WorkerProcess, queues []string, n int) (out []*jobrun.Run) {
	for i := range p.Runs {
		r := &p.Runs[i]
		if CanRun(w, &r.Run) && (queues == nil || slices.Contains(queues, r.Queue)) && p.claimable(r) {
			out = append(out, &r.Run)
		}
	}
	slices.SortFunc(out, jobrun.CompareTurns)
	keys := map[string]bool{}
	return slices.DeleteFunc(out[:min(n, len(out))], func(r *jobrun.Run) bool {
		taken := r.ConcurrencyKey != "" && keys[r.ConcurrencyKey]
		keys[r.ConcurrencyKey] = true
		return taken
	})
}
