// Package redrive drives dead letters again: those that are due, those that an operator
// retries, and those of a bulk redrive at its rate. It ends retries whose node has
// died, and moves letters past their retention to the archive. The rules are in package
// dlq; a Driver (package targets) carries a letter to its target.
//
// Any number of nodes may do this at once. A letter is claimed under a token before it
// is sent, and the end of the retry is stored only while that token holds the letter. A
// hand-over note is stored before the letter is sent (handoverBatch). A node that dies
// in between leaves a lease behind; when it expires, a retry that was handed over
// counts as failed, one that was not does not count, and the letter is sent again: at
// least once, with the same id of its lineage.
package redrive

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// Driver carries letters to targets of one kind. It is safe for concurrent use.
type Driver interface {
	// Drive sends each letter once and returns one result per drive, in order. It
	// returns soon after ctx ends, and then reports for each letter whether it was not
	// sent (Withdrawn) or may have been (Uncertain). Acknowledged is reported only for
	// what the target has stored durably.
	Drive(ctx context.Context, batch []dlq.Drive) []dlq.Result
}

// Config of a Redriver. Queue, Redrives, Drivers, Now and Log are required; for other
// fields the comments give the meaning or default of zero.
type Config struct {
	Queue    dlq.Queue
	Redrives dlq.Redrives
	// Drivers are the kinds of targets that this node can reach; letters for others are
	// not claimed.
	Drivers map[dlq.TargetKind]Driver
	// Forbidden reports whether a topic is never driven to, because ingestion reads it and
	// the record would come back as a letter (invariant D6); nil: none is.
	Forbidden func(topic string) bool
	Gate      registry.Turns // in front of the participants that HTTP targets belong to; nil: there is none
	Now       func() time.Time
	Jitter    func() float64   // in [0,1); loop.Chance
	NewID     func() uuid.UUID // UUIDv7
	Log       *slog.Logger

	Poll  time.Duration // 1 s: the interval of polling the database when there is no work
	Lease time.Duration // 1 min, at least 3 s: how long a letter is held; extended while it is being driven
	Batch int           // 500: letters claimed at once
	// AtOnce bounds the letters of a kind that are claimed at once, for slow drivers; a
	// kind not in it uses Batch.
	AtOnce map[dlq.TargetKind]int
	Drain  time.Duration // 5 s: how long drives under way may take when the node stops
	// Upkeep is how often letters are archived and purged, 10 min; negative: never,
	// because another component calls Archive and Purge.
	Upkeep time.Duration
	// Round runs a round of upkeep by calling do, and records what it did; nil: do is
	// called directly.
	Round func(ctx context.Context, do func(context.Context))

	// Ended is called for every redrive that has completed or halted on this node, after the commit;
	// may be nil.
	Ended func(dlq.Redrive)

	Observer Observer
}

// Observer receives events; nil functions are not called.
type Observer struct {
	Drove func(kind dlq.TargetKind, outcome dlq.AttemptOutcome) // of each letter; Accepted ones are "ACCEPTED"
	// A loop has completed a round: automatic, bulk, reclaim, upkeep.
	Loop      func(name string)
	Reclaimed func(letters int)
	Archived  func(letters int)
	Purged    func(letters int)
	Backlog   func(dlq.Backlog) // every 15 s; less often when counting takes longer than 0.15 s
}

// Accepted is the outcome given to Observer.Drove for a letter whose target reports
// later.
const Accepted dlq.AttemptOutcome = "ACCEPTED"

// Names of loops, for the Observer.
const (
	LoopAutomatic = "automatic"
	LoopBulk      = "bulk"
	LoopReclaim   = "reclaim"
	LoopUpkeep    = "upkeep"
)

// storing is the time limit of a write that must not be canceled because the node
// stops or a client has disconnected.
const storing = 10 * time.Second

// Redriver runs the loops. It is safe for concurrent use.
type Redriver struct {
	cfg   Config
	kinds []dlq.TargetKind
	wakes map[string]chan struct{} // by loop that looks for work
	turns turns
	told  loop.Complaints
	waits reports // of redrives that wait at a gate
}

// New returns a Redriver that does nothing automatically until Run.
func New(cfg Config) *Redriver {
	r := &Redriver{cfg: cfg.complete(), wakes: map[string]chan struct{}{LoopBulk: make(chan struct{}, 1)}}
	for kind := range r.cfg.Drivers {
		r.kinds = append(r.kinds, kind)
		r.wakes[string(kind)] = make(chan struct{}, 1)
	}
	slices.Sort(r.kinds)
	return r
}

