package cloudevent_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/event/cloudevent"
	"github.com/skald-saga/skald/internal/saga"
)

var (
	tenant = uuid.MustParse("00000000-0000-0000-0000-000000000001")
	id     = uuid.MustParse("019ab2c0-5a3e-7c31-9d5e-2f1b7a4c8d90")
	at     = time.Date(2026, 11, 21, 12, 0, 0, 123456000, time.UTC)
)

func TestAnEventIsTheDocumentedOne(t *testing.T) {
	cause := &saga.Error{
		Code:      "timeout",
		Message:   "no answer",
		Type:      "timeout",
		Retryable: true,
		Timestamp: at,
		Details:   json.RawMessage(`{"card":"4111"}`),
	}
	e := trail.StoredEvent{
		AuditEvent: saga.AuditEvent{
			TenantID: tenant, SagaID: id, Type: eventtype.StepFailed, StepIndex: 0, StepName: "reserve", Attempt: 3, At: at,
			Data: json.RawMessage(`{"action":"EXECUTE"}`), Old: saga.Running, New: saga.Compensating,
			Error: &saga.Error{
				Code:       "http_409",
				Message:    "refused",
				Type:       "refused",
				Timestamp:  at,
				Details:    json.RawMessage(`{"card":"4111"}`),
				StackTrace: "at 4111",
				Cause:      cause,
			},
			Actor: "alice", RequestID: "req-1", TraceID: new(strings.Repeat("a", 32)), SpanID: new(strings.Repeat("b", 16)),
		},
		Position: trail.Position{TxID: 9, ID: 42}, WorkflowName: "order", CorrelationID: new("c-1"), BusinessKey: new("b-1"),
		TraceState: new("congo=t61rcWkgMzE"), Baggage: new("userId=7"),
	}
	doc, err := cloudevent.Of(&e)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "specversion": "1.0",
  "id": "42",
  "source": "/skald/tenants/00000000-0000-0000-0000-000000000001",
  "type": "io.skald.saga.step.failed",
  "subject": "019ab2c0-5a3e-7c31-9d5e-2f1b7a4c8d90",
  "time": "2026-11-21T12:00:00.123456Z",
  "datacontenttype": "application/json",
  "traceparent": "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01",
  "tracestate": "congo=t61rcWkgMzE",
  "baggage": "userId=7",
  "data": {
    "id": "42",
    "saga_id": "019ab2c0-5a3e-7c31-9d5e-2f1b7a4c8d90",
    "event_type": "saga.step.failed",
    "timestamp": "2026-11-21T12:00:00.123456Z",
    "old_state": "running",
    "new_state": "compensating",
    "status": "COMPENSATING",
    "step_id": "019ab2c0-5a3e-7c31-9d5e-2f1b7a4c8d90:0",
    "step_index": 0,
    "step_name": "reserve",
    "attempt": 3,
    "event_data": {
      "action": "EXECUTE"
    },
    "error": {
      "code": "http_409",
      "message": "refused",
      "type": "refused",
      "retryable": false,
      "timestamp": "2026-11-21T12:00:00.123456Z",
      "cause": {
        "code": "timeout",
        "message": "no answer",
        "type": "timeout",
        "retryable": true,
        "timestamp": "2026-11-21T12:00:00.123456Z"
      }
    },
    "actor": "alice",
    "request_id": "req-1",
    "trace_id": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "span_id": "bbbbbbbbbbbbbbbb",
    "workflow_name": "order",
    "correlation_id": "c-1",
    "business_key": "b-1"
  }
}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if e.Error.Details == nil || e.Error.Cause.Details == nil {
		t.Error("the event itself lost its details")
	}
}

func TestAbsentFieldsOfAnEventAreLeftOut(t *testing.T) {
	e := trail.StoredEvent{
		AuditEvent: saga.AuditEvent{
			TenantID:  tenant,
			SagaID:    id,
			Type:      eventtype.CancelAsked,
			StepIndex: saga.NoStep,
			At:        at,
			Old:       saga.NoState,
			New:       saga.NoState,
		},
		Position: trail.Position{ID: 7},
	}
	doc, err := cloudevent.Of(&e)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"7","saga_id":"019ab2c0-5a3e-7c31-9d5e-2f1b7a4c8d90","event_type":"saga.cancel_requested","timestamp":"2026-11-21T12:00:00.123456Z"}`
	if string(doc.Data) != want || doc.TraceParent != "" {
		t.Errorf("data %s, traceparent %q", doc.Data, doc.TraceParent)
	}
}

func TestOnlyAValidTraceIsPassedOn(t *testing.T) {
	a, b := strings.Repeat("a", 32), strings.Repeat("b", 16)
	for _, tt := range []struct{ trace, span, want string }{
		{a, b, "00-" + a + "-" + b + "-01"},
		{"", b, ""}, {a, "", ""}, {strings.ToUpper(a), b, ""}, {strings.Repeat("0", 32), b, ""}, {a, strings.Repeat("0", 16), ""}, {a + "\r\n", b, ""},
	} {
		if got := cloudevent.TraceParent(&tt.trace, &tt.span); got != tt.want {
			t.Errorf("%q %q: %q, want %q", tt.trace, tt.span, got, tt.want)
		}
	}
	if got := cloudevent.TraceParent(nil, &b); got != "" {
		t.Errorf("without a trace: %q", got)
	}
}
