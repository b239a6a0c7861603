// Package publication publishes events to a message broker: either the audit trail of every tenant,
// or the events that job runs emit (outbox.go). Only one node publishes at a time, the leader,
// which is determined by a lease in the database.
//
// A tenant's events are sent in the order of its feed, and the cursor moves only when the broker
// has acknowledged everything before it. Therefore nothing is lost, and if a former leader could
// not store an acknowledgement, the events are sent again: delivery is at least once. Within a
// saga, the first copies of its events arrive in order, with growing ids. A consumer that drops
// events whose id is not greater than the last one of their saga therefore gets each event once
// (docs/kafka.md).
package publication

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/event/cloudevent"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/loop/lease"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
)

// Message is one event for the broker. Messages with the same Topic and Key keep their
// order.
type Message struct {
	Topic      string // "": the producer's
	Key, Value []byte
	Headers    []Header
	At         time.Time
}

// Header is a header of a Message.
type Header struct{ Name, Value string }

// Producer is a connection to the broker.
type Producer interface {
	// Send returns nil if the broker has stored every message durably. It returns a *Refused if the
	// broker has stored all messages except some that it will never accept. After any other error
	// the broker may have stored any of them, and the producer must not be used again. Send returns
	// promptly when ctx ends.
	Send(ctx context.Context, messages []Message) error
	Close()
}

// Refused is the error for messages that the broker has certainly not stored and will never store,
// because their topic does not exist or they are too large.
type Refused struct{ Why map[int]error } // by the position of the message

// Error describes one of the refused messages.
func (r *Refused) Error() string {
	for _, err := range r.Why {
		return err.Error()
	}
	return "refused"
}

// Config configures Run. Fields are required unless a comment says otherwise.
type Config struct {
	Name  string // name of the publication; nodes with the same name share the work
	Node  string // unique name of this node
	Store trail.Publications
	Trail trail.Trail // nil: Outbox is used
	// Outbox holds the events of job runs, which are published instead of a trail.
	Outbox jobrun.Outbox
	// Refuse returns the reason why nothing may be published to a topic, or "" if it may. It is
	// used with Outbox.
	Refuse func(topic string) string
	NewID  func() uuid.UUID // ids of dead letters; used with Outbox
	Open   func() (Producer, error)
	Now    func() time.Time
	Log    *slog.Logger

	Lease   time.Duration // 10 s: time until another node takes over after a leader's death
	Poll    time.Duration // 200 ms: interval of polling the database when there are no events
	Timeout time.Duration // 30 s: a batch that the broker has not acknowledged by then is sent again
	Batch   int           // 1000: maximum number of events in a batch, and thus in memory
	Tenants []uuid.UUID   // tenants whose events are published; none: all

	Observer Observer
}

// Observer receives events. Nil functions are not called.
type Observer struct {
	Leading   func(leader bool)
	Published func(events int)
	Refused   func()                  // an event became a dead letter; used with Outbox
	Failed    func()                  // a batch was not acknowledged, or the broker was unreachable
	Lag       func(age time.Duration) // of the oldest unpublished event; 0: none. Called only by the leader
}

// backoff is the wait between attempts while the broker is unavailable.
var backoff = retry.Policy{InitialIntervalMS: 500, MaxIntervalMS: 15_000, Multiplier: 2}

// Run works until ctx ends.
func Run(ctx context.Context, cfg Config) {
	cfg = cfg.complete()
	lease.Election[int64]{
		TTL:      func(context.Context) time.Duration { return cfg.Lease },
		Acquire:  cfg.acquire(),
		StepDown: func(ctx context.Context, epoch int64) error { return cfg.Store.Resign(ctx, cfg.Name, epoch) },
		Lead: func(ctx context.Context, epoch int64, _ *lease.Progress) bool {
			cfg.publish(ctx, epoch)
			cfg.Observer.Lag(0)
			return true
		},
		Leads: func(leads bool, _ int64) { cfg.Observer.Leading(leads) },
		Log:   cfg.Log.With(slog.String("leader_of", "publication "+cfg.Name)),
	}.Run(ctx)
}

// acquire returns a function that renews the lease of the epoch that this node holds, or takes the
// lease for a new epoch.
func (c *Config) acquire() func(context.Context, time.Duration) (epoch int64, leads bool, err error) {
	var held int64 // 0: none
	return func(ctx context.Context, ttl time.Duration) (int64, bool, error) {
		if held > 0 {
			ours, err := c.Store.Renew(ctx, c.Name, held, ttl)
			if err != nil || ours {
				return held, ours, err
			}
			held = 0
		}
		var err error
		held, err = c.Store.Lead(ctx, c.Name, c.Node, ttl)
		return held, held > 0, err
	}
}

func (c Config) complete() Config {
	orDur := func(v *time.Duration, def time.Duration) {
		if *v == 0 {
			*v = def
		}
	}
	orDur(&c.Lease, 10*time.Second)
	orDur(&c.Poll, 200*time.Millisecond)
	orDur(&c.Timeout, 30*time.Second)
	if c.Batch == 0 {
		c.Batch = 1000
	}
	o := &c.Observer
	if o.Leading == nil {
		o.Leading = func(bool) {}
	}
	if o.Published == nil {
		o.Published = func(int) {}
	}
	if o.Refused == nil {
		o.Refused = func() {}
	}
	if o.Failed == nil {
		o.Failed = func() {}
	}
	if o.Lag == nil {
		o.Lag = func(time.Duration) {}
	}
	return c
}

