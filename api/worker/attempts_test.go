package worker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/api/worker"
)

// again makes a run available once more, as its next attempt.
func (s *skald) again(id uuid.UUID) {
	s.add(func(r *api.ClaimedRun) { r.RunID, r.Attempt = id, 2 })
}

// TestTheNextAttemptOutlivesTheHandlerOfTheLast: a process may be assigned a run again while the
// handler of the attempt it lost has not returned yet.
func TestTheNextAttemptOutlivesTheHandlerOfTheLast(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		id := s.add()
		s.work(func(ctx context.Context, r *worker.Run) (any, error) {
			if r.Attempt == 1 { // the worker does not learn that the run is lost
				time.Sleep(20 * time.Second)
				return "first", nil
			}
			return lasts(3*time.Minute, nil)(ctx, r)
		})
		synctest.Wait()
		s.mu.Lock()
		s.given[id] = assignment{}
		s.mu.Unlock()
		time.Sleep(2 * interval)
		s.again(id)
		time.Sleep(5 * time.Minute)
		if done := s.completed(); len(done) != 1 || done[0].Attempt != 2 || string(done[0].Result) != `"done"` {
			t.Errorf("results %+v, %d runs released", done, len(s.made("release")))
		}
	})
}

func TestTheNextAttemptEndsTheHandlerOfTheLast(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		id := s.add()
		began, causes := make(chan *worker.Run, 2), make(chan error, 2)
		s.work(untilItEnds(began, causes))
		synctest.Wait()
		s.again(id)
		at := time.Now()
		if err := <-causes; !errors.Is(err, worker.ErrLost) || time.Since(at) != 0 {
			t.Errorf("ended by %v after %s", err, time.Since(at))
		}
		if first, second := <-began, <-began; first.Attempt != 1 || second.Attempt != 2 {
			t.Errorf("the attempts %d and %d", first.Attempt, second.Attempt)
		}
	})
}

// TestALateAnswerIsOfTheAttemptThatWasAskedFor: a heartbeat may be answered after the run has ended
// and the process has claimed its next attempt.
func TestALateAnswerIsOfTheAttemptThatWasAskedFor(t *testing.T) {
	for name, verdict := range map[string]api.LeaseState{
		"lost":     {Reason: new("JOB_FENCE_LOST")},
		"canceled": {Ok: true, CancelRequested: new(true)},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				id, verdict := s.add(), verdict // by this server
				verdict.RunID = &id
				began := time.Now()
				s.on("heartbeat", func(c *call) *reply {
					if runs := c.body.(*beat).Running; len(runs) != 1 || runs[0].Attempt != 1 || c.at.Equal(began) {
						return nil // the first heartbeat need not name the run
					}
					time.Sleep(4 * time.Second)
					return &reply{status: 200, body: api.Heartbeat{
						State: "ACTIVE", LeaseMS: lease.Milliseconds(), Leases: []api.LeaseState{verdict},
					}}
				})
				s.work(func(ctx context.Context, r *worker.Run) (any, error) {
					if r.Attempt == 1 {
						time.Sleep(interval + time.Second)
						return nil, nil
					}
					return lasts(time.Minute, nil)(ctx, r)
				})
				time.Sleep(interval + 2*time.Second)
				s.again(id)
				time.Sleep(2 * time.Minute)
				if done := s.completed(); len(done) != 2 || done[1].Attempt != 2 || string(done[1].Result) != `"done"` {
					t.Errorf("results %+v", done)
				}
			})
		})
	}
}
