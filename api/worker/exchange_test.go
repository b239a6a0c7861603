package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/api/worker"
)

// exchanges is api.ExchangeInput with a list of outcomes, each of which must match the contract.
type exchanges struct {
	Outcomes []api.CompleteItem `json:"outcomes"`
	Slots    int32              `json:"slots"`
	WaitMS   int32              `json:"wait_ms"`
	Queues   []string           `json:"queues"`
	ClaimID  string             `json:"claim_id"`
}

// exchange answers an exchange through the calls that it replaces, so that tests see and answer
// those calls.
func (s *skald) exchange(c *call, in *exchanges) *reply {
	if s.older {
		return &reply{status: 404, code: "REQ_NOT_FOUND"}
	}
	part := func(verb string, body any) *reply {
		p := *c
		p.verb, p.body = verb, body
		return s.serve(&p)
	}
	out := api.ExchangedRuns{Results: []api.RunResult{}, Runs: []api.ClaimedRun{}, LeaseMS: lease.Milliseconds()}
	if len(in.Outcomes) > 0 {
		r := part("complete", &completes{in.Outcomes})
		if r.status != 200 {
			return r
		}
		out.Results = r.body.(api.RunResults).Results
	}
	r := part("claim", &api.ClaimInput{Slots: in.Slots, WaitMS: &in.WaitMS, ClaimID: &in.ClaimID})
	if r.status != 200 {
		return r
	}
	got := r.body.(api.ClaimedRuns)
	out.State, out.WaitedMS = got.State, time.Since(c.at).Milliseconds()
	if len(got.Runs) == 0 {
		return &reply{status: 200, body: out}
	}
	var begin starts
	for _, g := range got.Runs {
		begin.Runs = append(begin.Runs, api.StartItem{RunID: g.RunID, Attempt: g.Attempt, LeaseToken: g.LeaseToken,
			LeaderEpoch: g.LeaderEpoch})
	}
	if r = part("start", &begin); r.status != 200 {
		return r
	}
	for i, started := range r.body.(api.RunResults).Results {
		if started.Status == 200 {
			out.Runs = append(out.Runs, got.Runs[i])
		}
	}
	return &reply{status: 200, body: out}
}

// TestAReportBringsTheNextRun: while there are runs, a worker makes one call for each of them and
// no separate claims.
func TestAReportBringsTheNextRun(t *testing.T) {
	onServer(t, false, func(t *testing.T, s *skald) {
		const runs = 20
		want := map[uuid.UUID]bool{}
		for range runs {
			want[s.add()] = true
		}
		s.work(nothing, func(c *worker.Config) { c.Concurrency = 1 })
		synctest.Wait()
		asked := said[exchanges](s, "exchange")
		// The first call reports nothing, and each of the others reports one run. The last one
		// found no run, and one is waiting.
		if len(asked) != runs+2 || len(asked[0].Outcomes) != 0 || len(asked[runs+1].Outcomes) != 0 {
			t.Fatalf("%d calls for %d runs", len(asked), runs)
		}
		ids := map[string]bool{}
		for _, a := range asked[1 : runs+1] {
			if len(a.Outcomes) != 1 || !want[a.Outcomes[0].RunID] || a.Slots != 1 || a.WaitMS != 0 {
				t.Fatalf("%+v", a)
			}
			delete(want, a.Outcomes[0].RunID)
			ids[a.ClaimID] = true
		}
		if len(want) != 0 || len(ids) != runs || asked[runs+1].WaitMS != 20_000 {
			t.Errorf("%d runs were not reported; %d ids; the last call waits %d ms", len(want), len(ids), asked[runs+1].WaitMS)
		}
	})
}

// TestBatchesAreAsLargeAsWhatHasEnded: after a slow call, the next one reports all runs that ended
// in the meantime and asks for as many.
func TestBatchesAreAsLargeAsWhatHasEnded(t *testing.T) {
	onServer(t, false, func(t *testing.T, s *skald) {
		for range 200 {
			s.add()
		}
		s.on("exchange", func(*call) *reply { time.Sleep(time.Second); return nil })
		s.work(func(context.Context, *worker.Run) (any, error) { time.Sleep(time.Millisecond); return nil, nil },
			func(c *worker.Config) { c.Concurrency = 50 })
		time.Sleep(12 * time.Second)
		if n := len(s.completed()); n != 200 || len(s.made("exchange")) > 15 {
			t.Errorf("%d runs in %d calls of a second", n, len(s.made("exchange")))
		}
		for _, a := range said[exchanges](s, "exchange") {
			if len(a.Outcomes) > 0 && int(a.Slots) != len(a.Outcomes) {
				t.Errorf("%d outcomes, %d slots", len(a.Outcomes), a.Slots)
			}
		}
	})
}

