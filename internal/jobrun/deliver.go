package jobrun

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/strictjson"
)

// DeliveryRetry is the retry policy for delivering an event to a definition that rejects it (S16).
// When the retries are exhausted, the event becomes a dead letter.
var DeliveryRetry = retry.Policy{
	MaxAttempts:       5,
	InitialIntervalMS: 1000,
	MaxIntervalMS:     60_000,
	Multiplier:        4,
	Jitter:            new(0.2),
	RetryOn:           retry.Classes,
}

// Matches reports whether an event matches the trigger: its type and each value in Match must
// match. A path leads through objects, and through arrays by index. A path that does not exist has
// no value, not even null.
func (t *EventTrigger) Matches(e *NewEvent) bool {
	if !typeMatches(t.EventType, e.Type) {
		return false
	}
	if len(t.Match) == 0 {
		return true
	}
	payload, ok := decoded(e.Payload)
	if !ok {
		return false
	}
	for path, want := range t.Match {
		value, there := strictjson.At(payload, strings.Split(path, "."))
		if !there || !same(value, want) {
			return false
		}
	}
	return true
}

// Matches reports whether an event matches a definition that is enabled and not paused at now.
func (e *PublishedEvent) Matches(d *Definition, now time.Time) bool {
	return d.Enabled && d.DeletedAt == nil && d.Spec.Event != nil && !d.Paused(now) && d.Spec.Event.Matches(&e.NewEvent)
}

func decoded(doc []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	return v, d.Decode(&v) == nil
}

// same reports whether a value equals the JSON scalar want. Numbers are compared by value.
func same(v any, want json.RawMessage) bool {
	w, ok := decoded(want)
	if !ok {
		return false
	}
	a, isNumber := v.(json.Number)
	b, wantsNumber := w.(json.Number)
	if isNumber && wantsNumber {
		x, errX := a.Float64()
		y, errY := b.Float64()
		return a == b || errX == nil && errY == nil && x == y
	}
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return v == w
}

// ArgsOf returns the arguments that a run gets from an event.
func (t *EventTrigger) ArgsOf(e *PublishedEvent) (json.RawMessage, error) {
	payload := e.Payload
	if payload == nil {
		payload = json.RawMessage("null")
	}
	if t.Args == "payload" {
		return payload, nil
	}
	return json.Marshal(struct {
		ID            uuid.UUID       `json:"event_id"`
		Type          string          `json:"event_type"`
		Payload       json.RawMessage `json:"payload"`
		OccurredAt    *time.Time      `json:"occurred_at"`
		PublishedAt   time.Time       `json:"published_at"`
		CorrelationID string          `json:"correlation_id,omitempty"`
	}{e.ID, e.Type, payload, e.OccurredAt, e.CreatedAt, e.CorrelationID})
}

// EventRequest returns the request for the run of a definition that an event triggers. Repeated
// deliveries of the event produce only one run.
func EventRequest(e *PublishedEvent, d *Definition, args json.RawMessage) Request {
	return Request{
		Trigger:       ByEvent,
		Key:           EventKey(e.ID, d.ID),
		Args:          args,
		EventID:       e.ID,
		CorrelationID: cmp.Or(e.CorrelationID, e.ID.String()),
		By:            e.By,
	}
}

// Undelivered returns the dead letter of an event that a definition rejects. A retry of the letter
// is a run with args.
func Undelivered(e *PublishedEvent, d *Definition, args json.RawMessage, why string, m Moment) dlq.Letter {
	l := dlq.Letter{
		TenantID: d.TenantID, Source: dlq.FromJob, OriginalTopic: letterTopic(d.Name),
		Failure: dlq.Failure{
			Message: dlq.Storable(fmt.Sprintf("event %s (%s) was rejected: %s", e.ID, e.Type, why), dlq.MaxError),
			Type:    "EVENT_NOT_DELIVERED",
			Class:   dlq.Permanent,
		},
		Content: dlq.Content{Payload: args}, CorrelationID: cmp.Or(e.CorrelationID, e.ID.String()),
		MaxRetries: dlq.DefaultPolicy.MaxRetries, Target: dlq.Target{Kind: dlq.ToJobRun, Job: d.ID.String()},
	}
	return dlq.New(l, m.NewID(), &dlq.DefaultPolicy, dlq.Moment{Now: m.Now, Jitter: m.Jitter})
}
