package jobapi

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/rest"
)

// PublishJobEvent stores an event, unless its dedupe key is known.
func (s *Handlers) PublishJobEvent(ctx context.Context, in api.PublishJobEventRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	b := in.Body
	e := jobrun.NewEvent{
		ID: s.NewID(), Type: b.EventType, Payload: b.Payload, DedupeKey: rest.Text(b.DedupeKey),
		CorrelationID: rest.Text(b.CorrelationID),
		By:            rest.RequestOf(ctx).Principal,
	}
	if strings.HasSuffix(e.Type, "*") {
		return nil, rest.SchemaFault(fault.Field{Pointer: "/event_type", Code: "pattern", Message: "must not end with *: that is for the selectors of definitions"})
	}
	if b.OccurredAt != nil {
		at := b.OccurredAt.UTC().Truncate(time.Microsecond)
		if at.Year() < 1970 || at.Year() > 9999 {
			return nil, rest.SchemaFault(fault.Field{Pointer: "/occurred_at", Code: "invalid", Message: "must be in the years 1970 to 9999"})
		}
		e.OccurredAt = &at
	}
	stored, created, err := s.Events.Publish(ctx, rest.RequestOf(ctx).Tenant.ID, e)
	if err != nil {
		return nil, err
	}
	out := toAPIJobEvent(&stored)
	a := rest.Answer{Status: http.StatusOK, Replayed: !created}
	if created {
		a.Status, a.Location = http.StatusAccepted, "/api/v1/events/"+stored.ID.String()
	} else {
		out.Duplicate, out.PayloadDiffers = new(true), rest.UnlessFalse(!samePayload(stored.Payload, e.Payload))
	}
	a.Body = out
	return a, nil
}

// samePayload tells whether two documents are equal as JSON: PostgreSQL stores numbers
// in another format than they were sent in, and members in another order. An absent
// payload equals null.
func samePayload(a, b json.RawMessage) bool {
	decode := func(doc json.RawMessage) (v any, ok bool) {
		if doc == nil {
			return nil, true
		}
		dec := json.NewDecoder(bytes.NewReader(doc))
		dec.UseNumber()
		return v, dec.Decode(&v) == nil
	}
	x, okX := decode(a)
	y, okY := decode(b)
	return okX && okY && sameValue(x, y)
}

func sameValue(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		if !ok || a == b {
			return ok
		}
		x, errX := a.Float64()
		y, errY := b.Float64()
		return strings.ContainsAny(string(a+b), ".eE") && errX == nil && errY == nil && x == y
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameValue)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, sameValue)
	}
	return a == b
}

// GetJobEvent returns an event and what it has led to.
func (s *Handlers) GetJobEvent(ctx context.Context, in api.GetJobEventRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	e, err := s.Events.Event(ctx, rest.RequestOf(ctx).Tenant.ID, in.EventID)
	if err != nil {
		return nil, err
	}
	return rest.Answer{Status: http.StatusOK, Body: toAPIJobEvent(&e)}, nil
}

// ListJobEvents returns a page of events, newest first.
func (s *Handlers) ListJobEvents(ctx context.Context, in api.ListJobEventsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := rest.RequestOf(ctx), in.Params
	asked, err := rest.PageOf(ctx, s.Cursors, rest.ByTime, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	f := jobrun.EventFilter{Type: rest.Text(p.EventType), Processed: p.Processed,
		CorrelationID: rest.Text(p.CorrelationID)}
	if f.From, err = rest.TimeOf("created_from", p.CreatedFrom); err != nil {
		return nil, err
	}
	if f.To, err = rest.TimeOf("created_to", p.CreatedTo); err != nil {
		return nil, err
	}
	found, err := s.Events.ListEvents(ctx, req.Tenant.ID, f, asked.Request)
	if err != nil {
		return nil, err
	}
	return rest.Answer{Status: http.StatusOK, Body: api.JobEventRecordList{
		Events:     rest.Each(found.Items, toAPIJobEvent),
		Pagination: rest.Pagination(asked, found, (*jobrun.PublishedEvent).Place),
	}}, nil
}

func toAPIJobEvent(e *jobrun.PublishedEvent) api.JobEventRecord {
	out := api.JobEventRecord{
		EventID: e.ID, EventType: e.Type, Payload: e.Payload, DedupeKey: rest.UnlessEmpty(e.DedupeKey),
		CorrelationID: rest.UnlessEmpty(e.CorrelationID),
		OccurredAt:    *e.OccurredAt, CreatedAt: e.CreatedAt, ProcessedAt: e.ProcessedAt,
		SourceRunID: rest.UnlessNil(e.SourceRunID),
	}
	if r := e.Record; r != nil {
		out.Record = &api.JobEventSource{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
	}
	if p := e.Publication; p != nil {
		out.Publication = &api.JobEventPublication{Topic: p.Topic, Error: rest.UnlessEmpty(p.Error),
			MessageID: rest.UnlessNil(p.LetterID)}
		if p.LetterID == uuid.Nil {
			out.Publication.PublishedAt = p.EndedAt
		}
	}
	for i := range e.Deliveries {
		d := &e.Deliveries[i]
		out.Deliveries = append(out.Deliveries, api.JobEventDelivery{
			DefinitionID: d.DefinitionID, RunID: rest.UnlessNil(d.RunID), Attempts: d.Attempts, Error: rest.UnlessEmpty(d.Error),
			DeliveredAt: d.DeliveredAt, NextTryAt: d.NextTryAt, MessageID: rest.UnlessNil(d.LetterID),
		})
	}
	return out
}
