// Package delivery carries events to webhooks: it reads each tenant's audit trail for every
// subscription, creates deliveries for matching events, and sends them until they succeed or
// retries are exhausted. The rules are in package webhook.
//
// Any number of nodes may run it concurrently. A cursor in the database moves in the transaction
// that stores the deliveries of the events before it, so that each event becomes one delivery. A
// lease keeps two nodes from sending the same delivery. An attempt whose outcome could not be
// stored is repeated with the same webhook-id, so delivery is at least once.
package delivery

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/event/cloudevent"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// Config configures Run. Queue, Trail, Send, Now, NewID and Log are required; the comments on the
// other fields state the defaults.
type Config struct {
	Queue webhook.Queue
	Trail trail.Trail
	// Send makes one attempt. It must return promptly when its context ends.
	Send func(context.Context, *webhook.Subscription, *webhook.Delivery) webhook.Outcome
	// Gate limits the calls to the participants to which endpoints belong; nil means that there are
	// no gates.
	Gate  registry.Turns
	Now   func() time.Time
	NewID func() uuid.UUID
	Log   *slog.Logger

	Policy      webhook.Policy // webhook.DefaultPolicy
	Concurrency int            // 8: concurrent attempts of one subscription on this node; 1 while it fails
	Poll        time.Duration  // 500 ms: interval of polling the database when there is no work
	Lease       time.Duration  // 1 min: must exceed the longest time of an attempt
	Drain       time.Duration  // 5 s: how long attempts in flight may take when the node stops
	Keep        time.Duration  // 720 h: how long deliveries are kept after they have ended

	Observer Observer
}

// Observer receives events. Nil functions are not called.
type Observer struct {
	Attempted func(result string)                       // delivered, retried, failed, abandoned
	Disabled  func()                                    // a subscription was disabled after failures
	Backlog   func(pending int64, oldest time.Duration) // every 15 s
	Round     func()                                    // a round of looking for work has ended
}

// These are the numbers of subscriptions that this node serves at once. Failing subscriptions have
// separate slots, so that dead endpoints, each of which takes a whole timeout to detect, delay only
// each other.
const (
	healthyPlaces = 64
	failingPlaces = 32
	batch         = 500 // number of events read from the feed at once
	rounds        = 16  // number of claims before other subscriptions get a turn
)

// storing is the time limit of a write that must not be canceled when the node stops.
const storing = 10 * time.Second

// deliverer is the state of Run.
type deliverer struct {
	Config
	healthy, failing chan struct{}
	kick             chan struct{} // signals that there may be more work

	mu   sync.Mutex
	busy map[uuid.UUID]bool // subscriptions that are being served on this node
}

// Run works until ctx ends. It returns when every attempt in flight has ended and its outcome is
// stored, or when Drain has passed.
func Run(ctx context.Context, cfg Config) {
	l := &deliverer{
		Config: cfg.complete(), busy: map[uuid.UUID]bool{}, kick: make(chan struct{}, 1),
		healthy: make(chan struct{}, healthyPlaces), failing: make(chan struct{}, failingPlaces),
	}
	// After ctx ends, attempts may continue for Drain, and storing their outcomes may take longer.
	sends, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(l.Drain, abandon) })()
	var serving sync.WaitGroup
	defer serving.Wait() // runs before the deferred calls above: the end of ctx may not have been noticed yet
	var counted, expired time.Time
	for ctx.Err() == nil {
		l.round(ctx, sends, &serving)
		if now := time.Now(); now.Sub(counted) > 15*time.Second {
			counted = now
			l.count(ctx)
		}
		if now := time.Now(); now.Sub(expired) > time.Hour {
			expired = now
			l.expire(ctx)
		}
		loop.Await(ctx, loop.Jittered(l.Poll), l.kick)
	}
}

func (c Config) complete() Config {
	orDur := func(v *time.Duration, def time.Duration) {
		if *v == 0 {
			*v = def
		}
	}
	if c.Policy.DisableAfter == 0 {
		c.Policy = webhook.DefaultPolicy
	}
	if c.Concurrency == 0 {
		c.Concurrency = 8
	}
	orDur(&c.Poll, 500*time.Millisecond)
	orDur(&c.Lease, time.Minute)
	orDur(&c.Drain, 5*time.Second)
	orDur(&c.Keep, 720*time.Hour)
	o := &c.Observer
	if o.Attempted == nil {
		o.Attempted = func(string) {}
	}
	if o.Disabled == nil {
		o.Disabled = func() {}
	}
	if o.Backlog == nil {
		o.Backlog = func(int64, time.Duration) {}
	}
	if o.Round == nil {
		o.Round = func() {}
	}
	return c
}

// round starts to serve every subscription that has work and is not being served yet.
func (l *deliverer) round(ctx, sends context.Context, serving *sync.WaitGroup) {
	ready, err := l.Queue.Ready(ctx, l.Now())
	if err != nil {
		l.warn(ctx, "cannot find webhooks with work", err)
		return
	}
	l.Observer.Round()
	for i := range ready {
		w := &ready[i]
		places := l.healthy
		if w.Health.FailingSince != nil {
			places = l.failing
		}
		l.mu.Lock()
		free := !l.busy[w.ID]
		if free {
			select {
			case places <- struct{}{}:
				l.busy[w.ID] = true
			default:
				free = false // left for another round
			}
		}
		l.mu.Unlock()
		if !free {
			continue
		}
		serving.Go(func() {
			more := l.serve(ctx, sends, w)
			l.mu.Lock()
			delete(l.busy, w.ID)
			l.mu.Unlock()
			<-places
			if more {
				select {
				case l.kick <- struct{}{}:
				default:
				}
			}
		})
	}
}

