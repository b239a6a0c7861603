package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/loop/lease"
	"github.com/skald-saga/skald/internal/saga"
)

// session is one incarnation of the node, from its registration until its lease is lost or ends.
// All of its state ends with the lease.
type session struct {
	e     *Engine
	owner int64
	slots *slots
	// calls is canceled when calls in flight must be abandoned, either because the lease is lost or
	// because the drain has taken too long. Their outcomes are then dropped.
	calls  context.Context
	giveUp context.CancelFunc
	// checked before every send: a node that was paused must not make calls for a saga of another
	// node
	lease    lease.Held
	stopping atomic.Bool // draining: no new calls are sent

	mu      sync.Mutex
	running map[saga.Ref]bool // guarded by mu: sagas that have a goroutine or are being loaded for one
	// guarded by mu: new sagas that were loaded before done of Admit was called for them
	adopted map[saga.Ref]bool
	waiting map[saga.Ref]*time.Timer // guarded by mu: sagas that wait a short time
	damaged map[saga.Ref]pause       // guarded by mu: sagas whose workflow definition cannot be read
	ready   ready                    // guarded by mu
	queued  map[saga.Ref]bool        // guarded by mu: the sagas in ready
	readied chan struct{}            // capacity 1

	drives sync.WaitGroup
}

func (e *Engine) register(ctx context.Context) (*session, error) {
	if err := e.awaitFormer(ctx); err != nil {
		return nil, err
	}
	sent := time.Now()
	owner, err := e.cfg.Ownership.Register(ctx, e.cfg.Node, e.cfg.Process, e.cfg.LeaseTTL)
	if err != nil {
		return nil, err
	}
	s := &session{
		e: e, owner: owner, slots: newSlots(e.cfg.MaxRunning),
		running: map[saga.Ref]bool{}, adopted: map[saga.Ref]bool{}, waiting: map[saga.Ref]*time.Timer{},
		damaged: map[saga.Ref]pause{}, queued: map[saga.Ref]bool{}, readied: make(chan struct{}, 1),
	}
	s.calls, s.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	s.lease.Extend(sent, e.cfg.LeaseTTL)
	return s, nil
}

// serve runs the session's loops until ctx ends, the lease is lost, or the node is unfit.
func (s *session) serve(ctx context.Context) {
	loops, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for _, loop := range []func(context.Context){s.intake, s.reap} {
		wg.Go(func() { loop(loops) })
	}
	s.keepLease(loops, func() {
		if s.e.cfg.Unfit() != nil {
			stop()
		}
	})
	stop()
	wg.Wait()
}

// keepLease renews the lease until ctx ends or the lease is lost. It calls renewed after each
// renewal.
func (s *session) keepLease(ctx context.Context, renewed func()) {
	lease.Keeper{
		TTL: s.e.cfg.LeaseTTL, Sleep: s.e.sleep,
		Renew: func(ctx context.Context) (bool, error) {
			_ = failpoint.Hit(failpoint.LeaseRenewBefore)
			defer failpoint.Hit(failpoint.LeaseRenewAfter) //nolint:errcheck // it can only pause or kill the node
			return s.e.cfg.Ownership.Renew(ctx, s.owner, s.e.cfg.LeaseTTL)
		},
		Renewed: func() {
			s.e.cfg.Observer.Loop("lease")
			renewed()
		},
		Failed: func(err error) {
			s.e.cfg.Log.WarnContext(ctx, "cannot renew the lease; retrying", slog.Any("error", err))
		},
	}.Keep(ctx, &s.lease)
}

// end stops every drive and waits for it. If the lease is still held, the stop is graceful: waiting
// sagas are handed over, calls in flight finish under the lease, and then the lease is resigned.
// Without the lease, everything is dropped immediately.
func (s *session) end() {
	s.stopping.Store(true)
	waiting := s.stopTimers()
	drain, drained := context.WithTimeout(context.Background(), s.e.cfg.DrainTimeout)
	defer drained()
	gone := make(chan struct{})
	go func() { s.drives.Wait(); drained(); close(gone) }()
	if s.lease.Valid() {
		s.handOver(waiting)
		s.keepLease(drain, func() {})
		if errors.Is(drain.Err(), context.DeadlineExceeded) {
			s.e.cfg.Log.Warn("calls are still in flight at the end of the drain; their sagas will be taken over")
		}
	}
	s.giveUp()
	<-gone
	if !s.lease.Valid() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.e.cfg.Ownership.Resign(ctx, s.owner); err != nil {
		s.e.cfg.Log.Warn("could not resign the lease; it will expire", slog.Any("error", err))
	}
}

