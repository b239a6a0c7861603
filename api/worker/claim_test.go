package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/api/worker"
)

func TestAHandlerGetsTheRunAsItWasClaimed(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		due := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		id := s.add(func(r *api.ClaimedRun) {
			r.Args, r.Checkpoint, r.Attempt, r.CorrelationID, r.ScheduledFor =
				[]byte(`{"n":1}`), []byte(`{"row":2}`), 3, new("order"), due
		})
		s.add() // the run has neither arguments nor a checkpoint
		s.work(func(_ context.Context, r *worker.Run) (any, error) {
			var in struct{ N, Row int }
			if err := r.Decode(&in); err != nil {
				t.Error(err)
			}
			if err := r.DecodeCheckpoint(&in); err != nil {
				t.Error(err)
			}
			if r.ID != id.String() {
				if in.N != 0 || in.Row != 0 || r.Args != nil || r.LastCheckpoint != nil {
					t.Errorf("the bare run: %+v, %v", r, in)
				}
				return nil, nil
			}
			if in.N != 1 || in.Row != 2 || r.Definition != "report" || r.Command != "print" || r.Attempt != 3 ||
				r.FencingToken != "7.1" || r.IdempotencyKey != "once" || !r.ScheduledFor.Equal(due) ||
				r.CorrelationID != "order" {
				t.Errorf("%+v, %v", r, in)
			}
			return nil, nil
		})
		synctest.Wait()
		if n := len(s.completed()); n != 2 {
			t.Errorf("%d results", n)
		}
	})
}

func TestAClaimWaitsAndIsMadeAgain(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		s.work(nothing, func(c *worker.Config) { c.Poll = time.Hour }) // the server allows 30 s
		time.Sleep(2*time.Minute + time.Second)
		asked := said[api.ClaimInput](s, "claim")
		if len(asked) != 5 {
			t.Errorf("%d claims in two minutes, want one every 30 s", len(asked))
		}
		keys := map[string]bool{}
		for _, a := range asked {
			keys[*a.ClaimID] = true
			if *a.WaitMS != 30_000 || a.Slots != 4 {
				t.Errorf("%+v", a)
			}
		}
		if len(keys) != len(asked) {
			t.Errorf("%d claims have %d ids", len(asked), len(keys))
		}
	})
}

// TestAnUnansweredClaimIsRepeatedUnderItsID: the server may have assigned runs to the claim.
func TestAnUnansweredClaimIsRepeatedUnderItsID(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		const ms = time.Millisecond
		s.on("claim", func(c *call) *reply {
			if n := len(s.made("claim")); n <= 6 {
				s.claim(c) // the runs are assigned, but the worker gets no answer
				return &reply{}
			}
			return nil
		})
		id := s.add()
		s.work(nothing)
		time.Sleep(20 * time.Second)
		asked := said[api.ClaimInput](s, "claim")
		wantSteps(t, s.made("claim"), 100*ms, 200*ms, 400*ms, 800*ms, 1600*ms, 3200*ms)
		for _, a := range asked[:7] {
			if *a.ClaimID != *asked[0].ClaimID || a.Slots != asked[0].Slots {
				t.Errorf("repeated as %+v, first %+v", a, asked[0])
			}
		}
		if done := s.completed(); len(done) != 1 || done[0].RunID != id || *asked[7].ClaimID == *asked[0].ClaimID {
			t.Errorf("results %v", done)
		}
	})
}

// TestEmptyAnswersAtOnceAreNotAskedForInALoop: a stopping server does not let claims wait.
func TestEmptyAnswersAtOnceAreNotAskedForInALoop(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		const ms = time.Millisecond
		empty := &reply{status: 200, body: api.ClaimedRuns{State: "DRAINING", Runs: []api.ClaimedRun{}}}
		s.on("claim", func(*call) *reply {
			if len(s.made("claim")) > 100 {
				return nil
			}
			return empty
		})
		s.work(nothing)
		time.Sleep(20 * time.Second)
		wantSteps(t, s.made("claim"), 100*ms, 200*ms, 400*ms, 800*ms, 1600*ms, 3200*ms, 5000*ms)
		s.on("claim", nil)
		id := s.add()
		time.Sleep(5 * time.Second)
		if done := s.completed(); len(done) != 1 || done[0].RunID != id {
			t.Errorf("results %v", done)
		}
	})
}

func TestNoMoreRunsAreExecutedAtOnceThanAllowed(t *testing.T) {
	for _, tt := range []struct {
		name         string
		concurrency  int
		server       int32
		atOnce, runs int
	}{
		{name: "as configured", concurrency: 3, server: 100, atOnce: 3, runs: 10},
		{name: "as the server allows", concurrency: 8, server: 2, atOnce: 2, runs: 7},
		{name: "by default", concurrency: 0, server: 100, atOnce: 10, runs: 25},
		{name: "a server that says nothing", concurrency: 3, server: 0, atOnce: 3, runs: 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				s.on("workers", func(*call) *reply { return &reply{status: 201, body: registered(tt.server)} })
				for range tt.runs {
					s.add()
				}
				var now, most atomic.Int64
				goOn := make(chan struct{})
				s.work(func(context.Context, *worker.Run) (any, error) {
					if n := now.Add(1); n > most.Load() {
						most.Store(n)
					}
					<-goOn
					now.Add(-1)
					return nil, nil
				}, func(c *worker.Config) { c.Concurrency = tt.concurrency })
				synctest.Wait()
				if n := now.Load(); n != int64(tt.atOnce) {
					t.Errorf("%d runs at once, want %d", n, tt.atOnce)
				}
				for range tt.runs {
					goOn <- struct{}{}
					synctest.Wait()
				}
				if n := most.Load(); n != int64(tt.atOnce) || len(s.completed()) != tt.runs {
					t.Errorf("at most %d runs at once, %d results", n, len(s.completed()))
				}
				for _, a := range said[api.ClaimInput](s, "claim") {
					if a.Slots < 1 || int(a.Slots) > tt.atOnce {
						t.Errorf("a claim for %d runs", a.Slots)
					}
				}
			})
		})
	}
}

