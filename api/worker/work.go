package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// work claims and executes runs until ctx ends or the worker id is gone. It returns when none of
// its runs is in progress any longer.
func (s *session) work(ctx context.Context) {
	var beating sync.WaitGroup
	beats, stopBeats := context.WithCancel(context.Background())
	beating.Go(func() { s.beat(beats) })
	claiming, stopClaims := context.WithCancel(ctx)
	s.claiming = claiming
	unhook := context.AfterFunc(s.over, stopClaims)
	s.claims(claiming)
	unhook()
	stopClaims()
	s.drain()
	stopBeats()
	beating.Wait()
	s.end(nil)
}

// drain waits for handlers to finish, and ends their contexts after Config.Drain. A detached worker
// drains as a stopping one does: its results are accepted as long as no other worker has the runs,
// and its leases keep their original end.
func (s *session) drain() {
	if s.over.Err() == nil {
		_ = s.w.api.post(
			context.Background(),
			5*time.Second,
			s.path("drain"),
			map[string]any{"reason": "the process stops"},
			nil,
		)
	}
	done := make(chan struct{})
	go func() { s.busy.Wait(); close(done) }()
	timer := time.NewTimer(max(s.w.cfg.Drain, 0))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.each(func(h *held) { h.cancel(ErrStopping) })
	}
	<-done
}

// claims gets runs for free slots until ctx ends.
func (s *session) claims(ctx context.Context) {
	for idle := newPause(); ; {
		n := s.free(ctx)
		if n == 0 {
			return
		}
		asked := time.Now()
		got, begun := s.take(ctx, n)
		s.give(n - begun)
		switch atOnce := time.Since(asked) < min(idle.next, s.w.cfg.Poll); {
		case got > 0:
		case atOnce: // the server lets no claim wait, for example because it is stopping, or the runs had an older epoch
			_ = idle.wait(ctx)
			continue
		}
		idle = newPause()
	}
}

// take gets runs for n slots and begins them, in one call if the server supports the exchange,
// otherwise in two. got is the number of runs that it got under the current epoch.
func (s *session) take(ctx context.Context, n int) (got, begun int) {
	if s.w.exchanges() {
		if got, known := s.await(ctx, n); known {
			return got, got
		}
	}
	current := s.current(s.claim(ctx, n))
	return len(current), s.start(current)
}

// current returns the runs that were assigned under the newest epoch that this process has seen,
// and releases the others. Epochs never decrease, so a server that assigns runs under an older
// epoch does not see the current leader: it writes to an abandoned or restored copy of the
// database. In the real database, another worker may have the run.
func (s *session) current(runs []claimed) (current []claimed) {
	for _, c := range runs {
		seen := s.w.sees(c.LeaderEpoch)
		if c.LeaderEpoch == seen {
			current = append(current, c)
			continue
		}
		s.log.Error("refused a run of an older epoch: does this server use an abandoned database? "+
			"After a restore from a backup, restart the workers",
			slog.String("run_id", c.RunID), slog.Int64("epoch", c.LeaderEpoch), slog.Int64("seen", seen))
		s.release(c, fmt.Sprintf("epoch %d is older than epoch %d, which the worker has already seen", c.LeaderEpoch, seen))
	}
	return current
}

// release returns a run that was not begun. If that fails, its lease will expire.
func (s *session) release(c claimed, reason string) {
	_ = s.w.api.post(
		context.Background(),
		5*time.Second,
		"/api/v1/job-runs/"+c.RunID+"/release",
		c.of(s.id, map[string]any{"reason": plaintext.Text(reason, plaintext.Characters(maxReason))}),
		nil,
	)
}

// free takes all free slots, at least one. It returns 0 if ctx has ended.
func (s *session) free(ctx context.Context) (n int) {
	select {
	case <-ctx.Done():
		return 0
	case <-s.slots:
		n = 1
	}
	if ctx.Err() != nil || s.over.Err() != nil { // select chooses at random
		s.slots <- struct{}{}
		return 0
	}
	for {
		select {
		case <-s.slots:
			n++
		default:
			return n
		}
	}
}