// publish sends unpublished events until ctx ends or the term is over.
func (c *Config) publish(ctx context.Context, epoch int64) {
	var producer Producer
	drop := func() {
		if producer != nil {
			producer.Close()
			producer = nil
		}
	}
	defer drop()
	var told time.Time
	for failures := 0; ctx.Err() == nil; {
		if producer == nil {
			var err error
			if producer, err = c.Open(); err != nil {
				producer = nil
				failures++
				c.failed(ctx, failures, &told, err)
				continue
			}
		}
		pass := c.pass
		if c.Outbox != nil {
			pass = c.passOutbox
		}
		published, ours, err := pass(ctx, producer, epoch)
		switch {
		case !ours:
			return
		case err != nil:
			drop() // the client must not finish a batch in the background
			failures++
			c.failed(ctx, failures, &told, err)
		case published == 0:
			failures = 0
			loop.Sleep(ctx, loop.Jittered(c.Poll))
		default:
			failures = 0
		}
	}
}

// tellAgain is the interval at which the log repeats a warning. Metrics count every failure.
const tellAgain = 10 * time.Minute

func (c *Config) failed(ctx context.Context, failures int, told *time.Time, err error) {
	if ctx.Err() != nil {
		return
	}
	c.Observer.Failed()
	level := slog.LevelDebug
	if failures == 1 || time.Since(*told) >= tellAgain {
		level, *told = slog.LevelWarn, time.Now()
	}
	c.Log.Log(
		ctx,
		level,
		"cannot publish events; trying again",
		slog.String("publication", c.Name),
		slog.Int("failures", failures),
		slog.Any("error", err),
	)
	loop.Sleep(ctx, loop.Jittered(backoff.Delay(failures, 0, 0)))
}

// pass sends one batch of each tenant that has unpublished events.
func (c *Config) pass(ctx context.Context, to Producer, epoch int64) (published int, ours bool, err error) {
	tenants, err := c.Store.Unpublished(ctx, c.Name)
	if err != nil {
		return 0, true, err
	}
	if len(c.Tenants) > 0 {
		tenants = slices.DeleteFunc(tenants, func(t trail.Unpublished) bool {
			return !slices.Contains(c.Tenants,
				t.TenantID)
		})
	}
	var lag time.Duration
	for _, t := range tenants {
		lag = max(lag, c.Now().Sub(t.Since))
	}
	c.Observer.Lag(lag)
	for _, t := range tenants {
		if t.Held {
			continue
		}
		n, ours, err := c.carry(ctx, to, epoch, t)
		if err != nil || !ours {
			return published, ours, err
		}
		published += n
	}
	return published, true, nil
}

// carry sends one batch of a tenant's events and moves its cursor.
func (c *Config) carry(
	ctx context.Context,
	to Producer,
	epoch int64,
	t trail.Unpublished,
) (n int, ours bool, err error) {
	events, end, err := c.Trail.Feed(ctx, t.TenantID, t.After, trail.EventFilter{}, c.Batch)
	if err != nil || end == t.After {
		return 0, true, err
	}
	messages := make([]Message, len(events))
	for i := range events {
		if messages[i], err = messageOf(&events[i]); err != nil {
			return 0, true, err
		}
	}
	if len(messages) > 0 {
		send, cancel := context.WithTimeout(ctx, c.Timeout)
		err = to.Send(send, messages)
		cancel()
		if err != nil {
			return 0, true, err
		}
	}
	ours, err = c.Store.Advance(ctx, c.Name, epoch, t.TenantID, end)
	if err != nil || !ours {
		return 0, ours, err
	}
	c.Observer.Published(len(messages))
	return len(messages), true, nil
}

// messageOf encodes an audit event.
func messageOf(e *trail.StoredEvent) (Message, error) {
	doc, err := cloudevent.Of(e)
	if err != nil {
		return Message{}, err
	}
	m, err := encode(&doc, doc.Subject, e.TenantID, string(e.Type))
	m.At = e.At
	if e.WorkflowName != "" {
		m.Headers = append(m.Headers, Header{"workflow_name", e.WorkflowName})
	}
	if e.CorrelationID != nil {
		m.Headers = append(m.Headers, Header{"correlation_id", *e.CorrelationID})
	}
	if e.StepIndex != saga.NoStep {
		m.Headers = append(m.Headers, Header{"step_index", strconv.Itoa(e.StepIndex)})
	}
	for _, h := range []Header{
		{"traceparent", doc.TraceParent}, {"tracestate", doc.TraceState}, {"baggage", doc.Baggage},
	} {
		if h.Value != "" {
			m.Headers = append(m.Headers, h)
		}
	}
	return m, err
}

// encode encodes a CloudEvent in structured mode. Its attributes are also sent as headers, so that
// consumers can filter without parsing.
func encode(doc *cloudevent.Event, key string, tenant uuid.UUID, eventType string) (Message, error) {
	value, err := json.Marshal(doc)
	return Message{
		Key: []byte(key), Value: value,
		Headers: []Header{
			{"content-type", cloudevent.MediaType},
			{"ce_specversion", doc.SpecVersion}, {"ce_id", doc.ID}, {"ce_source", doc.Source}, {"ce_type", doc.Type},
			{"ce_subject", doc.Subject}, {"ce_time", doc.Time.Format(time.RFC3339Nano)},
			{"tenant_id", tenant.String()}, {"event_type", eventType},
		},
	}, err
}
