package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// session is the activity of the process under one worker id.
type session struct {
	w        *Worker
	id       string
	interval time.Duration // between heartbeats
	log      *slog.Logger

	slots chan struct{} // one element for each run that may be claimed
	over  context.Context
	end   context.CancelCauseFunc // ends the session when the worker id is gone
	// claiming ends when the worker takes no more runs. It is set before the first run.
	claiming context.Context

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

func (s *session) each(f func(*held)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		f(h)
	}
}

// give returns slots.
func (s *session) give(slots int) {
	for range slots {
		s.slots <- struct{}{}
	}
}

// begin executes one run in its own goroutine. Its lease counts from sent.
func (s *session) begin(c claimed, sent time.Time, lease time.Duration) {
	ctx, cancel := context.WithCancelCause(context.Background())
	h := &held{claimed: c, cancel: cancel}
	h.renew(sent, lease)
	s.mu.Lock()
	if last := s.held[c.RunID]; last != nil { // the previous attempt's handler has not returned yet
		last.drop(ErrLost)
	}
	s.held[c.RunID] = h
	s.mu.Unlock()
	s.busy.Go(func() {
		passed := false // the slot went to the next run
		defer func() {
			s.mu.Lock()
			if s.held[c.RunID] == h { // it may be the next attempt by now
				delete(s.held, c.RunID)
			}
			s.mu.Unlock()
			h.lease.Stop()
			cancel(nil)
			if !passed {
				s.give(1)
			}
		}()
		passed = s.do(ctx, h)
	})
}

// do calls the handler and reports the result. passed means that another run already uses the slot.
func (s *session) do(ctx context.Context, h *held) (passed bool) {
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
		return false
	}
	logs.close()
	return s.w.tellEnd(s, h, r, result, err, cause)
}

// call calls the handler. A panic counts as a failure.
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