func (c Config) complete() Config {
	orDur := func(v *time.Duration, def time.Duration) {
		if *v == 0 {
			*v = def
		}
	}
	orDur(&c.Poll, time.Second)
	orDur(&c.Lease, time.Minute)
	orDur(&c.Drain, 5*time.Second)
	orDur(&c.Upkeep, 10*time.Minute)
	if c.Batch == 0 {
		c.Batch = 500
	}
	if c.Round == nil {
		c.Round = func(ctx context.Context, do func(context.Context)) { do(ctx) }
	}
	if c.Jitter == nil {
		c.Jitter = loop.Chance
	}
	if c.NewID == nil {
		c.NewID = func() uuid.UUID { return uuid.Must(uuid.NewV7()) }
	}
	if c.Ended == nil {
		c.Ended = func(dlq.Redrive) {}
	}
	if c.Forbidden == nil {
		c.Forbidden = func(string) bool { return false }
	}
	o := &c.Observer
	if o.Drove == nil {
		o.Drove = func(dlq.TargetKind, dlq.AttemptOutcome) {}
	}
	if o.Loop == nil {
		o.Loop = func(string) {}
	}
	for _, count := range []*func(int){&o.Reclaimed, &o.Archived, &o.Purged} {
		if *count == nil {
			*count = func(int) {}
		}
	}
	if o.Backlog == nil {
		o.Backlog = func(dlq.Backlog) {}
	}
	return c
}

// Routes returns the targets that this node can reach.
func (r *Redriver) Routes() dlq.Routes { return dlq.Routes{Kinds: r.kinds, Forbidden: r.cfg.Forbidden} }

// chance provides the randomness of the rules that stores call.
func (r *Redriver) chance() dlq.Chance { return dlq.Chance{Jitter: r.cfg.Jitter, NewID: r.cfg.NewID} }

// Wake makes the loops look for work at once instead of at their next poll.
func (r *Redriver) Wake() {
	for name := range r.wakes {
		r.wake(name)
	}
}

func (r *Redriver) wake(name string) {
	select {
	case r.wakes[name] <- struct{}{}:
	default:
	}
}

// Run works until ctx ends, and returns when every drive under way has ended and its
// end is stored, or Drain has passed.
func (r *Redriver) Run(ctx context.Context) {
	// Drives continue after ctx for Drain, and the storing of their ends continues after
	// that.
	drives, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(r.cfg.Drain, abandon) })()
	var loops sync.WaitGroup
	defer loops.Wait()
	for _, kind := range r.kinds {
		loops.Go(func() { r.automatic(ctx, drives, kind) })
	}
	loops.Go(func() { r.bulk(ctx, drives) })
	loops.Go(func() { r.every(ctx, max(r.cfg.Lease/4, time.Second), r.reclaim) })
	loops.Go(func() { r.releases(ctx) })
	if r.cfg.Upkeep > 0 {
		loops.Go(func() { r.every(ctx, r.cfg.Upkeep, r.upkeep) })
	}
	loops.Go(func() { r.counts(ctx) })
}

// every calls f at once and then every d.
func (r *Redriver) every(ctx context.Context, d time.Duration, f func(context.Context)) {
	for ctx.Err() == nil {
		f(ctx)
		loop.Sleep(ctx, loop.Jittered(d))
	}
}

// atOnce returns how many letters of a kind are claimed at once.
func (r *Redriver) atOnce(kind dlq.TargetKind) int {
	if n := r.cfg.AtOnce[kind]; n > 0 {
		return min(n, r.cfg.Batch)
	}
	return r.cfg.Batch
}

// warn logs an error unless the node is stopping.
func (r *Redriver) warn(ctx context.Context, message string, err error, attrs ...any) {
	if ctx.Err() == nil {
		r.cfg.Log.WarnContext(ctx, message, append(attrs, slog.Any("error", err))...)
	}
}

// complain logs why one redrive cannot continue, at growing intervals: until the cause is fixed
// it fails in every round, while the others continue.
func (r *Redriver) complain(ctx context.Context, message string, redrive uuid.UUID, err error) {
	if ctx.Err() == nil && r.told.Due(message+redrive.String(), time.Now()) {
		r.warn(ctx, message, err, slog.String("redrive_id", redrive.String()))
	}
}

// turns tracks which redrives are being worked on here, and when each was judged.
type turns struct {
	mu     sync.Mutex
	busy   map[uuid.UUID]bool      // guarded by mu
	judged map[uuid.UUID]time.Time // guarded by mu
	after  page.TimeID             // owned by the bulk loop: the last redrive of this round that had its turn
}
