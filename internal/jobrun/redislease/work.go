package redislease

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// Note wraps w and records in the hints which worker holds which run, after the database has
// confirmed it. The results of w do not change. lease is how long a worker keeps a started run
// without a heartbeat.
func Note(w jobrun.Work, hints jobrun.LeaseHints, lease func(context.Context) time.Duration) jobrun.Work {
	return &noting{w, hints, lease}
}

type noting struct {
	jobrun.Work
	hints jobrun.LeaseHints
	lease func(context.Context) time.Duration
}

func (n *noting) Claim(ctx context.Context, a jobrun.ClaimRequest) ([]jobrun.Offer, error) {
	offers, err := n.Work.Claim(ctx, a)
	for i := range offers {
		n.hold(ctx, &offers[i].Run)
	}
	return offers, err
}

func (n *noting) ClaimEach(ctx context.Context, asks []jobrun.ClaimRequest) ([][]jobrun.Offer, error) {
	got, err := n.Work.ClaimEach(ctx, asks)
	for _, offers := range got {
		for i := range offers {
			n.hold(ctx, &offers[i].Run)
		}
	}
	return got, err
}

func (n *noting) Exchange(ctx context.Context, all []jobrun.Exchange) ([]jobrun.Exchanged, error) {
	got, err := n.Work.Exchange(ctx, all)
	for i := range got {
		n.released(all[i].Results, got[i].Done)
		for k := range got[i].Offers {
			n.hold(ctx, &got[i].Offers[k].Run)
		}
	}
	return got, err
}

func (n *noting) Start(ctx context.Context, tenant uuid.UUID, fences []jobrun.RunFence) ([]jobrun.Done, error) {
	done, err := n.Work.Start(ctx, tenant, fences)
	for i := range done {
		if done[i].Err == nil {
			n.hold(ctx, &done[i].Run)
		}
	}
	return done, err
}

// Heartbeat notes the renewed leases. If the database is unavailable, it notes the runs that the
// worker claims to hold, because the heartbeat proves in any case that the worker is alive.
func (n *noting) Heartbeat(ctx context.Context, tenant, worker uuid.UUID, seq int64, load float64,
	beats []jobrun.Beat) (jobrun.WorkerProcess, []jobrun.Lease, error) {
	w, leases, err := n.Work.Heartbeat(ctx, tenant, worker, seq, load, beats)
	renewed := map[uuid.UUID]bool{}
	for _, l := range leases {
		renewed[l.RunID] = l.OK
	}
	away := err != nil && fault.KindOf(err) == 0
	for _, b := range beats {
		if away || renewed[b.RunID] {
			n.hints.Hold(jobrun.HeldRun{RunFence: jobrun.RunFence{RunID: b.RunID, Fence: b.Fence}, TTL: n.lease(ctx)})
		}
	}
	return w, leases, err
}

func (n *noting) Progress(ctx context.Context, tenant uuid.UUID, b jobrun.Beat) (jobrun.Run, error) {
	r, err := n.Work.Progress(ctx, tenant, b)
	if err == nil {
		n.hold(ctx, &r)
	}
	return r, err
}

func (n *noting) Confirm(ctx context.Context, tenant, run uuid.UUID, f jobrun.Fence) (jobrun.Run, error) {
	r, err := n.Work.Confirm(ctx, tenant, run, f)
	if err == nil {
		n.hold(ctx, &r)
	}
	return r, err
}

func (n *noting) Finish(ctx context.Context, results []jobrun.Result) ([]jobrun.Done, error) {
	done, err := n.Work.Finish(ctx, results)
	n.released(results, done)
	return done, err
}

// released notes that the workers of ended runs no longer hold them.
func (n *noting) released(results []jobrun.Result, done []jobrun.Done) {
	for i := range done {
		if done[i].Err == nil {
			n.hints.Release(jobrun.RunFence{RunID: results[i].RunID, Fence: results[i].Fence})
		}
	}
}

func (n *noting) Release(ctx context.Context, tenant, run uuid.UUID, f jobrun.Fence,
	how jobrun.Released) (jobrun.Done, error) {
	done, err := n.Work.Release(ctx, tenant, run, f, how)
	if err == nil {
		n.hints.Release(jobrun.RunFence{RunID: run, Fence: f})
	}
	return done, err
}

func (n *noting) AckCancel(ctx context.Context, tenant, run uuid.UUID, f jobrun.Fence) (jobrun.Done, error) {
	done, err := n.Work.AckCancel(ctx, tenant, run, f)
	if err == nil {
		n.hints.Release(jobrun.RunFence{RunID: run, Fence: f})
	}
	return done, err
}

// hold notes a run that the database has just assigned to its worker or confirmed.
func (n *noting) hold(ctx context.Context, r *jobrun.Run) {
	if r.State == jobrun.Assigned || r.State == jobrun.Running {
		n.hints.Hold(jobrun.HeldRun{RunFence: jobrun.RunFence{RunID: r.ID, Fence: r.Fence()}, TTL: n.lease(ctx)})
	}
}