// TestAnUnansweredExchangeIsRepeatedAsItIs: the server may have stored its outcomes and started
// runs for it.
func TestAnUnansweredExchangeIsRepeatedAsItIs(t *testing.T) {
	onServer(t, false, func(t *testing.T, s *skald) {
		first, second := s.add(), s.add()
		s.on("exchange", func(c *call) *reply {
			if n := len(s.made("exchange")); n > 1 && n < 5 {
				s.exchange(c, c.body.(*exchanges)) // done, but the worker gets no answer
				return &reply{}
			}
			return nil
		})
		var ran []string
		s.work(func(_ context.Context, r *worker.Run) (any, error) {
			ran = append(ran, r.ID)
			return nil, nil
		}, func(c *worker.Config) { c.Concurrency = 1 })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(ran) != 2 || ran[0] != first.String() || ran[1] != second.String() {
			t.Errorf("executed %v", ran)
		}
		asked := said[exchanges](s, "exchange")
		for _, a := range asked[1:5] {
			if a.ClaimID != asked[1].ClaimID || a.Slots != 1 || len(a.Outcomes) != 1 || a.Outcomes[0].RunID != first {
				t.Errorf("repeated as %+v", a)
			}
		}
	})
}

// TestAnOlderServerIsAskedAgainLater: the server may have been upgraded.
func TestAnOlderServerIsAskedAgainLater(t *testing.T) {
	onServer(t, true, func(t *testing.T, s *skald) {
		s.work(nothing)
		s.add()
		time.Sleep(59 * time.Second)
		if n := len(s.made("exchange")); n != 1 || len(s.completed()) != 1 {
			t.Errorf("%d calls in the first minute, %d results", n, len(s.completed()))
		}
		s.mu.Lock()
		s.older = false
		s.mu.Unlock()
		time.Sleep(time.Minute)
		before := len(s.made("exchange"))
		s.add()
		time.Sleep(time.Second)
		if n := len(s.made("exchange")); before < 2 || n <= before || len(s.completed()) != 2 {
			t.Errorf("%d and then %d calls, %d results", before, n, len(s.completed()))
		}
	})
}

// TestTheLeaseOfARunThatWasAwaitedCountsFromItsAssignment: if it counted from when the call was
// sent, it would be over when the call ends, and the answer may be late.
func TestTheLeaseOfARunThatWasAwaitedCountsFromItsAssignment(t *testing.T) {
	onServer(t, false, func(t *testing.T, s *skald) {
		s.on("heartbeat", failing(1000, 503, "REQ_UNAVAILABLE"))
		ended := make(chan time.Time, 1)
		s.work(func(ctx context.Context, _ *worker.Run) (any, error) {
			<-ctx.Done()
			ended <- time.Now()
			return nil, context.Cause(ctx)
		}, func(c *worker.Config) { c.Poll = 30 * time.Second })
		time.Sleep(25 * time.Second)
		s.on("start", func(*call) *reply { time.Sleep(5 * time.Second); return nil }) // the answer is late
		given := time.Now()
		s.add()
		if took := (<-ended).Sub(given); took < 26*time.Second || took > 27*time.Second {
			t.Errorf("the run was stopped after %v, want nine tenths of %v", took, lease)
		}
	})
}

// TestARunThatComesWhileTheWorkerStopsIsGivenBack: the answer to a report may bring a run.
func TestARunThatComesWhileTheWorkerStopsIsGivenBack(t *testing.T) {
	onServer(t, false, func(t *testing.T, s *skald) {
		s.add()
		second := s.add()
		reporting := make(chan struct{})
		s.on("exchange", func(c *call) *reply {
			if len(c.body.(*exchanges).Outcomes) > 0 {
				close(reporting)
				time.Sleep(time.Second)
			}
			return nil
		})
		ran := 0
		stop := s.work(func(context.Context, *worker.Run) (any, error) { ran++; return nil, nil },
			func(c *worker.Config) { c.Concurrency = 1 })
		<-reporting
		stop()
		back := s.made("release")
		if ran != 1 || len(s.completed()) != 1 || len(back) != 1 || back[0].subject != second.String() {
			t.Errorf("%d runs were executed, %d reported, %d given back", ran, len(s.completed()), len(back))
		}
	})
}
