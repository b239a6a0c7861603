package openapi

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/event/cloudevent"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga"
)

func contract(t *testing.T) (object, *openapi3.T) {
	t.Helper()
	text, err := Contract()
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string]any
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	return withoutHints(raw).(object), doc
}

func TestTheContractForClientsIsOpenAPI31(t *testing.T) {
	raw, doc := contract(t)
	if raw["openapi"] != "3.1.0" {
		t.Errorf("openapi = %v", raw["openapi"])
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	var visit func(path string, v any)
	visit = func(path string, v any) {
		switch v := v.(type) {
		case object:
			if _, old := v["nullable"]; old {
				t.Errorf("%s says nullable, which 3.1 does not know", path)
			}
			if _, old := v["exclusiveMinimum"].(bool); old {
				t.Errorf("%s has an exclusiveMinimum of OpenAPI 3.0", path)
			}
			for name, member := range v {
				visit(path+"/"+name, member)
			}
		case []any:
			for _, item := range v {
				visit(path, item)
			}
		}
	}
	visit("", raw)
}

// TestAnswersAreOpenToNewMembers and requests are not: what only they use stays closed.
func TestAnswersAreOpenToNewMembers(t *testing.T) {
	raw, _ := contract(t)
	seen := map[string]bool{}
	closed := 0
	var visit func(at string, v any, want func(path string))
	visit = func(at string, v any, found func(path string)) {
		switch v := v.(type) {
		case object:
			if v["additionalProperties"] == false {
				found(at)
			}
			if ref, ok := v["$ref"].(string); ok && !seen[ref] {
				seen[ref] = true
				visit(ref, resolved(raw, v), found)
			}
			for name, member := range v {
				visit(at+"/"+name, member, found)
			}
		case []any:
			for _, item := range v {
				visit(at, item, found)
			}
		}
	}
	for at := range operations(raw) {
		visit(at.op.text("operationId"), at.op["responses"], func(path string) {
			t.Errorf("%s is part of an answer, and closed to new members", path)
		})
	}
	visit("webhooks", raw["webhooks"], func(path string) { t.Errorf("%s is closed to new members", path) })
	clear(seen)
	for at := range operations(raw) {
		visit(at.op.text("operationId"), at.op["requestBody"], func(string) { closed++ })
	}
	if closed < 50 {
		t.Errorf("only %d objects of requests are closed", closed)
	}
}

func TestDeliveriesAreWhatTheContractDescribes(t *testing.T) {
	raw, doc := contract(t)
	media := raw.object("webhooks").object("auditEvent").object("post").object("requestBody").object("content").
		object("application/cloudevents+json")
	text, err := json.Marshal(media["schema"])
	if err != nil {
		t.Fatal(err)
	}
	var ref openapi3.SchemaRef
	if err := json.Unmarshal(text, &ref); err != nil {
		t.Fatal(err)
	}
	data := ref.Value.Properties["data"].Value
	for _, p := range data.Properties {
		if p.Ref != "" {
			p.Value = doc.Components.Schemas[p.Ref[len("#/components/schemas/"):]].Value
		}
	}
	no := false // the document for clients is open; what we send is compared with all that it lists
	ref.Value.AdditionalProperties.Has, data.AdditionalProperties.Has = &no, &no
	at := time.Date(2026, 11, 21, 12, 0, 0, 123456000, time.UTC)
	id, word, trace, span := uuid.Must(uuid.NewV7()), "word", strings.Repeat("a", 32), strings.Repeat("b", 16)
	full, err := cloudevent.Of(&trail.StoredEvent{
		AuditEvent: saga.AuditEvent{
			TenantID: id, SagaID: id, Type: eventtype.StepFailed, At: at, StepIndex: 1, StepName: "pay", Attempt: 2,
			Old: saga.Running, New: saga.Compensating, Data: json.RawMessage(`{"action":"EXECUTE"}`),
			Error: &saga.Error{Code: "http_409", Message: "no money", Type: "refused", Timestamp: at}, Actor: "ann",
			RequestID: "r1", TraceID: &trace, SpanID: &span,
		},
		Position: trail.Position{TxID: 9, ID: 42}, WorkflowName: "order", CorrelationID: &word, BusinessKey: &word,
		TraceState: &word, Baggage: &word,
	})
	if err != nil {
		t.Fatal(err)
	}
	ping, err := cloudevent.Ping(id, id, id, at)
	if err != nil {
		t.Fatal(err)
	}
	example, _ := json.Marshal(media["example"])
	var shown cloudevent.Event
	if err := json.Unmarshal(example, &shown); err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]cloudevent.Event{"an event": full, "a test": ping, "the example": shown} {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			t.Fatal(err)
		}
		if err := ref.Value.VisitJSON(value); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

func TestProblemsAreListedAtTheirOperations(t *testing.T) {
	raw, _ := contract(t)
	for at := range operations(raw) {
		answers, listed := at.op.object("responses"), at.op.object("x-problems")
		if len(listed) == 0 {
			t.Errorf("%s lists no problems", at.op.text("operationId"))
		}
		for _, status := range listed.names() {
			problem := resolved(raw, answers[status])
			if problem.object("content")["application/problem+json"] == nil {
				t.Errorf("%s: %s is not a problem", at.op.text("operationId"), status)
			}
		}
		for _, status := range answers.names() {
			if status >= "400" && status < "600" && listed[status] == nil {
				t.Errorf("%s: %s has no codes", at.op.text("operationId"), status)
			}
		}
	}
}

// A change with If-Match is decided again when its resource has changed in between, and says so when that never ends.
// The exceptions are not decided again.
func TestChangesThatAreDecidedAgainSaySo(t *testing.T) {
	once := []string{
		"changeSettings", "deleteParticipant", "deleteWebhook", "disableWorkflow", "enableWorkflow", "registerWorkflow",
		"updateSagaBulk",
	}
	raw, _ := contract(t)
	decided := 0
	for at := range operations(raw) {
		conditional := slices.ContainsFunc(at.op.list("parameters"), func(v any) bool {
			return resolved(raw, v)["name"] == "If-Match"
		})
		id := at.op.text("operationId")
		says := slices.Contains(at.op.object("x-problems").list("409"), any(httpkit.CodeKeepsChanging))
		if want := conditional && at.method != "get" && !slices.Contains(once, id); says != want {
			t.Errorf("%s lists %s: %v, want %v", id, httpkit.CodeKeepsChanging, says, want)
		}
		if says {
			decided++
		}
	}
	if decided < 40 {
		t.Errorf("only %d operations are decided again: the search is broken", decided)
	}
}
