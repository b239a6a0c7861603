package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/api/worker"
)

// untilItEnds is a handler that signals when it begins and why its context ended.
func untilItEnds(began chan<- *worker.Run, causes chan<- error) worker.Handler {
	return func(ctx context.Context, r *worker.Run) (any, error) {
		began <- r
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, ctx.Err()
	}
}

// TestAStoppingWorkerLetsHandlersFinish: their results are reported, their leases are kept, and the
// server learns that the worker is draining.
func TestAStoppingWorkerLetsHandlersFinish(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		s.add()
		s.add()
		began := make(chan struct{}, 2)
		stop := s.work(func(ctx context.Context, _ *worker.Run) (any, error) {
			began <- struct{}{}
			time.Sleep(90 * time.Second)
			return "done", context.Cause(ctx)
		}, func(c *worker.Config) { c.Drain, c.Concurrency = 2*time.Minute, 2 })
		<-began
		<-began
		s.add() // a run for another worker
		at := time.Now()
		stop()
		if took := time.Since(at); took != 90*time.Second {
			t.Errorf("stopping took %s", took)
		}
		if done := s.completed(); len(done) != 2 || string(done[0].Result) != `"done"` || done[0].Error != nil {
			t.Errorf("results %+v", done)
		}
		if len(s.made("drain")) != 1 || len(s.made("claim")) != 1 || len(s.made("heartbeat")) < 18 {
			t.Errorf("%d calls of drain, %d claims, %d heartbeats",
				len(s.made("drain")), len(s.made("claim")), len(s.made("heartbeat")))
		}
	})
}

func TestAStoppingWorkerReleasesWhatDoesNotFinish(t *testing.T) {
	for name, tt := range map[string]struct{ drain, waits time.Duration }{
		"by default":      {0, 20 * time.Second},
		"as configured":   {time.Minute, time.Minute},
		"without waiting": {-1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				s.add()
				began, causes := make(chan *worker.Run, 1), make(chan error, 1)
				stop := s.work(untilItEnds(began, causes), func(c *worker.Config) { c.Drain = tt.drain })
				<-began
				at := time.Now()
				stop()
				if took := time.Since(at); took != tt.waits {
					t.Errorf("stopping took %s, want %s", took, tt.waits)
				}
				back := said[api.ReleaseInput](s, "release")
				if err := <-causes; !errors.Is(err, worker.ErrStopping) || len(back) != 1 || back[0].LeaseLost != nil ||
					len(s.completed()) != 0 {
					t.Errorf("ended by %v, released %+v", err, back)
				}
			})
		})
	}
}

// TestAStoppingWorkerClaimsNothingMore: it only asks for what the interrupted claim may have been
// assigned, and releases that. The test repeats this several times, because the behavior depends on
// which of two events the goroutines see first.
func TestAStoppingWorkerClaimsNothingMore(t *testing.T) {
	for range 20 {
		t.Run("", func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				stop := s.work(func(context.Context, *worker.Run) (any, error) {
					t.Error("a run was executed")
					return nil, nil
				})
				time.Sleep(10 * time.Second) // this is in the middle of a claim
				var assigned bool
				s.on("claim", func(c *call) *reply {
					if assigned = true; *c.body.(*api.ClaimInput).WaitMS == 0 && len(s.made("claim")) == 2 {
						s.add()
					}
					return nil
				})
				stop()
				asked, back := said[api.ClaimInput](s, "claim"), said[api.ReleaseInput](s, "release")
				if len(asked) != 2 || *asked[0].ClaimID != *asked[1].ClaimID || *asked[1].WaitMS != 0 || !assigned {
					t.Errorf("claims: %+v", asked)
				}
				if len(back) != 1 || *back[0].Reason != "the process stops" || s.older && len(s.made("start")) != 0 {
					t.Errorf("given back: %+v", back)
				}
			})
		})
	}
}

func TestStoppingDoesNotWaitForAServerThatIsAway(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		stop := s.work(nothing)
		time.Sleep(10 * time.Second)
		hang := func(c *call) *reply { <-c.gone; return &reply{} }
		for _, verb := range []string{"claim", "drain", "heartbeat"} {
			s.on(verb, hang)
		}
		at := time.Now()
		stop()
		if took := time.Since(at); took != 10*time.Second { // five for each call that reports that the worker stops
			t.Errorf("stopping took %s", took)
		}
	})
}
