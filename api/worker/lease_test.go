package worker_test

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/api/worker"
)

// beats returns what the heartbeats so far have reported about a run.
func (s *skald) beats(id uuid.UUID) (out []api.HeartbeatRun) {
	for _, b := range said[beat](s, "heartbeat") {
		for _, r := range b.Running {
			if r.RunID == id {
				out = append(out, r)
			}
		}
	}
	return out
}

// tells reports whether a heartbeat has progress or a checkpoint.
func tells(c *call) bool {
	for _, r := range c.body.(*beat).Running {
		if r.Progress != nil || r.Checkpoint != nil {
			return true
		}
	}
	return false
}

// lasts is a handler that works for the given time, or until its context ends.
func lasts(d time.Duration, begin func(*worker.Run)) worker.Handler {
	return func(ctx context.Context, r *worker.Run) (any, error) {
		if begin != nil {
			begin(r)
		}
		select {
		case <-time.After(d):
			return "done", nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func TestHeartbeatsKeepTheLeaseWhileAHandlerWorks(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		id := s.add()
		s.work(lasts(10*time.Minute, nil))
		time.Sleep(10*time.Minute + time.Second)
		if done := s.completed(); len(done) != 1 || done[0].Error != nil || string(done[0].Result) != `"done"` {
			t.Errorf("%+v", done)
		}
		if n := len(s.beats(id)); n < 119 || n > 121 {
			t.Errorf("%d heartbeats of the run in ten minutes", n)
		}
		var last int64
		for _, b := range said[beat](s, "heartbeat") {
			if b.Seq <= last {
				t.Fatalf("seq %d follows %d", b.Seq, last)
			}
			last = b.Seq
		}
	})
}

func TestTheServerChangesTheIntervalOfHeartbeats(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		s.on("heartbeat", func(c *call) *reply {
			out := s.answer(c)
			b := out.body.(api.Heartbeat)
			b.HeartbeatIntervalMS = 60_000
			out.body = b
			return out
		})
		s.work(nothing)
		time.Sleep(10*time.Minute + time.Second)
		if n := len(s.made("heartbeat")); n != 11 {
			t.Errorf("%d heartbeats in ten minutes, want one each", n)
		}
	})
}

// TestALeaseThatIsNotRenewedEndsTheHandler checks that the handler ends a tenth early, counted from
// when the call was sent.
func TestALeaseThatIsNotRenewedEndsTheHandler(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		s.add()
		s.on("start", func(*call) *reply { time.Sleep(5 * time.Second); return nil }) // the lease counts from then as well
		s.on("heartbeat", failing(1000, 503, "REQ_UNAVAILABLE"))
		began, causes := make(chan *worker.Run, 1), make(chan error, 1)
		s.work(untilItEnds(began, causes))
		<-began
		at := time.Now()
		if err := <-causes; !errors.Is(err, worker.ErrLeaseOver) {
			t.Errorf("ended by %v", err)
		}
		if after := time.Since(at); after != lease*9/10-5*time.Second {
			t.Errorf("it ended after %s", after)
		}
		synctest.Wait()
		if back := said[api.ReleaseInput](s, "release"); len(back) != 1 || back[0].LeaseLost == nil || !*back[0].LeaseLost {
			t.Errorf("released %+v", back)
		}
	})
}

func TestAServerThatKnowsNoLostLeasesGetsAPlainRelease(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		s.add()
		s.on("heartbeat", failing(1000, 503, "REQ_UNAVAILABLE"))
		s.on("release", failing(1, 400, "REQ_UNKNOWN_MEMBER"))
		s.work(lasts(time.Hour, nil))
		time.Sleep(time.Minute)
		if back := said[api.ReleaseInput](s, "release"); len(back) != 2 || back[1].LeaseLost != nil || back[1].Reason != nil {
			t.Errorf("released %+v", back)
		}
	})
}

// TestAResultOfALeaseThatIsOverIsReported: the server accepts it until another worker has the run.
func TestAResultOfALeaseThatIsOverIsReported(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		s.add()
		s.on("heartbeat", failing(1000, 503, "REQ_UNAVAILABLE"))
		s.work(func(ctx context.Context, _ *worker.Run) (any, error) { <-ctx.Done(); return 42, nil })
		time.Sleep(time.Minute)
		if done := s.completed(); len(done) != 1 || string(done[0].Result) != "42" || len(s.made("release")) != 0 {
			t.Errorf("%+v", done)
		}
	})
}

func TestALostRunEndsTheHandlerAndIsNotReported(t *testing.T) {
	for name, result := range map[string]error{"and fails": errors.New("no"), "and succeeds": nil} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				lost, other := s.add(), s.add()
				var cause error
				s.work(func(ctx context.Context, r *worker.Run) (any, error) {
					if r.ID == other.String() {
						return lasts(time.Minute, nil)(ctx, r)
					}
					<-ctx.Done()
					cause = context.Cause(ctx)
					return nil, result
				})
				synctest.Wait()
				s.mu.Lock()
				s.given[lost] = assignment{} // another worker has the run
				s.mu.Unlock()
				time.Sleep(2 * time.Minute)
				if done := s.completed(); !errors.Is(cause, worker.ErrLost) || len(done) != 1 || done[0].RunID != other ||
					done[0].Error != nil || len(s.made("release")) != 0 || len(s.made("fail")) != 0 {
					t.Errorf("ended by %v; reported %+v", cause, done)
				}
			})
		})
	}
}

