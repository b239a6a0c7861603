package participantgate

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/engine"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// Config configures a Gate. Every field is required unless its comment says otherwise.
type Config struct {
	Store registry.Gates
	// Take is Store.Take for one call; it may combine many of them in one commit. nil means a
	// separate Store.Take for each.
	Take  func(context.Context, registry.Grant) (bool, error)
	Known *Known
	Node  string // this node's name, unique among live nodes
	Now   func() time.Time
	Log   *slog.Logger
	// Due is called when sagas have become due. Moved is called when a gate has changed state, so
	// that other nodes read it. Both may be nil.
	Due, Moved func()
	// Round is called after each round with the number of gates in each state. It may be nil.
	Round func(states map[registry.State]int)
}

// Gate controls this node's calls to participants. It is safe for concurrent use.
type Gate struct {
	cfg   Config
	nodes atomic.Int64
	waves atomic.Bool // a participant is being released

	mu     sync.Mutex
	counts map[id]*counted // guarded by mu
	swept  time.Time       // of the last sweep; used only by Round
}

type id struct {
	tenant uuid.UUID
	name   string
}

// counted is what this node has counted of its calls to one participant.
type counted struct {
	inFlight, waiting int
	told              int // the number in flight that was last stored for the other nodes
	toldAt            time.Time
	latency           time.Duration // recent latency
	last              time.Time     // a call ended
	sums              []registry.Sum
	stored            time.Time // the bucket of the last sum that was stored
}

// New returns a gate that lets nothing through until it has read the participants.
func New(cfg Config) *Gate {
	nothing := func() {}
	if cfg.Due == nil {
		cfg.Due = nothing
	}
	if cfg.Moved == nil {
		cfg.Moved = nothing
	}
	if cfg.Take == nil {
		cfg.Take = func(ctx context.Context, g registry.Grant) (bool, error) {
			taken, err := cfg.Store.Take(ctx, []registry.Grant{g})
			return err == nil && taken[0], err
		}
	}
	if cfg.Round == nil {
		cfg.Round = func(map[registry.State]int) {}
	}
	g := &Gate{cfg: cfg, counts: map[id]*counted{}}
	g.nodes.Store(1)
	return g
}

// Enter implements engine.Gate.
func (g *Gate) Enter(ctx context.Context, c *saga.Call, call saga.CallID, mayHaveGrant bool) engine.Entry {
	if err := g.cfg.Known.Read(ctx); err != nil {
		g.unread(ctx, err)
		return engine.Entry{Busy: every}
	}
	_, url := c.By.Endpoint()
	p := g.cfg.Known.Of(c.Tenant, url)
	if p == nil {
		return engine.Entry{}
	}
	granted := false
	if p.Gate.State != registry.Open {
		if mayHaveGrant {
			var err error
			granted, err = g.cfg.Take(ctx, registry.Grant{
				Of: saga.Ref{Tenant: c.Tenant, ID: c.SagaID}, Participant: p.Name, Call: call,
			})
			if err != nil && ctx.Err() == nil {
				g.cfg.Log.WarnContext(ctx, "cannot take the grant of a saga; the saga waits", slog.Any("error", err))
			}
		}
		if !granted {
			return engine.Entry{Park: p.Name}
		}
	}
	if wait := g.begin(p, granted); wait > 0 {
		return engine.Entry{Busy: wait}
	}
	return engine.Entry{Leave: func(o *saga.Outcome) { g.ended(p, o, granted) }}
}

// Held returns the participant that a URL belongs to if its gate is not open. It returns nil if the
// gate is open or no participant matches.
func (g *Gate) Held(tenant uuid.UUID, url string) *registry.Participant {
	if p := g.cfg.Known.Of(tenant, url); p != nil && p.Gate.State != registry.Open {
		return p
	}
	return nil
}

// Turn asks to make a call that does not belong to a saga.
func (g *Gate) Turn(ctx context.Context, c registry.Caller, url string) registry.Turn {
	if err := g.cfg.Known.Read(ctx); err != nil {
		g.unread(ctx, err)
		return registry.Turn{Busy: every}
	}
	p := g.cfg.Known.Of(c.TenantID, url)
	if p == nil {
		return registry.Turn{}
	}
	let := false
	if p.Gate.State != registry.Open {
		var err error
		if let, err = g.cfg.Store.TakeTurn(ctx, p.Name, c); err != nil && ctx.Err() == nil {
			g.cfg.Log.WarnContext(ctx, "cannot take the turn of a "+string(c.Kind)+"; the call waits", slog.Any("error", err))
		}
		if !let {
			return registry.Turn{Waits: p}
		}
	}
	if wait := g.begin(p, let); wait > 0 {
		return registry.Turn{Busy: wait}
	}
	return registry.Turn{Let: let, Leave: func(h *registry.Heard) {
		if h == nil {
			g.ended(p, nil, let)
			return
		}
		o := h.Outcome()
		g.ended(p, &o, let)
	}}
}

