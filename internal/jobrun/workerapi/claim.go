package workerapi

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobqueue"
)

// ClaimRuns assigns runs to a worker, and waits for the first one (W3).
func (s *Handlers) ClaimRuns(ctx context.Context, in api.ClaimRunsRequestObject) (api.Response, error) {
	b := in.Body
	ask := jobrun.ClaimRequest{
		TenantID: httpkit.RequestOf(ctx).Tenant.ID, WorkerID: in.WorkerID, Slots: int(b.Slots),
		ClaimID: httpkit.Text(b.ClaimID),
		Start:   b.Start != nil && *b.Start,
	}
	if b.Queues != nil {
		ask.Queues = distinct(b.Queues)
	}
	settings, err := s.Current(ctx)
	if err != nil {
		return nil, err
	}
	k, err := s.kindOf(ctx, ask.TenantID, ask.WorkerID)
	if err != nil {
		return nil, err
	}
	if err := httpkit.RequestOf(ctx).Who.RequireQueues(k.Queues); err != nil {
		return nil, err
	}
	if ask.Queues == nil && len(k.Queues) == 1 {
		ask.Queues = k.Queues // a claim from one queue costs less
	}
	every := settings.Seconds(jobrun.HeartbeatTTL) / 3
	if s.waits.HeartbeatDue(ask.TenantID, ask.WorkerID, every) {
		if _, err := s.alive(ctx, ask.TenantID, ask.WorkerID, every); err != nil {
			return nil, err
		}
	}
	lease := settings.Seconds(jobrun.AssignLease)
	if ask.Start {
		lease = settings.Seconds(jobrun.RunLease)
	}
	var offers []jobrun.Offer
	if b.WaitMS == nil || *b.WaitMS == 0 {
		offers, err = s.claim(ctx, ask)
	} else {
		offers, err = s.awaitRuns(ctx, ask, k, min(time.Duration(*b.WaitMS)*time.Millisecond, s.Limits.MaxWait))
	}
	if err != nil {
		return nil, err
	}
	for i := range offers {
		if left := offers[i].Left; left > 0 {
			lease = min(lease, left)
		}
	}
	state := jobrun.WorkerActive                // a worker in another state gets nothing
	if len(offers) == 0 || offers[0].Left > 0 { // a repeated claim by a draining worker also returns its runs
		if state, err = s.alive(ctx, ask.TenantID, ask.WorkerID, every); err != nil {
			return nil, err
		}
	}
	return httpkit.Answer{Status: http.StatusOK, Body: toClaimedRuns(lease.Milliseconds(), state, offers)}, nil
}

// alive records a heartbeat of a worker, and returns its state. Fault: Gone.
func (s *Handlers) alive(ctx context.Context, tenant, worker uuid.UUID,
	fresh time.Duration) (jobrun.WorkerState, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	states, err := s.Work.Alive(ctx, tenant, []uuid.UUID{worker}, fresh)
	if err != nil {
		return "", err
	}
	state, known := states[worker]
	if !known {
		return "", fault.New(fault.Gone, jobrun.CodeWorkerGone, "this worker is detached or unknown: stop its runs and register again")
	}
	s.waits.NoteHeartbeat(tenant, worker)
	return state, nil
}

// aliveAtOnce is the maximum number of workers in one statement of Alive.
const aliveAtOnce = 1000

// waitingLive records heartbeats of workers whose claims wait here, so that an idle worker need not
// send heartbeats while it waits. If that fails, their next claim reports it.
func (s *Handlers) waitingLive(tenant uuid.UUID, workers []uuid.UUID) {
	ctx, cancel := s.Bounded(context.Background())
	defer cancel()
	settings, err := s.Current(ctx)
	for some := range slices.Chunk(workers, aliveAtOnce) {
		if err == nil {
			_, err = s.Work.Alive(ctx, tenant, some, settings.Seconds(jobrun.HeartbeatTTL)/3)
		}
	}
	if err != nil {
		s.Log.WarnContext(ctx, "cannot extend workers with waiting claims; without heartbeats they may be marked LOST",
			slog.Int("workers", len(workers)), slog.Any("error", err))
	}
}

// claim makes one claim. Runs assigned to a client that has disconnected stay assigned until their
// lease expires or the client repeats the claim.
func (s *Handlers) claim(ctx context.Context, ask jobrun.ClaimRequest) ([]jobrun.Offer, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	return s.Claim(ctx, ask)
}

// awaitRuns repeats the claim until it gets a run, the wait is over, the client disconnects or the
// server begins to stop.
func (s *Handlers) awaitRuns(ctx context.Context, ask jobrun.ClaimRequest, k jobqueue.Kind,
	wait time.Duration) (offers []jobrun.Offer, err error) {
	if ask.Queues != nil && len(meet(ask.Queues, k.Queues)) == 0 {
		wait = 0 // queues or labels beyond its registration
	}
	p, room := s.waits.Enter(ask.TenantID, ask.WorkerID, k, ask.Queues) // before the first claim, to miss no hint
	if !room {
		return nil, fault.New(fault.Unavailable, fault.CodeUnavailable, "%d claims are waiting on this node, which is the limit: retry later or on another node", s.waits.Max)
	}
	defer func() { p.Leave(err == nil && len(offers) == ask.Slots) }()
	over := time.NewTimer(wait)
	defer over.Stop()
	for woken := false; ; {
		if offers, err = s.claim(ctx, ask); err != nil || len(offers) > 0 {
			return offers, err
		}
		if woken {
			p.Requeue()
		}
		select {
		case <-p.Awake:
			woken = true
		case <-over.C:
			return nil, nil
		case <-s.Stopping:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// bound returns nil if the caller's key may act for a worker: it must cover all queues for which
// the worker is registered, and so every run that the worker can hold. Faults: Forbidden, Gone.
func (s *Handlers) bound(ctx context.Context, worker uuid.UUID) error {
	req := httpkit.RequestOf(ctx)
	if len(req.Who.Queues) == 0 {
		return nil
	}
	k, err := s.kindOf(ctx, req.Tenant.ID, worker)
	if err != nil {
		return err
	}
	return req.Who.RequireQueues(k.Queues)
}

// KindOf returns what a worker can take. Fault: Gone.
func (s *Handlers) kindOf(ctx context.Context, tenant, id uuid.UUID) (jobqueue.Kind, error) {
	if k, ok := s.waits.KindOf(tenant, id); ok {
		return k, nil
	}
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	w, err := s.Workers.Worker(ctx, tenant, id)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return jobqueue.Kind{}, fault.New(fault.Gone, jobrun.CodeWorkerGone, "no worker has this id: register first")
	case err != nil:
		return jobqueue.Kind{}, err
	}
	return s.waits.Know(&w), nil
}

// meet returns the elements common to both lists.
func meet(a, b []string) (both []string) {
	for _, v := range a {
		if slices.Contains(b, v) {
			both = append(both, v)
		}
	}
	return both
}