func TestACancellationReachesTheHandler(t *testing.T) {
	for name, tt := range map[string]struct {
		err             error
		acks, completes int
	}{
		"that stops":   {errors.New("stopped"), 1, 0},
		"that is done": {nil, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				id := s.add()
				s.on("heartbeat", func(c *call) *reply {
					out := s.answer(c)
					for i := range out.body.(api.Heartbeat).Leases {
						out.body.(api.Heartbeat).Leases[i].CancelRequested = new(true)
					}
					return out
				})
				var cause error
				s.work(func(ctx context.Context, _ *worker.Run) (any, error) {
					<-ctx.Done()
					cause = context.Cause(ctx)
					return nil, tt.err
				})
				time.Sleep(2 * interval)
				acks := s.made("cancel-ack")
				if !errors.Is(cause, worker.ErrCanceled) || len(acks) != tt.acks || len(s.completed()) != tt.completes ||
					len(acks) == 1 && acks[0].subject != id.String() {
					t.Errorf("ended by %v; %d acknowledgments, results %+v", cause, len(acks), s.completed())
				}
			})
		})
	}
}

func TestWhatIsReportedGoesWithTheNextHeartbeatOnce(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		id := s.add()
		s.work(lasts(time.Minute, func(r *worker.Run) {
			time.Sleep(time.Second)
			r.Progress(10, "begun")
			r.Progress(50, "half")
			if err := r.Checkpoint(map[string]int{"row": 7}); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * interval)
			r.Progress(60, "more")
		}))
		time.Sleep(time.Minute)
		var told []string
		for _, b := range s.beats(id) {
			if b.Progress != nil {
				told = append(told, *b.Progress.Message+string(b.Checkpoint))
			}
		}
		if strings.Join(told, " ") != `half{"row":7} more{"row":7}` {
			t.Errorf("told: %v", told)
		}
	})
}

// TestWhatAHeartbeatCouldNotSayIsSaidByTheNextOne: the outcome of the failed heartbeat is unknown.
func TestWhatAHeartbeatCouldNotSayIsSaidByTheNextOne(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		id := s.add()
		s.work(lasts(time.Minute, func(r *worker.Run) { time.Sleep(time.Second); r.Progress(50, "half") }))
		synctest.Wait()
		s.on("heartbeat", failing(2, 503, "REQ_UNAVAILABLE"))
		time.Sleep(30 * time.Second)
		n := 0
		for _, b := range s.beats(id) {
			if b.Progress != nil {
				n++
			}
		}
		if n != 3 {
			t.Errorf("told %d times, want 3", n)
		}
	})
}

// TestARefusedHeartbeatIsSentAgainWithoutWhatItTells: renewing the leases takes precedence.
func TestARefusedHeartbeatIsSentAgainWithoutWhatItTells(t *testing.T) {
	for _, tt := range []struct {
		status int
		again  bool
	}{{400, true}, {413, true}, {422, true}, {403, false}, {503, false}} {
		t.Run(strconv.Itoa(tt.status), func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				id := s.add()
				s.add()
				s.on("heartbeat", func(c *call) *reply {
					if tells(c) {
						return &reply{status: tt.status, code: "REQ_TEST"}
					}
					return nil
				})
				s.work(lasts(2*time.Minute, func(r *worker.Run) {
					if r.ID != id.String() {
						return
					}
					time.Sleep(time.Second)
					r.Progress(50, "half")
					_ = r.Checkpoint(1)
				}))
				time.Sleep(3 * time.Minute)
				refused := 0
				for _, c := range s.made("heartbeat") {
					if tells(c) {
						refused++
					}
				}
				done := s.completed()
				if tt.again && (refused != 1 || len(done) != 2) {
					t.Errorf("%d heartbeats were refused; results %+v", refused, done)
				}
				if !tt.again && (refused < 5 || len(done) != 0 || len(s.made("release")) != 2) {
					t.Errorf("%d heartbeats were refused, %d runs released", refused, len(s.made("release")))
				}
			})
		})
	}
}

// TestOddProgressIsCleaned: invalid progress of one handler must not make the server refuse a
// heartbeat.
func TestOddProgressIsCleaned(t *testing.T) {
	for _, tt := range []struct {
		name    string
		percent float64
		message string
		want    any
		text    string
	}{
		{name: "nothing odd", percent: 12.5, message: "half", want: 12.5, text: "half"},
		{name: "not a number", percent: math.NaN(), message: "a\x00b", want: nil, text: "a\uFFFDb"},
		{name: "infinite", percent: math.Inf(1), message: "\xff\xfe", want: nil, text: "\uFFFD"},
		{name: "less than none", percent: math.Inf(-1), message: "\xed\xa0\x80", want: nil, text: "\uFFFD"},
		{name: "below", percent: -1, message: "", want: 0.0, text: ""},
		{name: "above", percent: 1e300, message: strings.Repeat("💥", 2000), want: 100.0, text: strings.Repeat("💥", 1000)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				id := s.add()
				s.work(lasts(time.Minute, func(r *worker.Run) { time.Sleep(time.Second); r.Progress(tt.percent, tt.message) }))
				time.Sleep(2 * time.Minute)
				n := 0
				for _, b := range s.beats(id) {
					if b.Progress == nil {
						continue
					}
					n++
					var percent any
					if b.Progress.Percent != nil {
						percent = *b.Progress.Percent
					}
					if percent != tt.want || *b.Progress.Message != tt.text {
						t.Errorf("told %v, %.20q", percent, *b.Progress.Message)
					}
				}
				if n != 1 || len(s.completed()) != 1 {
					t.Errorf("told %d times", n)
				}
			})
		})
	}
}
