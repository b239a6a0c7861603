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
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
	"github.com/skald-saga/skald/internal/jobrun"
)

// PublishJobEvent stores an event, unless its dedupe key is in use.
func (s *Handlers) PublishJobEvent(ctx context.Context, in api.PublishJobEventRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	b := in.Body
	e := jobrun.NewEvent{
		ID: s.NewID(), Type: b.EventType, Payload: b.Payload, DedupeKey: httpkit.Text(b.DedupeKey),
		CorrelationID: httpkit.Text(b.CorrelationID),
		By:            httpkit.RequestOf(ctx).Principal,
	}
	if strings.HasSuffix(e.Type, "*") {
		return nil, httpkit.SchemaFault(fault.Field{Pointer: "/event_type", Code: "pattern", Message: "must not end with *, which is allowed only in the event selectors of definitions"})
	}
	if b.OccurredAt != nil {
		at := b.OccurredAt.UTC().Truncate(time.Microsecond)
		if at.Year() < 1970 || at.Year() > 9999 {
			return nil, httpkit.SchemaFault(fault.Field{Pointer: "/occurred_at", Code: "invalid", Message: "must be in the years 1970 to 9999"})
		}
		e.OccurredAt = &at
	}
	if httpkit.DryRun(ctx) {
		return s.wouldPublish(ctx, &e)
	}
	stored, created, err := s.Events.Publish(ctx, httpkit.RequestOf(ctx).Tenant.ID, e)
	if err != nil {
		return nil, err
	}
	if !created {
		return httpkit.Answer{Status: http.StatusOK, Replayed: true, Body: publishedBefore(&stored, &e)}, nil
	}
	return httpkit.Answer{
		Status: http.StatusAccepted, Body: toAPIJobEvent(&stored), Location: "/api/v1/events/" + stored.ID.String(),
	}, nil
}

// publishedBefore responds with the event that has the dedupe key of e.
func publishedBefore(stored *jobrun.PublishedEvent, e *jobrun.NewEvent) api.JobEventRecord {
	out := toAPIJobEvent(stored)
	out.Duplicate, out.PayloadDiffers = new(true), httpkit.UnlessFalse(!samePayload(stored.Payload, e.Payload))
	return out
}

// wouldPublish responds to a dry run with the event as it would be stored and the runs that it
// would start.
func (s *Handlers) wouldPublish(ctx context.Context, e *jobrun.NewEvent) (api.Response, error) {
	now := s.Now()
	stored, listeners, err := s.Events.WouldPublish(ctx, httpkit.RequestOf(ctx).Tenant.ID, *e)
	if err != nil {
		return nil, err
	}
	if stored != nil {
		out := publishedBefore(stored, e)
		out.Changes = httpkit.Planned(dryrun.List{})
		return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
	}
	after := jobrun.PublishedEvent{NewEvent: *e, TenantID: httpkit.RequestOf(ctx).Tenant.ID, CreatedAt: now}
	if after.OccurredAt == nil {
		after.OccurredAt = &now
	}
	runs := dryrun.Many{Of: string(api.PlannedChangeOfJobRun)}
	for i := range listeners {
		if after.Matches(&listeners[i], now) {
			runs.Add(dryrun.List{{Member: "new_run", To: string(jobrun.Pending)}}, 1)
		}
	}
	out := toAPIJobEvent(&after)
	from, to := out, out
	from.EventType, from.DedupeKey, from.CorrelationID, from.Payload, to.Payload = "", nil, nil, nil, nil
	out.Changes, err = httpkit.Differences(from, to)
	if err == nil {
		*out.Changes = append(*out.Changes, httpkit.PlannedChanges(runs.List())...)
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, err
}

// samePayload reports whether two documents are equal as JSON. PostgreSQL reformats numbers and
// reorders members. An absent payload equals null.
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

// GetJobEvent returns an event and its deliveries.
func (s *Handlers) GetJobEvent(ctx context.Context, in api.GetJobEventRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	e, err := s.Events.Event(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.EventID)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: toAPIJobEvent(&e)}, nil
}

// ListJobEvents returns a page of events, newest first.
func (s *Handlers) ListJobEvents(ctx context.Context, in api.ListJobEventsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := httpkit.RequestOf(ctx), in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByTime, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	f := jobrun.EventFilter{Type: httpkit.Text(p.EventType), Processed: p.Processed,
		CorrelationID: httpkit.Text(p.CorrelationID)}
	if f.From, err = httpkit.TimeOf("created_from", p.CreatedFrom); err != nil {
		return nil, err
	}
	if f.To, err = httpkit.TimeOf("created_to", p.CreatedTo); err != nil {
		return nil, err
	}
	if wrong := httpkit.InOrder("created_from", "created_to", f.From, f.To); wrong != nil {
		return nil, wrong
	}
	found, err := s.Events.ListEvents(ctx, req.Tenant.ID, f, asked.Request)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.JobEventRecordList{
		Events:     httpkit.Each(found.Items, toAPIJobEvent),
		Pagination: httpkit.Pagination(asked, found, (*jobrun.PublishedEvent).Place),
	}}, nil
}

func toAPIJobEvent(e *jobrun.PublishedEvent) api.JobEventRecord {
	out := api.JobEventRecord{
		EventID: e.ID, EventType: e.Type, Payload: e.Payload, DedupeKey: httpkit.UnlessEmpty(e.DedupeKey),
		CorrelationID: httpkit.UnlessEmpty(e.CorrelationID),
		OccurredAt:    *e.OccurredAt, CreatedAt: e.CreatedAt, ProcessedAt: e.ProcessedAt,
		SourceRunID: httpkit.UnlessNil(e.SourceRunID),
	}
	if r := e.Record; r != nil {
		out.Record = &api.JobEventSource{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
	}
	if p := e.Publication; p != nil {
		out.Publication = &api.JobEventPublication{Topic: p.Topic, Error: httpkit.UnlessEmpty(p.Error),
			MessageID: httpkit.UnlessNil(p.LetterID)}
		if p.LetterID == uuid.Nil {
			out.Publication.PublishedAt = p.EndedAt
		}
	}
	for i := range e.Deliveries {
		d := &e.Deliveries[i]
		out.Deliveries = append(out.Deliveries, api.JobEventDelivery{
			DefinitionID: d.DefinitionID, RunID: httpkit.UnlessNil(d.RunID), Attempts: d.Attempts,
			Error:       httpkit.UnlessEmpty(d.Error),
			DeliveredAt: d.DeliveredAt, NextTryAt: d.NextTryAt, MessageID: httpkit.UnlessNil(d.LetterID),
		})
	}
	return out
}
