// Package engine drives sagas: it takes sagas that are due, makes their calls, lets the
// rules decide, and continues once the decision is durable.
//
//	drive: outcome := call the participant
//	       change  := saga.Apply(run, outcome)
//	       commit(change)            // then, and only then, the next call
//
// It keeps no state that is not in the store, except for a moment the outcomes of steps with
// checkpoint: false (held). A node holds one lease; when the lease is lost
// every drive stops immediately, and the node that takes over repeats the call in flight with
// the same key. Recovery after a crash is that takeover.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Config of an Engine. Everything up to Log is required unless its comment says
// otherwise; zero values below Log mean the defaults in the comments.
type Config struct {
	Store     saga.Store
	Ownership saga.Ownership
	// Commit writes one change through the group commit, durably before it returns, and adds to it
	// what only the store knew (saga.Store.Commit).
	Commit func(context.Context, *saga.Change) error
	// Definition returns a pinned version. It is called once per drive, so it should cache.
	Definition func(ctx context.Context, tenant uuid.UUID, name string, version int) (*workflow.Definition, error)
	// Call makes one attempt. It returns promptly when ctx ends.
	Call func(context.Context, saga.Call) saga.Outcome
	// CheckJobRun returns the outcome of a job run, and cancels the run if the call requests
	// it. The outcome is nil unless the run has ended or does not exist, and its saga still
	// waits for it. Nil: there are no job runs.
	CheckJobRun func(context.Context, saga.JobCall) (*saga.Outcome, error)
	// Address fills in where a call goes that names its participant, before its gate is asked; known is
	// false if the tenant has no such participant. After an error the call is not made now. Nil: no
	// participant is known.
	Address func(context.Context, *saga.Call) (known bool, err error)
	// Gate stands in front of participants; nil: there is none.
	Gate Gate
	Node string // name of the node, unique among live nodes
	// Process identifies this process among those of all machines; "" if that is impossible.
	// Gone reports whether another process has certainly ended; nil: always unknown.
	Process string
	Gone    func(process string) bool
	// Unfit returns why this node must not drive sagas now. While it does, the node has no lease, and
	// a lease that it had is resigned after a drain. Nil: the node may always drive.
	Unfit func() error
	// Now is the clock of the store.
	Now func() time.Time
	// Ended is called after the commit for every saga that has ended on this node, with the saga
	// and its step logs as committed, in the order of saga.Store.StepLogs, or with nil if the node
	// has not seen all of them, so that they must be read. May be nil.
	Ended func(ref saga.Ref, committed *saga.Loaded)
	// NewID returns the ids of step logs: UUIDv7, so that they sort by time.
	NewID func() uuid.UUID
	Log   *slog.Logger

	Jitter              func() float64 // loop.Chance
	LeaseTTL            time.Duration  // 10 s
	Poll                time.Duration  // 500 ms: how often a node looks for work that it was not notified of
	ReaperInterval      time.Duration  // 1 s
	SlowAfter           time.Duration  // 500 ms: a call that runs longer is recorded as RUNNING
	Hold                time.Duration  // 5 s: longer waits need no owner
	Checkpoint          time.Duration  // how long the outcome of a step with checkpoint: false may be held; 0: not at all
	DrainTimeout        time.Duration  // 20 s: how long calls in flight may still take at shutdown
	StepTimeout         time.Duration  // 30 s: of steps that have none
	CompensationTimeout time.Duration  // of sagas that have none; 0: no deadline
	Budget              saga.Budget    // of each saga
	MaxRunning          int            // 256: sagas with a call in flight at the same time
	Observer            Observer       // nil functions are not called
}

// Gate decides whether a call may be made now.
type Gate interface {
	// Enter asks for a call of a saga. mayHaveGrant: the saga may have waited at the gate before. The
	// zero Entry means that the call belongs to no gate.
	Enter(ctx context.Context, c *saga.Call, call saga.CallID, mayHaveGrant bool) Entry
}

// Entry is the answer of a gate. If neither Park nor Busy is set, the call may be made.
type Entry struct {
	Park string        // the participant at whose gate the saga must wait
	Busy time.Duration // too many calls are in flight: ask again after this time
	// Leave is called at the end of the call, with nil if its outcome is abandoned; nil: nothing is to
	// be called.
	Leave func(*saga.Outcome)
}

// Observer receives the engine's events, for metrics.
type Observer struct {
	CallDone func(action saga.Action, o *saga.Outcome)
	Ended    func(s *saga.Saga)
	Claimed  func(n int)
	Loop     func(name string) // a loop has completed a round
}

// Engine drives sagas on one node. Run it once.
type Engine struct {
	cfg     Config
	current atomic.Pointer[session] // nil while the node has no lease
	backlog chan struct{}           // capacity 1: signals that unowned work exists
}

// New returns an engine that does nothing until Run.
func New(cfg Config) *Engine {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&cfg.LeaseTTL, 10*time.Second)
	def(&cfg.Poll, 500*time.Millisecond)
	def(&cfg.ReaperInterval, time.Second)
	def(&cfg.SlowAfter, 500*time.Millisecond)
	def(&cfg.Hold, 5*time.Second)
	def(&cfg.DrainTimeout, 20*time.Second)
	def(&cfg.StepTimeout, 30*time.Second)
	if cfg.MaxRunning == 0 {
		cfg.MaxRunning = 256
	}
	if cfg.Jitter == nil {
		cfg.Jitter = loop.Chance
	}
	if cfg.Ended == nil {
		cfg.Ended = func(saga.Ref, *saga.Loaded) {}
	}
	if cfg.Unfit == nil {
		cfg.Unfit = func() error { return nil }
	}
	if cfg.Gone == nil {
		cfg.Gone = func(string) bool { return false }
	}
	o := &cfg.Observer
	if o.CallDone == nil {
		o.CallDone = func(saga.Action, *saga.Outcome) {}
	}
	if o.Ended == nil {
		o.Ended = func(*saga.Saga) {}
	}
	if o.Claimed == nil {
		o.Claimed = func(int) {}
	}
	if o.Loop == nil {
		o.Loop = func(string) {}
	}
	return &Engine{cfg: cfg, backlog: make(chan struct{}, 1)}
}

