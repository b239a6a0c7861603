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

// ClaimRuns assigns runs to a worker. If there are none, it waits for the first one (W3).
func (s *Handlers) ClaimRuns(ctx context.Context, in api.ClaimRunsRequestObject) (api.Response, error) {
	b := in.Body
	ask := askOf(ctx, in.WorkerID, b.Slots, b.Queues, b.ClaimID)
	ask.Start = b.Start != nil && *b.Start
	c, err := s.claimant(ctx, &ask)
	if err != nil {
		return nil, err
	}
	g, err := s.await(ctx, ask, c, b.WaitMS)
	if err != nil {
		return nil, err
	}
	state, err := s.stateAfter(ctx, ask, c, g.offers)
	if err != nil {
		return nil, err
	}
	lease := c.lease(&ask, g.offers).Milliseconds()
	return httpkit.Answer{Status: http.StatusOK, Body: toClaimedRuns(lease, state, g.offers)}, nil
}

// askOf returns a worker's request for runs.
func askOf(ctx context.Context, worker uuid.UUID, slots int32, queues []string, id *string) jobrun.ClaimRequest {
	ask := jobrun.ClaimRequest{
		TenantID: httpkit.RequestOf(ctx).Tenant.ID, WorkerID: worker, Slots: int(slots), ClaimID: httpkit.Text(id),
	}
	if queues != nil {
		ask.Queues = distinct(queues)
	}
	return ask
}

// claimant is a worker that claims runs.
type claimant struct {
	kind     jobqueue.Kind
	settings jobrun.Settings
	every    time.Duration // how often its heartbeats are stored
}

// claimant returns the worker of a claim. The claim counts as a heartbeat of that worker. A claim
// for any queue becomes a claim for the worker's only queue, if it has just one, because that costs
// less. Faults: Gone, Forbidden.
func (s *Handlers) claimant(ctx context.Context, ask *jobrun.ClaimRequest) (c claimant, err error) {
	if c.settings, err = s.Current(ctx); err != nil {
		return c, err
	}
	c.every = c.settings.Seconds(jobrun.HeartbeatTTL) / 3
	k, err := s.kindOf(ctx, ask.TenantID, ask.WorkerID)
	if err != nil {
		return c, err
	}
	if err := httpkit.RequestOf(ctx).Who.RequireQueues(k.Queues); err != nil {
		return c, err
	}
	if c.kind = k; ask.Queues == nil && len(k.Queues) == 1 {
		ask.Queues = k.Queues
	}
	if s.waits.HeartbeatDue(ask.TenantID, ask.WorkerID, c.every) {
		_, err = s.alive(ctx, ask.TenantID, ask.WorkerID, c.every)
	}
	return c, err
}

// lease is how long the worker holds the runs of a claim. For a repeated claim, it is the remaining
// time of the lease that expires first.
func (c *claimant) lease(ask *jobrun.ClaimRequest, offers []jobrun.Offer) time.Duration {
	lease := c.settings.Seconds(jobrun.AssignLease)
	if ask.Start {
		lease = c.settings.Seconds(jobrun.RunLease)
	}
	for i := range offers {
		if left := offers[i].Left; left > 0 {
			lease = min(lease, left)
		}
	}
	return lease
}

// stateAfter returns the state of a worker after its claim. Fault: Gone.
func (s *Handlers) stateAfter(ctx context.Context, ask jobrun.ClaimRequest, c claimant,
	offers []jobrun.Offer) (jobrun.WorkerState, error) {
	if len(offers) > 0 && offers[0].Left == 0 { // a repeated claim by a draining worker also returns the worker's runs
		return jobrun.WorkerActive, nil // a worker in any other state gets nothing
	}
	return s.alive(ctx, ask.TenantID, ask.WorkerID, c.every)
}

// alive records a heartbeat of a worker and returns its state. Fault: Gone.
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
// send heartbeats while it waits. If recording fails, the next claims of these workers report the
// error.
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
		s.Log.WarnContext(ctx, "cannot record heartbeats of workers with waiting claims; they may be marked LOST",
			slog.Int("workers", len(workers)), slog.Any("error", err))
	}
}

// claim makes one claim. If the client has disconnected, the runs assigned to it stay assigned
// until their leases expire or the client repeats the claim.
func (s *Handlers) claim(ctx context.Context, ask jobrun.ClaimRequest) ([]jobrun.Offer, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	return s.Claim(ctx, ask)
}

// granted is the result of a claim and the time when the claim was made. Its leases begin no
// earlier than that.
type granted struct {
	offers []jobrun.Offer
	at     time.Time
}

// await makes a claim and waits for its first run if the worker requests that.
func (s *Handlers) await(ctx context.Context, ask jobrun.ClaimRequest, c claimant,
	waitMS *int32) (g granted, err error) {
	if waitMS != nil && *waitMS > 0 {
		return s.awaitRuns(ctx, ask, c.kind, min(time.Duration(*waitMS)*time.Millisecond, s.Limits.MaxWait))
	}
	g.at = time.Now()
	g.offers, err = s.claim(ctx, ask)
	return g, err
}

// awaitRuns repeats the claim until it gets a run, the wait is over, the client disconnects, or the
// server begins to stop.
func (s *Handlers) awaitRuns(ctx context.Context, ask jobrun.ClaimRequest, k jobqueue.Kind,
	wait time.Duration) (g granted, err error) {
	if ask.Queues != nil && len(meet(ask.Queues, k.Queues)) == 0 {
		wait = 0 // its queues or labels go beyond its registration
	}
	p, room := s.waits.Enter(ask.TenantID, ask.WorkerID, k, ask.Queues) // before the first claim, to miss no hint
	if !room {
		return g, fault.New(fault.Unavailable, fault.CodeUnavailable, "this node has reached its limit of waiting claims (%d): retry later or on another node", s.waits.Max)
	}
	defer func() { p.Leave(err == nil && len(g.offers) == ask.Slots) }()
	over := time.NewTimer(wait)
	defer over.Stop()
	for woken := false; ; {
		g.at = time.Now()
		if g.offers, err = s.claim(ctx, ask); err != nil || len(g.offers) > 0 {
			return g, err
		}
		if woken {
			p.Requeue()
		}
		select {
		case <-p.Awake:
			woken = true
		case <-over.C:
			return g, nil
		case <-s.Stopping:
			return g, nil
		case <-ctx.Done():
			return g, ctx.Err()
		}
	}
}

// bound returns nil if the caller's key may act for a worker. The key must cover all queues for
// which the worker is registered, and thus every run that the worker can hold. Faults: Forbidden,
// Gone.
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

// kindOf returns the kind of a worker, which determines which runs it can take. Fault: Gone.
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

// meet returns the elements that both lists contain.
func meet(a, b []string) (both []string) {
	for _, v := range a {
		if slices.Contains(b, v) {
			both = append(both, v)
		}
	}
	return both
}