// handOver releases sagas that have no call in flight.
func (s *session) handOver(refs []saga.Ref) {
	if len(refs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.e.cfg.Ownership.Release(ctx, s.owner, refs); err != nil {
		s.e.cfg.Log.Warn(
			"could not hand over sagas; they will be taken over",
			slog.Int("count", len(refs)),
			slog.Any("error", err),
		)
	}
}

// stopTimers clears the waiting and queued sagas and returns them.
func (s *session) stopTimers() []saga.Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref, t := range s.waiting {
		t.Stop()
		s.queued[ref] = true
	}
	var refs []saga.Ref
	for ref := range s.queued {
		if !s.running[ref] { // the saga was woken just before it was driven: a call may be in flight
			refs = append(refs, ref)
		}
	}
	clear(s.waiting)
	clear(s.queued)
	s.ready = ready{}
	return refs
}

// start drives a run on a slot of kind k, which is returned when the drive ends. seen has the step
// logs of the run. It returns false if the saga is already driven or the session is over.
func (s *session) start(run saga.Instance, seen witness, k kind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run.State == saga.Pending && s.adopted[run.Ref()] {
		delete(s.adopted, run.Ref())
		return false // the saga was woken and started before its create returned, and has changed since
	}
	if s.running[run.Ref()] || s.stopping.Load() {
		return false
	}
	s.running[run.Ref()] = true
	s.launch(run, seen, k)
	return true
}

// reserve marks up to n ready sagas as running before they are read. Otherwise another goroutine
// could drive them between the read and their start, and they would start with outdated state.
func (s *session) reserve(n int) map[saga.Ref]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, s.ready.len())
	reserved := make(map[saga.Ref]bool, n)
	for range n {
		ref := s.ready.pop()
		delete(s.queued, ref)
		if !s.running[ref] {
			s.running[ref] = true
			reserved[ref] = true
		}
	}
	return reserved
}

// startReserved drives a run that was read under its reservation.
func (s *session) startReserved(run saga.Instance, seen witness, k kind, reserved map[saga.Ref]bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Load() {
		return false
	}
	if run.State == saga.Pending {
		s.adopted[run.Ref()] = true
	}
	delete(reserved, run.Ref())
	s.launch(run, seen, k)
	return true
}

// unreserve releases reservations that were not used.
func (s *session) unreserve(reserved map[saga.Ref]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref := range reserved {
		delete(s.running, ref)
	}
}

// launch starts the goroutine of a saga that is marked as running.
func (s *session) launch(run saga.Instance, seen witness, k kind) {
	s.drives.Go(func() {
		d := drive{s: s, run: run, seen: seen}
		after := d.loop()
		s.mu.Lock()
		delete(s.running, run.Ref())
		s.mu.Unlock()
		s.slots.give(k)
		after()
	})
}

// waitUntil schedules the saga to be read again at the given time.
func (s *session) waitUntil(ref saga.Ref, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Load() {
		return
	}
	s.waiting[ref] = time.AfterFunc(at.Sub(s.e.cfg.Now()), func() { s.wake(ref) })
}

// wake makes a waiting saga ready now. It also queues a saga that the node owns but does not drive.
// It does nothing for a driven saga, which sees flags at its next commit.
func (s *session) wake(ref saga.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.waiting[ref]; t != nil {
		t.Stop()
		delete(s.waiting, ref)
	}
	if s.running[ref] || s.queued[ref] || s.stopping.Load() {
		return
	}
	s.queued[ref] = true
	s.ready.push(ref)
	select {
	case s.readied <- struct{}{}:
	default:
	}
}

func (s *session) drivesOne(ref saga.Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[ref] || s.waiting[ref] != nil
}

func (s *session) counts() (running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running), len(s.waiting) + s.ready.len()
}
