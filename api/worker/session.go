package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// session is what the process does under one worker id.
type session struct {
	w        *Worker
	id       string
	interval time.Duration // of heartbeats
	log      *slog.Logger

	slots chan struct{} // one element for each run that may be claimed
	over  context.Context
	end   context.CancelCauseFunc // ends the session: the id is gone

	mu   sync.Mutex
	held map[string]*held
	busy sync.WaitGroup
}

func newSession(w *Worker, r registration) *session {
	s := &session{
		w: w, id: r.WorkerID, interval: time.Duration(r.HeartbeatIntervalMS) * time.Millisecond, held: map[string]*held{},
		log: w.cfg.Log.With(slog.String("worker_id", r.WorkerID)),
	}
	n := w.cfg.Concurrency
	if r.MaxRuns > 0 {
		n = min(n, r.MaxRuns)
	}
	s.slots = make(chan struct{}, n)
	for range n {
		s.slots <- struct{}{}
	}
	s.over, s.end = context.WithCancelCause(context.Background())
	return s
}

func (s *session) path(call string) string { return "/api/v1/workers/" + s.id + "/" + call }

// work claims and executes runs until ctx ends or the id is gone. It returns when
// nothing of it is running any more.
func (s *session) work(ctx context.Context) {
	var beating sync.WaitGroup
	beats, stopBeats := context.WithCancel(context.Background())
	beating.Go(func() { s.beat(beats) })
	claiming, stopClaims := context.WithCancel(ctx)
	unhook := context.AfterFunc(s.over, stopClaims)
	s.claims(claiming)
	unhook()
	stopClaims()
	s.drain()
	stopBeats()
	beating.Wait()
	s.end(nil)
}

// drain waits for handlers to finish, and after Config.Drain ends their contexts. A detached worker
// drains as one that stops does: the results of what it has are accepted as long as no other worker
// has the runs, and its leases end as they were granted.
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

func (s *session) each(f func(*held)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		f(h)
	}
}

// claims claims runs for free slots until ctx ends.
func (s *session) claims(ctx context.Context) {
	for idle := newPause(); ; {
		n := s.free(ctx)
		if n == 0 {
			return
		}
		asked := time.Now()
		runs := s.claim(ctx, n)
		current := s.current(runs)
		for range n - len(current) {
			s.slots <- struct{}{}
		}
		switch atOnce := time.Since(asked) < min(idle.next, s.w.cfg.Poll); {
		case len(current) > 0:
			s.start(current)
		case atOnce: // a server that lets no claim wait, such as one that stops; or runs of an older epoch
			_ = idle.wait(ctx)
			continue
		}
		idle = newPause()
	}
}

// current returns the runs that were assigned under the newest epoch that this process
// has seen, and gives the others back. Epochs never fall, so who assigns under an older
// one does not know the current leader: it writes into a copy of the database that was
// abandoned, or restored. Another worker may have the run there.
func (s *session) current(runs []claimed) (current []claimed) {
	for _, c := range runs {
		if s.w.epoch = max(s.w.epoch, c.LeaderEpoch); c.LeaderEpoch == s.w.epoch {
			current = append(current, c)
			continue
		}
		s.log.Error("refused a run of an older epoch: does this server use an abandoned database? "+
			"After a restore from a backup, restart the workers",
			slog.String("run_id", c.RunID), slog.Int64("epoch", c.LeaderEpoch), slog.Int64("seen", s.w.epoch))
		s.release(c, fmt.Sprintf("epoch %d is older than %d, which the worker has seen", c.LeaderEpoch, s.w.epoch))
	}
	return current
}

// release gives back a run that was not begun; if that fails, its lease will expire.
func (s *session) release(c claimed, reason string) {
	_ = s.w.api.post(
		context.Background(),
		5*time.Second,
		"/api/v1/job-runs/"+c.RunID+"/release",
		c.of(s.id, map[string]any{"reason": plaintext.Text(reason, plaintext.Characters(maxReason))}),
		nil,
	)
}