// claim claims up to n runs. It repeats the request with the same claim id until it is answered, so
// that a lost response does not lose runs.
func (s *session) claim(ctx context.Context, n int) []claimed {
	body := map[string]any{"slots": n, "wait_ms": s.w.cfg.Poll.Milliseconds(), "claim_id": newID()}
	var answer struct{ Runs []claimed }
	for pause := newPause(); ; {
		err := s.w.api.post(ctx, s.w.cfg.Poll+15*time.Second, s.path("claim"), body, &answer)
		switch {
		case err == nil:
			return answer.Runs
		case gone(err):
			s.end(ErrLost)
			return nil
		case ctx.Err() != nil:
			if s.over.Err() == nil {
				s.giveBack(body)
			}
			return nil
		}
		s.log.Warn("claiming failed", slog.Any("error", err))
		_ = pause.wait(ctx) // the next claim notices that ctx has ended
	}
}

// giveBack releases the runs of a claim whose response the worker did not wait for.
func (s *session) giveBack(claim map[string]any) {
	claim["wait_ms"] = 0
	var answer struct{ Runs []claimed }
	if s.w.api.post(context.Background(), 5*time.Second, s.path("claim"), claim, &answer) != nil {
		return // their leases will expire
	}
	for _, c := range answer.Runs {
		s.release(c, "the process stops")
	}
}

// start starts the claimed runs and then their handlers, and returns how many it started. No
// handler is started before the server has confirmed the start (J-26).
func (s *session) start(runs []claimed) (begun int) {
	if len(runs) == 0 {
		return 0
	}
	fences := make([]fence, len(runs))
	byID := map[string]claimed{}
	for i, c := range runs {
		fences[i], byID[c.RunID] = c.fence, c
	}
	var answer runResults
	for pause, try := newPause(), 0; ; try++ {
		sent := time.Now()
		err := s.w.api.post(s.over, 10*time.Second, s.path("start"), map[string]any{"runs": fences}, &answer)
		if err == nil {
			for _, r := range answer.Results {
				c, ok := byID[r.RunID]
				if !ok || r.Status != http.StatusOK {
					s.log.Debug("not started", slog.String("run_id", r.RunID), slog.Any("problem", r.Problem))
					continue
				}
				begun++
				s.begin(c, sent, time.Duration(answer.LeaseMS)*time.Millisecond)
			}
			return begun
		}
		if !unknown(err) || try == 4 || pause.wait(s.over) != nil {
			s.log.Warn("starting runs failed", slog.Any("error", err))
			return 0
		}
	}
}

// await waits for runs for n free slots and begins them. It repeats the call until it is answered,
// so that a lost answer does not lose runs. known means that the server supports the call.
func (s *session) await(ctx context.Context, n int) (begun int, known bool) {
	r := request{Outcomes: []json.RawMessage{}, Slots: n, WaitMS: s.w.cfg.Poll.Milliseconds(), ClaimID: newID()}
	for pause := newPause(); ; {
		a, sent, err := s.w.exchange(ctx, s.w.cfg.Poll+15*time.Second, s.path("exchange"), &r)
		switch {
		case err == nil:
			return s.accept(&a, sent, n), true
		case gone(err):
			s.end(ErrLost)
			return 0, true
		case ctx.Err() != nil:
			if s.over.Err() == nil {
				r.WaitMS = 0
				a, _, err = s.w.exchange(context.Background(), 5*time.Second, s.path("exchange"), &r)
				if err == nil { // otherwise their leases will expire
					s.releaseAll(a.Runs)
				}
			}
			return 0, true
		case !s.w.knowsExchange(err):
			return 0, false
		}
		s.log.Warn("claiming failed", slog.Any("error", err))
		_ = pause.wait(ctx) // the next call notices that ctx has ended
	}
}

// accept begins the runs of an answer, which the server has already started, in the given number of
// slots, and returns how many it began. Their leases began no earlier than WaitedMS after the call
// was sent.
func (s *session) accept(a *exchanged, sent time.Time, slots int) (begun int) {
	from := sent.Add(time.Duration(a.WaitedMS) * time.Millisecond)
	for _, c := range s.current(a.Runs) {
		if begun == slots {
			s.release(c, "the worker has no slot for it")
			continue
		}
		s.begin(c, from, time.Duration(a.LeaseMS)*time.Millisecond)
		begun++
	}
	return begun
}

// releaseAll releases runs that arrived while the worker was stopping.
func (s *session) releaseAll(runs []claimed) {
	for _, c := range runs {
		s.release(c, "the process stops")
	}
}
