// Package redrive drives dead letters again: letters that are due, letters that an operator
// retries, and the letters of a bulk redrive at its rate. It ends retries whose node has died, and
// archives letters past their retention. The rules are in package dlq, and a Driver (package
// targets) carries a letter to its target.
//
// Any number of nodes may do this concurrently. A letter is claimed under a token before it is
// sent, and the result of the retry is stored only while that token holds the letter. A hand-over
// note is stored before the letter is sent (handoverBatch). A node that dies in between leaves a
// lease behind. When that lease expires, a retry that was handed over counts as failed, and one
// that was not does not count. The letter is then sent again, so it is sent at least once, always
// with the same lineage id.
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
	// Drive sends each letter once and returns one result per drive, in order. It returns soon
	// after ctx ends, and then reports for each letter whether it was not sent (Withdrawn) or may
	// have been sent (Uncertain). Acknowledged is reported only if the target has stored the letter
	// durably.
	Drive(ctx context.Context, batch []dlq.Drive) []dlq.Result
}

// Config configures a Redriver. Queue, Redrives, Drivers, Now and Log are required. For the other
// fields, the comments state what zero means.
type Config struct {
	Queue    dlq.Queue
	Redrives dlq.Redrives
	// Drivers contains the kinds of targets that this node can reach. Letters for other kinds are
	// not claimed.
	Drivers map[dlq.TargetKind]Driver
	// Forbidden reports whether letters must never be driven to a topic because ingestion reads it,
	// so that the record would come back as a letter (invariant D6). nil means that no topic is
	// forbidden.
	Forbidden func(topic string) bool
	Gate      registry.Turns // gates of the participants that HTTP targets belong to; nil: there are none
	Now       func() time.Time
	Jitter    func() float64   // in [0,1); loop.Chance
	NewID     func() uuid.UUID // UUIDv7
	Log       *slog.Logger

	Poll  time.Duration // 1 s: interval of polling the database when there is no work
	Lease time.Duration // 1 min, at least 3 s: how long a letter is held; extended while it is being driven
	Batch int           // 500: letters claimed at once
	// AtOnce limits how many letters of a kind are claimed at once, for slow drivers. Kinds that
	// are not in it use Batch.
	AtOnce map[dlq.TargetKind]int
	Drain  time.Duration // 5 s: how long drives in progress may take when the node stops
	// Upkeep is the interval at which letters are archived and purged; 0 means 10 min. A negative
	// value means never, because another component calls Archive and Purge.
	Upkeep time.Duration
	// Round runs a round of upkeep by calling do, and records what it did. If it is nil, do is
	// called directly.
	Round func(ctx context.Context, do func(context.Context))

	// Ended is called for every redrive that has completed or halted on this node, after the
	// commit. It may be nil.
	Ended func(dlq.Redrive)

	Observer Observer
}

// Observer receives events. Nil functions are not called.
type Observer struct {
	Drove func(kind dlq.TargetKind, outcome dlq.AttemptOutcome) // for each letter; "ACCEPTED" if Accepted
	// Loop is called when a loop (automatic, bulk, reclaim or upkeep) has completed a round.
	Loop      func(name string)
	Reclaimed func(letters int)
	Archived  func(letters int)
	Purged    func(letters int)
	Backlog   func(dlq.Backlog) // every 15 s; less often if counting takes longer than 0.15 s
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

// storing is the time limit for a write that must not be canceled just because the node stops or a
// client has disconnected.
const storing = 10 * time.Second

// Redriver runs the loops. It is safe for concurrent use.
type Redriver struct {
	cfg   Config
	kinds []dlq.TargetKind
	wakes map[string]chan struct{} // by name of the loop that looks for work
	turns turns
	told  loop.Complaints
	waits reports // reports of redrives that are waiting at a gate
}

// New returns a Redriver that does nothing automatically until Run is called.
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

// chance provides randomness for rules that stores apply.
func (r *Redriver) chance() dlq.Chance { return dlq.Chance{Jitter: r.cfg.Jitter, NewID: r.cfg.NewID} }

// Wake makes the loops look for work immediately instead of at their next poll.
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

// Run works until ctx ends. It returns when every drive in progress has ended and its result is
// stored, or when Drain has passed.
func (r *Redriver) Run(ctx context.Context) {
	// After ctx ends, drives may continue for Drain, and their results may still be stored after
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

// every calls f immediately and then every d.
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

// complain logs why one redrive cannot continue, at growing intervals: the redrive fails in every
// round until the cause is fixed, while the others continue.
func (r *Redriver) complain(ctx context.Context, message string, redrive uuid.UUID, err error) {
	if ctx.Err() == nil && r.told.Due(message+redrive.String(), time.Now()) {
		r.warn(ctx, message, err, slog.String("redrive_id", redrive.String()))
	}
}

// turns tracks which redrives are being worked on here, and when each was last judged.
type turns struct {
	mu     sync.Mutex
	busy   map[uuid.UUID]bool      // guarded by mu
	judged map[uuid.UUID]time.Time // guarded by mu
	after  page.TimeID             // owned by the bulk loop: the last redrive that had its turn in this round
}