// errNameTaken ends Run: two live processes under one node name would fence each other
// forever.
var errNameTaken = errors.New("another live process has this node's name: give each node its own (engine.node_id)")

// Run drives sagas until ctx ends, then stops gracefully: no new sagas are taken, calls
// in flight get DrainTimeout, and the other sagas are handed over. A lost lease is not
// an error: the node registers again. Run returns an error only when another live
// process holds a lease under this node's name. It returns with nothing left running.
func (e *Engine) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if e.cfg.Unfit() != nil { // who returns that has logged it
			e.sleep(ctx, e.cfg.Poll)
			continue
		}
		s, err := e.register(ctx)
		if errors.Is(err, errNameTaken) {
			return fmt.Errorf("node %q: %w", e.cfg.Node, err)
		}
		if err != nil {
			e.cfg.Log.WarnContext(ctx, "cannot register this node", slog.Any("error", err))
			e.sleep(ctx, e.cfg.Poll)
			continue
		}
		e.current.Store(s)
		e.cfg.Log.InfoContext(ctx, "node registered", slog.String("node", e.cfg.Node), slog.Int64("owner", s.owner))
		s.serve(ctx)
		e.current.Store(nil)
		s.end()
		if ctx.Err() != nil {
			return nil
		}
		if err := e.cfg.Unfit(); err != nil {
			e.cfg.Log.WarnContext(ctx, "the node has resigned its lease", slog.Any("error", err))
			continue
		}
		e.cfg.Log.WarnContext(ctx, "the node's lease was lost; registering again", slog.Int64("owner", s.owner))
	}
	return nil
}

// awaitFormer returns when no other process can be using this node's name: none holds a lease under
// it, or the one that does has ended. If it may have ended together with its machine, awaitFormer
// waits for the end of the lease. A lease that is renewed in the meantime belongs to a live
// process: errNameTaken.
func (e *Engine) awaitFormer(ctx context.Context) error {
	var first saga.Incarnation
	for {
		f, found, err := e.cfg.Ownership.Former(ctx, e.cfg.Node)
		switch {
		case err != nil:
			return err
		case !found || f.Process != "" && (f.Process == e.cfg.Process || e.cfg.Gone(f.Process)):
			return nil
		case first.LeaseUntil.IsZero():
			first = f
			e.cfg.Log.WarnContext(
				ctx,
				"another process holds a lease under this node's name; waiting to see whether it is alive",
				slog.String("node", e.cfg.Node),
				slog.Time("lease_until", f.LeaseUntil),
			)
		case f.LeaseUntil.After(first.LeaseUntil):
			return errNameTaken
		}
		e.sleep(ctx, e.cfg.LeaseTTL/20)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// Healthy returns nil while the node holds its lease.
func (e *Engine) Healthy() error {
	if s := e.current.Load(); s == nil || !s.lease.Valid() {
		return errors.New("the node has no lease")
	}
	return nil
}

// Admit reserves a slot for one new saga, waiting briefly if none is free, which slows clients
// down to what the node can handle. owner is nil if there is still none; the saga is then
// stored unowned and claimed later. done must be called exactly once: with the stored run,
// which starts immediately, or nil.
func (e *Engine) Admit(ctx context.Context) (owner *int64, done func(*saga.Instance)) {
	s := e.current.Load()
	if s == nil || !s.lease.Valid() || !s.slots.takeFresh(ctx, admitWait) {
		return nil, func(*saga.Instance) { e.Backlog() }
	}
	return &s.owner, func(run *saga.Instance) {
		if run == nil || !s.start(*run, witness{all: run.Version == 1}, fresh) { // which has no logs
			s.slots.give(fresh)
		}
	}
}

// admitWait is how long a create waits for a slot before its saga is stored unowned and starts
// only after a claim.
const admitWait = 100 * time.Millisecond

// Backlog tells the engine that unowned work exists in the store.
func (e *Engine) Backlog() {
	select {
	case e.backlog <- struct{}{}:
	default:
	}
}

// Wake makes the engine read a saga now, because a flag was set. It does nothing for sagas that
// this node does not own.
func (e *Engine) Wake(ref saga.Ref) {
	if s := e.current.Load(); s != nil {
		s.wake(ref)
	}
	e.Backlog()
}

// Moved notifies the engine that the end of a job run, on any node, has advanced a saga.
func (e *Engine) Moved(s saga.Saga) {
	if s.State.Terminal() {
		e.finished(&s, nil)
		return
	}
	e.Backlog()
}

// Drives reports whether this node drives a saga or waits to continue it, so that its end
// is reported to Config.Ended here unless the node loses it.
func (e *Engine) Drives(ref saga.Ref) bool {
	s := e.current.Load()
	return s != nil && s.lease.Valid() && s.drivesOne(ref)
}

// Load returns how many sagas the node drives and how many wait on it, for metrics.
func (e *Engine) Load() (running, waiting int) {
	if s := e.current.Load(); s != nil {
		return s.counts()
	}
	return 0, 0
}

// sleep waits for about d, jittered by a fifth, or until ctx ends.
func (e *Engine) sleep(ctx context.Context, d time.Duration) {
	loop.Sleep(ctx, e.jittered(d))
}

func (e *Engine) jittered(d time.Duration) time.Duration {
	return loop.JitteredBy(e.cfg.Jitter(), d)
}
