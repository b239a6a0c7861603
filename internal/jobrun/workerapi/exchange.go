package workerapi

import (
	"context"
	"net/http"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
)

// ExchangeRuns stores the outcomes that a worker reports, and starts the next runs for it. The
// outcomes are durable before the claim waits. If only the claim is refused, the response still
// contains the results of the outcomes.
func (s *Handlers) ExchangeRuns(ctx context.Context, in api.ExchangeRunsRequestObject) (api.Response, error) {
	begun, b := time.Now(), in.Body
	if err := s.bound(ctx, in.WorkerID); err != nil {
		return nil, err
	}
	ask := askOf(ctx, in.WorkerID, b.Slots, b.Queues, b.ClaimID)
	ask.Start = true
	c, err := s.claimant(ctx, &ask)
	if limited := httpkit.RequestOf(ctx).Limited; err == nil && limited != nil {
		err = limited
	}
	bare := err != nil // the worker gets no runs
	if bare && (len(b.Outcomes) == 0 || !onlyOfTheClaim(err)) {
		return nil, err
	}
	all, outcomes := reported(ctx, in.WorkerID, b.Outcomes)
	g := granted{at: begun}
	if len(outcomes) > 0 {
		if g.offers, err = s.report(ctx, all, outcomes, ask, bare); err != nil {
			return nil, err
		}
	}
	if len(g.offers) == 0 && !bare {
		wait := b.WaitMS
		if all.refused() {
			wait = nil // the worker must learn of the refusal
		}
		g, err = s.await(ctx, ask, c, wait)
		if err != nil && (len(b.Outcomes) == 0 || !onlyOfTheClaim(err)) {
			return nil, err
		}
	}
	if len(g.offers) == 0 {
		g = granted{at: begun}
	}
	state, err := s.stateAfter(ctx, ask, c, g.offers)
	switch {
	case fault.KindOf(err) == fault.Gone && len(b.Outcomes) > 0:
		state = jobrun.WorkerDetached
	case err != nil:
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.ExchangedRuns{
		Results: toRunResults(0, all.done, all.items).Results, State: api.WorkerState(state),
		WaitedMS: g.at.Sub(begun).Milliseconds(), LeaseMS: c.lease(&ask, g.offers).Milliseconds(), Runs: toRuns(g.offers),
	}}, nil
}

// onlyOfTheClaim reports whether an error is a refusal of the claim that does not prevent the
// worker from reporting.
func onlyOfTheClaim(err error) bool {
	switch fault.KindOf(err) {
	case fault.Gone, fault.TooMany, fault.Unavailable:
		return true
	}
	return false
}

// report stores outcomes and sets their results in all. It also returns runs for the worker, unless
// the worker gets none.
func (s *Handlers) report(ctx context.Context, all *batch, outcomes []outcome, ask jobrun.ClaimRequest,
	bare bool) (offers []jobrun.Offer, err error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	finish := s.Work.Finish
	if !bare {
		finish = func(ctx context.Context, results []jobrun.Result) ([]jobrun.Done, error) {
			got, err := s.Exchange(ctx, jobrun.Exchange{Results: results, Claim: ask})
			offers = got.Offers
			return got.Done, err
		}
	}
	done, err := s.settle(ctx, outcomes, finish)
	if err != nil {
		return nil, err
	}
	all.put(done)
	return offers, all.known()
}
