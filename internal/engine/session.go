package engine

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/saga"
)

// session is one incarnation of the node: from registering to the loss or the
// end of its lease. Nothing of it outlives its lease.
type session struct {
	e     *Engine
	owner int64
	slots *slots
	// calls ends when calls in flight must be given up: the lease is lost, or
	// the drain has taken too long. What they answer afterwards is dropped.
	calls    context.Context
	giveUp   context.CancelFunc
	until    atomic.Int64 // the lease is trusted until this time on the monotonic clock, ns since epoch0
	stopping atomic.Bool  // drain: nothing new is sent

	mu      sync.Mutex
	running map[uuid.UUID]bool        // guarded by mu: sagas with a goroutine
	waiting map[uuid.UUID]*time.Timer // guarded by mu: sagas that wait a short time
	ready   []uuid.UUID               // guarded by mu: due, to be loaded and driven
	readied chan struct{}             // capacity 1

	drives sync.WaitGroup
}

// epoch0 anchors the monotonic clock.
var epoch0 = time.Now()

func (e *Engine) register(ctx context.Context) (*session, error) {
	sent := time.Since(epoch0)
	owner, err := e.cfg.Ownership.Register(ctx, e.cfg.Node, e.cfg.LeaseTTL)
	if err != nil {
		return nil, err
	}
	s := &session{
		e: e, owner: owner, slots: newSlots(e.cfg.MaxRunning),
		running: map[uuid.UUID]bool{}, waiting: map[uuid.UUID]*time.Timer{}, readied: make(chan struct{}, 1),
	}
	s.calls, s.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	s.trust(sent)
	return s, nil
}

// trust prolongs the time in which the node believes in its lease. It counts
// from before the request was sent: the database's clock began later.
func (s *session) trust(sent time.Duration) { s.until.Store(int64(sent + s.e.cfg.LeaseTTL)) }

// trusted tells whether the lease certainly still holds. Checked before every
// send, so that a node that slept does not call for a saga that is another's.
func (s *session) trusted() bool { return int64(time.Since(epoch0)) < s.until.Load() }

// serve runs the session's loops until ctx ends or the lease is lost.
func (s *session) serve(ctx context.Context) {
	loops, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for _, loop := range []func(context.Context){s.intake, s.reap} {
		wg.Go(func() { loop(loops) })
	}
	s.keepLease(ctx)
	stop()
	wg.Wait()
}

// keepLease renews three times per lease. It returns when ctx ends or when the
// lease is lost: refused by the store, or not renewed before it ran out.
func (s *session) keepLease(ctx context.Context) {
	for {
		s.e.sleep(ctx, s.e.cfg.LeaseTTL/3)
		if ctx.Err() != nil {
			return
		}
		_ = failpoint.Hit(failpoint.LeaseRenewBefore)
		sent := time.Since(epoch0)
		attempt, cancel := context.WithTimeout(ctx, s.e.cfg.LeaseTTL/3)
		held, err := s.e.cfg.Ownership.Renew(attempt, s.owner, s.e.cfg.LeaseTTL)
		cancel()
		_ = failpoint.Hit(failpoint.LeaseRenewAfter)
		switch {
		case err == nil && held:
			s.trust(sent)
			s.e.cfg.Observer.Loop("lease")
		case err == nil:
			s.until.Store(0)
			return
		case !s.trusted():
			return
		default:
			s.e.cfg.Log.WarnContext(ctx, "cannot renew the lease yet", slog.Any("error", err))
		}
	}
}

// end stops every drive and waits for them. With the lease still held it is a
// graceful stop: calls in flight may finish, what waits is handed over, and
// the lease is resigned. Without it everything is dropped at once.
func (s *session) end() {
	s.stopping.Store(true)
	handOver := s.stopTimers()
	if s.trusted() {
		drained := make(chan struct{})
		go func() { s.drives.Wait(); close(drained) }()
		select {
		case <-drained:
		case <-time.After(s.e.cfg.DrainTimeout):
			s.e.cfg.Log.Warn("calls are still in flight at the end of the drain; their sagas will be taken over")
		}
	}
	s.giveUp()
	s.drives.Wait()
	if !s.trusted() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.e.cfg.Ownership.Release(ctx, s.owner, handOver); err != nil {
		s.e.cfg.Log.Warn("could not hand over waiting sagas; they will be taken over", slog.Any("error", err))
	}
	if err := s.e.cfg.Ownership.Resign(ctx, s.owner); err != nil {
		s.e.cfg.Log.Warn("could not resign the lease; it will run out", slog.Any("error", err))
	}
}

// stopTimers forgets what waits and returns it.
func (s *session) stopTimers() []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := append([]uuid.UUID(nil), s.ready...)
	s.ready = nil
	for id, t := range s.waiting {
		t.Stop()
		delete(s.waiting, id)
		ids = append(ids, id)
	}
	return ids
}

// start drives a run on a slot of kind k, which is given back at its end.
// False: the saga is driven already, or the session is over.
func (s *session) start(run saga.Run, k kind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[run.ID] || s.stopping.Load() {
		return false
	}
	s.running[run.ID] = true
	s.drives.Go(func() {
		d := drive{s: s, run: run}
		after := d.loop()
		s.mu.Lock()
		delete(s.running, run.ID)
		s.mu.Unlock()
		s.slots.give(k)
		after()
	})
	return true
}

// waitUntil has the saga looked at again at the given time.
func (s *session) waitUntil(id uuid.UUID, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Load() {
		return
	}
	s.waiting[id] = time.AfterFunc(at.Sub(s.e.cfg.Now()), func() { s.wake(id) })
}

// wake makes a waiting saga ready now. Unless it waits or is owned by the node
// without a drive, this changes nothing: a driven saga sees flags at its next commit.
func (s *session) wake(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.waiting[id]; t != nil {
		t.Stop()
		delete(s.waiting, id)
	}
	if s.running[id] || s.stopping.Load() {
		return
	}
	s.ready = append(s.ready, id)
	select {
	case s.readied <- struct{}{}:
	default:
	}
}

func (s *session) counts() (running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running), len(s.waiting) + len(s.ready)
}