// serve reads the feed for one subscription and sends due deliveries. more reports that there may
// be more work immediately.
func (l *deliverer) serve(ctx, sends context.Context, w *webhook.Work) (more bool) {
	if w.FeedReady {
		read, err := l.read(ctx, w)
		if err != nil {
			l.warn(ctx, "cannot read the feed for a webhook", err)
			return false
		}
		more = read
	}
	limit := l.Concurrency
	if w.Health.FailingSince != nil {
		limit = 1
	}
	for range rounds {
		if ctx.Err() != nil {
			return false
		}
		// A claim is not canceled when the node stops. Otherwise deliveries that were claimed but
		// not sent would wait for their lease to expire.
		turn, waits := l.turn(ctx, &w.Subscription)
		if waits {
			return more
		}
		if turn.Let {
			limit = 1
		}
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), storing)
		claimed, err := l.Queue.Claim(call, &w.Subscription, l.Now(), l.Lease, limit)
		cancel()
		if err != nil || len(claimed) == 0 {
			turn.Left(nil)
		}
		if err != nil {
			l.warn(ctx, "cannot claim deliveries", err)
			return false
		}
		if len(claimed) == 0 {
			return more
		}
		var all sync.WaitGroup
		failures := make([]bool, len(claimed))
		for i := range claimed {
			all.Go(func() { failures[i] = !l.attempt(sends, &w.Subscription, &claimed[i], turn) })
		}
		all.Wait()
		for _, failed := range failures {
			if failed {
				return true // the endpoint's health has changed
			}
		}
	}
	return true
}

// read creates deliveries for the next events. It returns true if there may be further events.
func (l *deliverer) read(ctx context.Context, w *webhook.Work) (more bool, err error) {
	events, end, err := l.Trail.Feed(ctx, w.TenantID, w.Cursor, trail.EventFilter{}, batch)
	if err != nil || end == w.Cursor {
		return false, err
	}
	now := l.Now()
	var wanted []webhook.Delivery
	for i := range events {
		e := &events[i]
		if !w.Wants(e.Type, e.WorkflowName, e.Label) {
			continue
		}
		doc, err := cloudevent.Of(e)
		if err != nil {
			return false, err
		}
		body, err := json.Marshal(doc)
		if err != nil {
			return false, err
		}
		wanted = append(wanted, webhook.Delivery{
			TenantID: w.TenantID, WebhookID: w.ID, ID: l.NewID(), EventID: e.ID, EventType: string(e.Type), SagaID: e.SagaID,
			Body: body, Status: webhook.Pending, DueAt: now, CreatedAt: now,
		})
	}
	// If nothing was stored, another node has read the same events or the subscription has changed.
	// In either case, the next round reads the current state.
	_, err = l.Queue.Enqueue(ctx, &w.Subscription, w.Cursor, end, wanted)
	return true, err
}

// attempt sends one delivery and stores the outcome. It returns false after a failure. turn is the
// turn that the gate granted, if any.
func (l *deliverer) attempt(
	ctx context.Context, s *webhook.Subscription, d *webhook.Delivery, turn registry.Turn,
) bool {
	o := l.send(ctx, s, d, turn)
	store, cancel := context.WithTimeout(context.WithoutCancel(ctx), storing)
	defer cancel()
	m := webhook.Moment{Now: l.Now(), Jitter: loop.Chance(), NewID: l.NewID}
	r, stored, err := l.Queue.Settle(store, d, o, l.Policy, m)
	if err != nil { // the lease expires, and the delivery is sent again
		l.warn(store, "cannot store the outcome of a delivery", err)
		return false
	}
	result := "abandoned"
	switch {
	case o.Abandoned:
	case o.Status/100 == 2:
		result = "delivered"
	case stored && r.Delivery.Status == webhook.Failed:
		result = "failed"
	default:
		result = "retried"
	}
	l.Observer.Attempted(result)
	log := l.Log.With(slog.String("webhook_id", d.WebhookID.String()), slog.String("delivery_id", d.ID.String()))
	if result == "failed" {
		log.InfoContext(
			store,
			"webhook delivery failed permanently",
			slog.Int("attempt", d.Attempt),
			slog.String("reason", r.Delivery.Error),
		)
	}
	if stored && r.Disabled {
		l.Observer.Disabled()
		log.WarnContext(
			store,
			"webhook disabled",
			slog.String("tenant_id", d.TenantID.String()),
			slog.String("reason", r.Subscription.DisabledReason),
		)
	}
	return result == "delivered"
}

func (l *deliverer) count(ctx context.Context) {
	pending, oldest, err := l.Queue.Backlog(ctx)
	if err != nil {
		l.warn(ctx, "cannot count pending deliveries", err)
		return
	}
	var age time.Duration
	if !oldest.IsZero() {
		age = max(l.Now().Sub(oldest), 0)
	}
	l.Observer.Backlog(pending, age)
}

func (l *deliverer) expire(ctx context.Context) {
	n, err := l.Queue.Expire(ctx, l.Now().Add(-l.Keep))
	if err != nil {
		l.warn(ctx, "cannot expire deliveries", err)
		return
	}
	l.Log.DebugContext(ctx, "webhook deliveries expired", slog.Int64("count", n))
}

// warn logs an error unless the node is stopping.
func (l *deliverer) warn(ctx context.Context, message string, err error) {
	if ctx.Err() == nil {
		l.Log.WarnContext(ctx, message, slog.Any("error", err))
	}
}
