package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// PublishJobEvent stores an event, unless its dedupe key is known.
func (s *jobHandlers) PublishJobEvent(ctx context.Context, in api.PublishJobEventRequestObject) (api.Response, error) {
	ctx, cancel := s.promised(ctx)
	defer cancel()
	b := in.Body
	e := jobrun.NewEvent{
		ID: s.NewID(), Type: b.EventType, Payload: b.Payload, DedupeKey: text(b.DedupeKey), CorrelationID: text(b.CorrelationID),
		By: requestOf(ctx).principal,
	}
	if strings.HasSuffix(e.Type, "*") {
		return nil, schemaFault(fault.Field{Pointer: "/event_type", Code: "pattern", Message: "must not end with *: that is for the selectors of definitions"})
	}
	if b.OccurredAt != nil {
		at := b.OccurredAt.UTC().Truncate(time.Microsecond)
		if at.Year() < 1970 || at.Year() > 9999 {
			return nil, schemaFault(fault.Field{Pointer: "/occurred_at", Code: "invalid", Message: "must be in the years 1970 to 9999"})
		}
		e.OccurredAt = &at
	}
	stored, created, err := s.Events.Publish(ctx, requestOf(ctx).tenant.ID, e)
	if err != nil {
		return nil, err
	}
	out := toAPIJobEvent(&stored)
	a := answer{status: http.StatusOK, replayed: !created}
	if created {
		a.status, a.location = http.StatusAccepted, "/api/v1/events/"+stored.ID.String()
	} else {
		out.Duplicate, out.PayloadDiffers = new(true), onlyTrue(!samePayload(stored.Payload, e.Payload))
	}
	a.body = out
	return a, nil
}

// samePayload tells whether two documents say the same: PostgreSQL stores a number in
// another form than it was sent in, and members in another order. Absent is as null.
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

// GetJobEvent answers an event and what it has led to.
func (s *jobHandlers) GetJobEvent(ctx context.Context, in api.GetJobEventRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	e, err := s.Events.Event(ctx, requestOf(ctx).tenant.ID, in.EventID)
	if err != nil {
		return nil, err
	}
	return answer{status: http.StatusOK, body: toAPIJobEvent(&e)}, nil
}

// jobEventFilters are the query parameters that decide which events a list holds.
var jobEventFilters = []string{"event_type", "processed", "correlation_id", "created_from", "created_to"}

// ListJobEvents answers a page of events, newest first.
func (s *jobHandlers) ListJobEvents(ctx context.Context, in api.ListJobEventsRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	req, p := requestOf(ctx), in.Params
	paging, jp, err := s.jobPaging(req.list(jobEventFilters...), p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	f := jobrun.EventFilter{Type: text(p.EventType), Processed: p.Processed, CorrelationID: text(p.CorrelationID)}
	if f.From, err = timeOf("created_from", p.CreatedFrom); err != nil {
		return nil, err
	}
	if f.To, err = timeOf("created_to", p.CreatedTo); err != nil {
		return nil, err
	}
	events, page, err := s.Events.ListEvents(ctx, req.tenant.ID, f, jp)
	if err != nil {
		return nil, err
	}
	out := api.JobEventRecordList{Events: make([]api.JobEventRecord, len(events))}
	for i := range events {
		out.Events[i] = toAPIJobEvent(&events[i])
	}
	paging.capped = page.TotalCapped
	out.Pagination = paging.answer(page.More, page.Total, func() []byte {
		last := &events[len(events)-1]
		return timeAndIDKeys(last.CreatedAt, last.ID)
	})
	return answer{status: http.StatusOK, body: out}, nil
}

func toAPIJobEvent(e *jobrun.PublishedEvent) api.JobEventRecord {
	out := api.JobEventRecord{
		EventID: e.ID, EventType: e.Type, Payload: e.Payload, DedupeKey: unlessEmpty(e.DedupeKey), CorrelationID: unlessEmpty(e.CorrelationID),
		OccurredAt: *e.OccurredAt, CreatedAt: e.CreatedAt, ProcessedAt: e.ProcessedAt, SourceRunID: unlessNil(e.SourceRunID),
	}
	for i := range e.Deliveries {
		d := &e.Deliveries[i]
		out.Deliveries = append(out.Deliveries, api.JobEventDelivery{
			DefinitionID: d.DefinitionID, RunID: unlessNil(d.RunID), Attempts: d.Attempts, Error: unlessEmpty(d.Error),
			DeliveredAt: d.DeliveredAt, NextTryAt: d.NextTryAt, MessageID: unlessNil(d.LetterID),
		})
	}
	return out
}
