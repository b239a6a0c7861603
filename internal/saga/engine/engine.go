// Package engine drives sagas. It takes sagas that are due, makes their calls, applies the rules to
// each outcome, and continues once the decision is durable.
//
//	drive: outcome := call the participant
//	       change  := saga.Apply(run, outcome)
//	       commit(change)            // then, and only then, the next call
//
// All of its state is in the store, except for the outcomes of steps with checkpoint: false, which
// it holds in memory for a moment (held). A node holds one lease. When the lease is lost, every
// drive stops immediately, and the node that takes over repeats the call in flight with the same
// key. Crash recovery is the same takeover.
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

// Config configures an Engine. Fields up to Log are required unless their comments say otherwise.
// For fields below Log, the zero value selects the default given in the comment.
type Config struct {
	Store     saga.Store
	Ownership saga.Ownership
	// Commit writes one change through the group commit. The change is durable when it returns, and
	// includes the values that only the store knew (saga.Store.Commit).
	Commit func(context.Context, *saga.Change) error
	// Definition returns a pinned version. It is called once per drive, so implementations should
	// cache.
	Definition func(ctx context.Context, tenant uuid.UUID, name string, version int) (*workflow.Definition, error)
	// Call makes one attempt. It returns promptly when ctx ends.
	Call func(context.Context, saga.Call) saga.Outcome
	// CheckJobRun returns the outcome of a job run, and cancels the run if the call requests it.
	// The outcome is nil unless the run has ended or does not exist and its saga is still waiting
	// for it. A nil function means that there are no job runs.
	CheckJobRun func(context.Context, saga.JobCall) (*saga.Outcome, error)
	// Address fills in the address of a call that names its participant, before the gate is asked.
	// known is false if the tenant has no such participant. After an error the call is postponed. A
	// nil function means that no participants are known.
	Address func(context.Context, *saga.Call) (known bool, err error)
	// Gate is asked before each call to a participant. Nil means no gate.
	Gate Gate
	Node string // the node's name, unique among live nodes
	// Process identifies this process across all machines; "" if that is impossible. Gone reports
	// whether another process has certainly ended; nil means that this is never known.
	Process string
	Gone    func(process string) bool
	// Unfit returns the reason why this node must not drive sagas now. While it returns an error,
	// the node registers no lease, and resigns the one it holds after a drain. Nil means that the
	// node may always drive.
	Unfit func() error
	// Now is the store's clock.
	Now func() time.Time
	// Ended is called after the commit for every saga that has ended on this node. It receives the
	// saga and its step logs as committed, in the order of saga.Store.StepLogs. If the node has not
	// seen all of the logs it receives nil, and the logs must be read. May be nil.
	Ended func(ref saga.Ref, committed *saga.Loaded)
	// NewID returns the ids of step logs. They are UUIDv7, so that they sort by time.
	NewID func() uuid.UUID
	Log   *slog.Logger

	Jitter         func() float64 // loop.Chance
	LeaseTTL       time.Duration  // 10 s
	Poll           time.Duration  // 500 ms: how often a node polls for work that it was not notified of
	ReaperInterval time.Duration  // 1 s
	SlowAfter      time.Duration  // 500 ms: a call that takes longer is recorded as RUNNING
	Hold           time.Duration  // 5 s: longer waits need no owner
	// how long the outcome of a step with checkpoint: false may be held; 0 means not at all
	Checkpoint          time.Duration
	DrainTimeout        time.Duration // 20 s: how long calls in flight may take to finish at shutdown
	StepTimeout         time.Duration // 30 s: for steps that set none
	CompensationTimeout time.Duration // for sagas that set none; 0 means no deadline
	Budget              saga.Budget   // per saga
	MaxRunning          int           // 256: sagas with a call in flight at the same time
	Observer            Observer      // its nil functions are not called
}

// Gate decides whether a call may be made now.
type Gate interface {
	// Enter asks to make a call of a saga. mayHaveGrant means that the saga may already have waited
	// at the gate. The zero Entry means that the call belongs to no gate.
	Enter(ctx context.Context, c *saga.Call, call saga.CallID, mayHaveGrant bool) Entry
}

// Entry is a gate's answer. If neither Park nor Busy is set, the call may be made.
type Entry struct {
	Park string        // the participant at whose gate the saga must wait
	Busy time.Duration // too many calls are in flight: ask again after this delay
	// Leave is called when the call ends; its argument is nil if the outcome was abandoned. A nil
	// Leave is not called.
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
	backlog chan struct{}           // capacity 1: signals that there is unowned work
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

// errNameTaken ends Run: two live processes with the same node name would fence each other forever.
var errNameTaken = errors.New("another live process has this node's name: give each node its own name (engine.node_id)")

// Run drives sagas until ctx ends and then stops gracefully: it takes no new sagas, gives calls in
// flight DrainTimeout to finish, and hands over the other sagas. A lost lease is not an error: the
// node registers again. Run returns an error only if another live process holds a lease under this
// node's name. Nothing is left running when it returns.
func (e *Engine) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if e.cfg.Unfit() != nil { // Unfit logs its reason
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

// awaitFormer returns when no other process can be using this node's name: either none holds a
// lease under it, or the process that does has ended. If that process may have ended together with
// its machine, awaitFormer waits until the lease expires. If the lease is renewed in the meantime,
// the process is alive, and awaitFormer returns errNameTaken.
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

// Admit reserves a slot for one new saga. If no slot is free it waits briefly, which slows clients
// down to what the node can handle. owner is nil if there is still no slot; the saga is then stored
// unowned and claimed later. done must be called exactly once: with the stored run, which starts
// immediately, or with nil.
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

// admitWait is how long a create waits for a slot. After that its saga is stored unowned and starts
// only when it is claimed.
const admitWait = 100 * time.Millisecond

// Backlog tells the engine that the store contains unowned work.
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

// Moved tells the engine that the end of a job run, on any node, has advanced a saga.
func (e *Engine) Moved(s saga.Saga) {
	if s.State.Terminal() {
		e.finished(&s, nil)
		return
	}
	e.Backlog()
}

// Drives reports whether this node drives a saga or is waiting to continue it. If so, its end is
// reported to Config.Ended here, unless the node loses the saga.
func (e *Engine) Drives(ref saga.Ref) bool {
	s := e.current.Load()
	return s != nil && s.lease.Valid() && s.drivesOne(ref)
}

// Load returns how many sagas the node is driving and how many are waiting on it, for metrics.
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