// TestOnlyStartedRunsAreExecuted: no handler is called before the server has confirmed the start.
func TestOnlyStartedRunsAreExecuted(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		refused, good := s.add(), s.add()
		s.on("start", func(c *call) *reply {
			switch len(s.made("start")) {
			case 1:
				return &reply{status: 503, code: "REQ_UNAVAILABLE"}
			case 2:
				out := s.answer(c)
				results := out.body.(api.RunResults).Results
				results[0] = api.RunResult{RunID: &refused, Status: 409, Problem: &api.ItemProblem{Code: "JOB_FENCE_LOST"}}
				return out
			}
			return nil
		})
		called := make(chan string, 10)
		s.work(func(_ context.Context, r *worker.Run) (any, error) {
			called <- r.ID
			return nil, nil
		}, func(c *worker.Config) { c.Concurrency = 2 })
		synctest.Wait()
		if len(called) != 0 {
			t.Error("a handler was called before the start was answered")
		}
		if id := <-called; id != good.String() {
			t.Errorf("the run %s was executed, want %s", id, good)
		}
		synctest.Wait()
		asked := said[api.ClaimInput](s, "claim")
		if len(called) != 0 || len(s.completed()) != 1 || len(said[starts](s, "start")[1].Runs) != 2 {
			t.Error("the refused run was executed, or not both were started at once")
		}
		s.add()
		s.add()
		time.Sleep(time.Minute)
		if n := len(s.completed()); n != 3 || asked[0].Slots != 2 {
			t.Errorf("%d results: the place of the refused run is not free", n)
		}
	})
}

func TestRunsThatCannotBeStartedLeaveTheirPlaces(t *testing.T) {
	for name, fault := range map[string]reply{"refused": {status: 400, code: "REQ_INVALID"}, "unanswered": {}} {
		t.Run(name, func(t *testing.T) {
			onServer(t, true, func(t *testing.T, s *skald) {
				s.add()
				s.on("start", func(c *call) *reply {
					if c.body.(*starts).Runs[0].RunID == s.first() {
						r := fault
						return &r
					}
					return nil
				})
				s.work(nothing, func(c *worker.Config) { c.Concurrency = 1 })
				time.Sleep(10 * time.Second)
				second := s.add()
				time.Sleep(time.Second)
				want := 2
				if fault.status == 0 {
					want = 6
				}
				if done := s.completed(); len(done) != 1 || done[0].RunID != second || len(s.made("start")) != want {
					t.Errorf("%d calls, results %v", len(s.made("start")), done)
				}
			})
		})
	}
}

// first returns the run that was started first.
func (s *skald) first() uuid.UUID { return said[starts](s, "start")[0].Runs[0].RunID }

// TestRunsOfAnOlderEpochAreGivenBack: the server that assigned them does not see the current
// leader.
func TestRunsOfAnOlderEpochAreGivenBack(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		epoch := func(n int64) func(*api.ClaimedRun) { return func(r *api.ClaimedRun) { r.LeaderEpoch = n } }
		s.work(nothing)
		for _, n := range []int64{7, 3, 7, 8, 7} {
			s.add(epoch(n))
			time.Sleep(time.Second)
		}
		var epochs []int64
		for _, c := range s.completed() {
			epochs = append(epochs, c.LeaderEpoch)
		}
		if len(epochs) != 3 || epochs[0] != 7 || epochs[1] != 7 || epochs[2] != 8 {
			t.Errorf("executed: the epochs %v", epochs)
		}
		back := said[api.ReleaseInput](s, "release")
		if len(back) != 2 || back[0].LeaderEpoch != 3 || back[1].LeaderEpoch != 7 ||
			!strings.Contains(*back[0].Reason, "epoch 3 is older than epoch 7") || s.older && len(s.made("start")) != 3 {
			t.Errorf("given back: %+v", back)
		}
	})
}

// TestAServerOfAnOlderEpochIsNotAskedInALoop: every claim would use up an assignment.
func TestAServerOfAnOlderEpochIsNotAskedInALoop(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		s.work(nothing, func(c *worker.Config) { c.Concurrency = 1 })
		s.add()
		time.Sleep(time.Second)
		for range 100 {
			s.add(func(r *api.ClaimedRun) { r.LeaderEpoch = 3 })
		}
		time.Sleep(time.Minute)
		if n := len(s.made("release")); n < 5 || n > 30 {
			t.Errorf("%d runs were claimed and given back in a minute", n)
		}
	})
}

// wantSteps fails the test unless every pause between calls is between half of the next step and
// the whole step, and the fraction varies.
func wantSteps(t *testing.T, calls []*call, steps ...time.Duration) {
	t.Helper()
	if len(calls) <= len(steps) {
		t.Fatalf("%d calls, want more than %d", len(calls), len(steps))
	}
	shares := map[string]bool{}
	for i, step := range steps {
		paused := calls[i+1].at.Sub(calls[i].at)
		if paused < step/2 || paused > step {
			t.Errorf("pause %d is %s, want %s to %s", i, paused, step/2, step)
		}
		shares[fmt.Sprintf("%.3f", paused.Seconds()/step.Seconds())] = true
	}
	if len(shares) < 2 && len(steps) > 3 {
		t.Errorf("the pauses have no jitter: %v", shares)
	}
}