// unread logs that a call waits because this node has not yet read which participants are held.
func (g *Gate) unread(ctx context.Context, err error) {
	if ctx.Err() == nil {
		g.cfg.Log.WarnContext(ctx, "cannot read the participants; a call waits", slog.Any("error", err))
	}
}

// begin counts a call in flight. If this node has reached its limit, it returns the time after
// which to try again: about when one of the waiting calls gets its turn. A call that was let
// through is not refused, because its grant has been used.
func (g *Gate) begin(p *registry.Participant, granted bool) (wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.of(p)
	if most := g.share(p); most > 0 && c.inFlight >= most && !granted {
		c.waiting++
		turns := time.Duration(1 + c.waiting/most)
		wait = min(max(c.latency, shortest)*turns, longest)
		return loop.Jittered(wait)
	}
	c.waiting = max(0, c.waiting-1)
	c.inFlight++
	return 0
}

// Range of the time that a call waits when too many others are in flight.
const (
	shortest = 20 * time.Millisecond
	longest  = 3 * time.Second
)

// share is how many calls to a participant this node may have in flight; 0 means no limit.
func (g *Gate) share(p *registry.Participant) int {
	if p.Settings.MaxInFlight == 0 {
		return 0
	}
	return max(1, p.Settings.MaxInFlight/int(max(1, g.nodes.Load())))
}

// of returns the counts of a participant. The caller holds g.mu.
func (g *Gate) of(p *registry.Participant) *counted {
	key := id{p.TenantID, p.Name}
	c := g.counts[key]
	if c == nil {
		c = &counted{}
		g.counts[key] = c
	}
	return c
}

// ended counts the end of a call. o is nil if this node abandoned the call.
func (g *Gate) ended(p *registry.Participant, o *saga.Outcome, granted bool) {
	now := g.cfg.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.of(p)
	c.inFlight--
	if o == nil || !registry.Counts(o) {
		return
	}
	c.last = now
	c.latency += (o.EndedAt.Sub(o.StartedAt) - c.latency) / 8
	second := now.Truncate(time.Second)
	if n := len(c.sums); n == 0 || c.sums[n-1].Bucket.Before(second) {
		c.sums = append(c.sums, registry.Sum{TenantID: p.TenantID, Participant: p.Name, Bucket: second})
	}
	sum := &c.sums[len(c.sums)-1]
	sum.Count(o, granted, now)
	if p.Gate.State == registry.Open && p.Settings.Outage.Ratio().Broken(sum.Calls, sum.Failed) {
		g.cfg.Known.Wake() // most of its sagas have not failed twice yet, so decide now
	}
}

// InFlight returns how many calls to a participant this node has in flight.
func (g *Gate) InFlight(tenant uuid.UUID, name string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.counts[id{tenant, name}]; c != nil {
		return c.inFlight
	}
	return 0
}

const (
	every      = time.Second
	eachWave   = 250 * time.Millisecond // short, so that a wave is small compared with what is let through in a second
	leastPause = 100 * time.Millisecond
	sweepEvery = time.Minute
	// lookAfter is how long a gate is still checked after it has opened, even without calls: a saga
	// may park just when another node has opened the gate.
	lookAfter = 10 * time.Minute
)

// Run makes rounds until ctx ends: once a second, more often while a participant is being released,
// and when a participant has changed.
func (g *Gate) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := g.Round(ctx); err != nil && ctx.Err() == nil {
			g.cfg.Log.WarnContext(ctx, "cannot update the gates of participants; they stay as they are",
				slog.Any("error", err))
		}
		if loop.Sleep(ctx, leastPause) { // however many changes there are
			next := every
			if g.waves.Load() {
				next = eachWave
			}
			loop.Await(ctx, loop.JitteredBy(0.25+loop.Chance()/2, next-leastPause), g.cfg.Known.wake)
		}
	}
}

