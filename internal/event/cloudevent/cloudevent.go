// Package cloudevent encodes events as CloudEvents 1.0 documents in JSON, the single form in which
// webhooks and Kafka topics carry them. The events are audit events of sagas and events that job
// runs emit. The package is pure.
package cloudevent

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/saga"
)

// MediaType is the content type of a document (structured mode).
const MediaType = "application/cloudevents+json; charset=utf-8"

// TypePrefix precedes the event's type. CloudEvents recommends a name that begins with a reversed
// domain, so that types of several producers do not collide.
const TypePrefix = "io.skald."

// PingType is the type of the event that tests a webhook.
const PingType = "webhook.ping"

// Event is one document. Source and ID together identify the event permanently.
type Event struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject,omitempty"` // the id of the saga or the job run, or the participant
	Time        time.Time       `json:"time"`
	ContentType string          `json:"datacontenttype"`
	TraceParent string          `json:"traceparent,omitempty"` // the extension for distributed tracing
	TraceState  string          `json:"tracestate,omitempty"`
	Baggage     string          `json:"baggage,omitempty"`
	Correlation string          `json:"correlationid,omitempty"`
	Data        json.RawMessage `json:"data"`
}

// Data is an event in the form of the API's audit events. It omits a participant's response (the
// error's details), which is payload and may be large. A receiver with the permission can read it
// from the API.
type Data struct {
	ID            string          `json:"id"`
	SagaID        uuid.UUID       `json:"saga_id"`
	EventType     eventtype.Type  `json:"event_type"`
	Timestamp     time.Time       `json:"timestamp"`
	OldState      string          `json:"old_state,omitempty"`
	NewState      string          `json:"new_state,omitempty"`
	Status        saga.Status     `json:"status,omitempty"`
	StepID        string          `json:"step_id,omitempty"`
	StepIndex     *int            `json:"step_index,omitempty"`
	StepName      string          `json:"step_name,omitempty"`
	Attempt       int             `json:"attempt,omitempty"`
	EventData     json.RawMessage `json:"event_data,omitempty"`
	Error         *saga.Error     `json:"error,omitempty"`
	Actor         string          `json:"actor,omitempty"`
	ActorName     string          `json:"actor_name,omitempty"`
	RequestID     string          `json:"request_id,omitempty"`
	TraceID       *string         `json:"trace_id,omitempty"`
	SpanID        *string         `json:"span_id,omitempty"`
	WorkflowName  string          `json:"workflow_name,omitempty"`
	CorrelationID *string         `json:"correlation_id,omitempty"`
	BusinessKey   *string         `json:"business_key,omitempty"`
}

// Source identifies the origin of a tenant's events.
func Source(tenant uuid.UUID) string { return "/skald/tenants/" + tenant.String() }

// Of returns the document of a stored event. It fails only for an event that
// could not have been stored.
func Of(e *trail.StoredEvent) (Event, error) {
	id := strconv.FormatInt(e.ID, 10)
	name, data := e.Named()
	d := Data{
		ID:            id,
		EventType:     e.Type,
		SagaID:        e.SagaID,
		WorkflowName:  e.WorkflowName,
		CorrelationID: e.CorrelationID,
		BusinessKey:   e.BusinessKey,
		StepName:      e.StepName, Attempt: e.Attempt, Timestamp: e.At, EventData: data, Error: withoutDetails(e.Error),
		Actor: e.Actor, ActorName: name, RequestID: e.RequestID, TraceID: e.TraceID, SpanID: e.SpanID,
	}
	if e.StepIndex != saga.NoStep {
		d.StepIndex, d.StepID = &e.StepIndex, e.SagaID.String()+":"+strconv.Itoa(e.StepIndex)
	}
	if e.Old != saga.NoState {
		d.OldState = e.Old.String()
	}
	if e.New != saga.NoState {
		d.NewState, d.Status = e.New.String(), e.New.Status()
	}
	body, err := json.Marshal(d)
	return Event{
		SpecVersion: "1.0", ID: id, Source: Source(e.TenantID), Type: TypePrefix + string(e.Type), Subject: subjectOf(e),
		Time: e.At, ContentType: "application/json", TraceParent: TraceParent(e.TraceID, e.SpanID),
		TraceState: text(e.TraceState), Baggage: text(e.Baggage), Data: body,
	}, err
}

// subjectOf returns the subject of an event: its saga or, if it belongs to no saga, the
// participant.
func subjectOf(e *trail.StoredEvent) string {
	if name := e.Participant(); name != "" {
		return "participants/" + name
	}
	return e.SagaID.String()
}

// Emitted returns the document of an event that a job run has emitted. The run chooses its
// type.
func Emitted(e *jobrun.PublishedEvent) Event {
	out := Event{
		SpecVersion: "1.0", ID: e.ID.String(), Source: Source(e.TenantID), Type: e.Type, Subject: e.SourceRunID.String(),
		Time: e.CreatedAt, ContentType: "application/json", Correlation: e.CorrelationID, Data: e.Payload,
	}
	if e.OccurredAt != nil {
		out.Time = *e.OccurredAt
	}
	return out
}

func withoutDetails(e *saga.Error) *saga.Error {
	if e == nil {
		return nil
	}
	short := *e
	short.Details, short.StackTrace, short.Cause = nil, "", withoutDetails(e.Cause)
	return &short
}

// Ping returns the document that tests a webhook.
func Ping(tenant, webhookID, id uuid.UUID, at time.Time) (Event, error) {
	data, err := json.Marshal(map[string]string{"webhook_id": webhookID.String()})
	return Event{
		SpecVersion: "1.0", ID: id.String(), Source: Source(tenant), Type: TypePrefix + PingType,
		Time: at, ContentType: "application/json", Data: data,
	}, err
}

// TraceParent returns the header of W3C Trace Context for a saga's stored trace. It returns "" if
// that is not a valid trace, because the ids may have come from elsewhere.
func TraceParent(trace, span *string) string {
	if trace == nil || span == nil || !isHex(*trace, 32) || !isHex(*span, 16) {
		return ""
	}
	return "00-" + *trace + "-" + *span + "-01"
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// isHex reports whether s is n lower-case hexadecimal digits and not all zeros.
func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == "" && strings.Trim(s, "0") != ""
}