// free takes all free slots, at least one; 0: ctx has ended.
func (s *session) free(ctx context.Context) (n int) {
	select {
	case <-ctx.Done():
		return 0
	case <-s.slots:
		n = 1
	}
	if ctx.Err() != nil || s.over.Err() != nil { // select has no preference
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

// claim claims up to n runs. It repeats the request under the same key until it is
// answered, so that runs of a lost response are not lost.
func (s *session) claim(ctx context.Context, n int) []claimed {
	name := make([]byte, 16)
	_, _ = rand.Read(name)
	body := map[string]any{"slots": n, "wait_ms": s.w.cfg.Poll.Milliseconds(), "claim_id": hex.EncodeToString(name)}
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
		_ = pause.wait(ctx) // the next claim notices the end of ctx
	}
}

// giveBack releases the runs of a claim whose response was not awaited.
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

// start starts the claimed runs, and then their handlers. No handler is started before
// the server has confirmed the start (J-26).
func (s *session) start(runs []claimed) {
	fences := make([]fence, len(runs))
	byID := map[string]claimed{}
	for i, c := range runs {
		fences[i], byID[c.RunID] = c.fence, c
	}
	begun := 0
	defer func() {
		for range len(runs) - begun {
			s.slots <- struct{}{}
		}
	}()
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
			return
		}
		if !unknown(err) || try == 4 || pause.wait(s.over) != nil {
			s.log.Warn("starting runs failed", slog.Any("error", err))
			return
		}
	}
}

// begin executes one run in its own goroutine.
func (s *session) begin(c claimed, sent time.Time, lease time.Duration) {
	ctx, cancel := context.WithCancelCause(context.Background())
	h := &held{claimed: c, cancel: cancel}
	h.renew(sent, lease)
	s.mu.Lock()
	if last := s.held[c.RunID]; last != nil { // its handler has not returned yet
		last.drop(ErrLost)
	}
	s.held[c.RunID] = h
	s.mu.Unlock()
	s.busy.Go(func() {
		defer func() {
			s.mu.Lock()
			if s.held[c.RunID] == h { // and not the next attempt
				delete(s.held, c.RunID)
			}
			s.mu.Unlock()
			h.lease.Stop()
			cancel(nil)
			s.slots <- struct{}{}
		}()
		s.do(ctx, h)
	})
}

// do calls the handler and reports the result.
func (s *session) do(ctx context.Context, h *held) {
	if h.TimeoutMS > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, time.Duration(h.TimeoutMS)*time.Millisecond, ErrTimedOut)
		defer stop()
	}
	logs := newLogs(s, h)
	r := &Run{
		ID:             h.RunID,
		Definition:     h.Definition,
		Command:        h.Command,
		Args:           h.Args,
		Attempt:        h.Attempt,
		FencingToken:   h.FencingToken,
		IdempotencyKey: h.IdempotencyKey,
		ScheduledFor:   h.ScheduledFor,
		LastCheckpoint: h.Checkpoint,
		CorrelationID:  h.CorrelationID,
		held:           h, out: logs.writer("stdout"), errs: logs.writer("stderr"),
	}
	result, err := s.call(ctx, r)
	cause := context.Cause(ctx)
	if h.isLost() {
		logs.drop()
		s.log.Debug("run lost", slog.String("run_id", h.RunID), slog.Any("error", cause))
		return
	}
	logs.close()
	s.w.tellEnd(s, h, r, result, err, cause)
}

// call calls the handler; a panic is a failure.
func (s *session) call(ctx context.Context, r *Run) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Failure{Code: "PANIC", Message: fmt.Sprint(p)}
		}
	}()
	handler := s.w.handlers[r.Command]
	if handler == nil {
		return nil, &Failure{Code: "UNKNOWN_COMMAND", Message: "this worker does not know " + r.Command, Permanent: false}
	}
	return handler(ctx, r)
}

// beat sends heartbeats until ctx ends. It runs in its own goroutine, so that busy
// handlers do not delay it. A detached worker continues with them while it drains: an
// operator may undo the detaching, and then they renew its leases.
func (s *session) beat(ctx context.Context) {
	seq, detached := int64(0), false
	for pause := time.Duration(0); ; pause = s.interval {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		seq++
		if err := s.beatOnce(ctx, seq); gone(err) {
			if !detached {
				s.log.Warn("the worker was detached: it finishes its runs and registers again", slog.Any("error", err))
				s.end(ErrLost)
				s.confirm(ctx)
			}
			detached = true
		} else if err != nil && ctx.Err() == nil {
			s.log.Warn("heartbeat failed", slog.Any("error", err))
		}
	}
}

// confirm tells the server that the runs of the detached worker continue, and
// drops those that it refuses. It does not extend the leases of the others.
func (s *session) confirm(ctx context.Context) {
	var doubted []*held
	s.each(func(h *held) { doubted = append(doubted, h) })
	for _, h := range doubted {
		err := s.w.api.post(ctx, 5*time.Second, "/api/v1/job-runs/"+h.RunID+"/confirm-continuation", h.of(s.id, nil), nil)
		if err != nil && !unknown(err) {
			h.drop(errors.Join(ErrLost, err))
		}
	}
}