// Round stores the counts and decides on every gate that may need a decision. Only one call at a
// time may run.
func (g *Gate) Round(ctx context.Context) error {
	if err := g.cfg.Known.Refresh(ctx); err != nil {
		return err
	}
	if sums := g.take(); len(sums) > 0 {
		if err := g.cfg.Store.Count(ctx, g.cfg.Node, sums); err != nil {
			return err // these seconds are lost, so their calls are not judged
		}
	}
	now := g.cfg.Now()
	if err := g.tell(ctx, now); err != nil {
		return err
	}
	var due []*registry.Participant
	limited, there := false, false
	g.cfg.Known.Each(func(p *registry.Participant) {
		limited, there = limited || p.Settings.MaxInFlight > 0, true
		if p.Gate.State != registry.Open || now.Sub(p.Gate.Since) < lookAfter || g.called(p, now) {
			due = append(due, p)
		}
	})
	if limited {
		n, err := g.cfg.Store.Nodes(ctx)
		if err != nil {
			return err
		}
		g.nodes.Store(int64(n))
	}
	var seen []registry.Seen
	if due != nil {
		var err error
		if seen, err = g.cfg.Store.Look(ctx, due, now); err != nil {
			return err
		}
	}
	moved, let := false, 0
	for i, p := range due {
		changed, n, err := g.decide(ctx, p, seen[i], now)
		if err != nil {
			return err
		}
		moved, let = moved || changed, let+n
	}
	if let > 0 {
		g.cfg.Due()
	}
	if moved {
		g.cfg.Moved()
		if err := g.cfg.Known.Refresh(ctx); err != nil {
			return err
		}
	}
	if there && now.Sub(g.swept) >= sweepEvery {
		g.swept = now
		if err := g.cfg.Store.Sweep(ctx); err != nil {
			return err
		}
	}
	states := map[registry.State]int{}
	g.cfg.Known.Each(func(p *registry.Participant) { states[p.Gate.State]++ })
	g.waves.Store(states[registry.Releasing] > 0)
	g.cfg.Round(states)
	return nil
}

// take returns what was counted since the last call.
func (g *Gate) take() (sums []registry.Sum) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, c := range g.counts {
		for i := range c.sums {
			// Each sum gets its own row, even if a second is stored in several parts.
			if s := &c.sums[i]; !s.Bucket.After(c.stored) {
				s.Bucket = c.stored.Add(time.Microsecond)
			}
			c.stored = c.sums[i].Bucket
		}
		sums = append(sums, c.sums...)
		c.sums, c.waiting = nil, c.waiting/2 // callers that no longer wait do not say so
		if c.inFlight == 0 && c.told == 0 && g.cfg.Now().Sub(c.last) > lookAfter {
			delete(g.counts, key)
		}
	}
	return sums
}

// tell stores how many calls are in flight if the number has changed.
func (g *Gate) tell(ctx context.Context, now time.Time) error {
	var flights []registry.Flight
	g.mu.Lock()
	for key, c := range g.counts {
		if c.inFlight != c.told || c.inFlight > 0 && now.Sub(c.toldAt) >= registry.FlightTold {
			flights = append(flights, registry.Flight{TenantID: key.tenant, Participant: key.name, InFlight: c.inFlight})
			c.told, c.toldAt = c.inFlight, now
		}
	}
	g.mu.Unlock()
	if flights == nil {
		return nil
	}
	return g.cfg.Store.Fly(ctx, g.cfg.Node, flights)
}

// called reports whether a call to p ended on this node within p's window.
func (g *Gate) called(p *registry.Participant, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.counts[id{p.TenantID, p.Name}]
	return c != nil && now.Sub(c.last) <= p.Settings.Outage.Window()+every
}

// decide decides on one gate.
func (g *Gate) decide(
	ctx context.Context, p *registry.Participant, seen registry.Seen, now time.Time,
) (moved bool, let int, err error) {
	d := p.Gate.Decide(&p.Settings.Outage, seen, now)
	if !d.Changed && d.Grants == 0 {
		return false, 0, nil
	}
	let, stored, err := g.cfg.Store.Decide(ctx, p, d, now)
	if err != nil {
		return false, 0, err
	}
	if stored && d.Gate.State != p.Gate.State {
		g.cfg.Log.InfoContext(ctx, "the gate of a participant has changed",
			slog.String("participant", p.Name), slog.String("gate", d.Gate.Sentence(now)))
	}
	return d.Changed, let, nil // even if another node was faster
}
