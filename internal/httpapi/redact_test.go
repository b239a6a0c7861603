package httpapi_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestWithoutPayloadsReadContentIsRedacted(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
	e.Node.Script = func(c saga.Call) saga.Outcome {
		if c.Step == "b" && c.Action == saga.Execute {
			o := apitest.Refused()
			o.Response = json.RawMessage(`{"canary":"details"}`)
			return o
		}
		return apitest.Done(`{"canary":"output"}`)
	}
	if r := e.Send("POST", "/api/v1/workflows", apitest.Definition("order", "a", "b"),
		apitest.As("admin")...); r.Status != 201 {
		t.Fatalf("register: %d %s", r.Status, r.Body)
	}
	r := e.Send("POST", "/api/v1/sagas?wait=10s", `{"workflow_name":"order","payload":{"canary":"payload"},"metadata":{"canary":"metadata"}}`, apitest.As("operator")...)
	var failed client.Saga
	r.Into(&failed)
	e.Node.Script = func(saga.Call) saga.Outcome { return apitest.Done(`{"canary":"output"}`) }
	r = e.Send("POST", "/api/v1/sagas?wait=10s", `{"workflow_name":"order","payload":{"canary":"payload"}}`, apitest.As("operator")...)
	var completed client.Saga
	r.Into(&completed)
	if failed.Status != "FAILED" || completed.Status != "COMPLETED" ||
		!strings.Contains(string(completed.Result), "canary") {
		t.Fatalf("%s and %s, result %s", failed.Status, completed.Status, completed.Result)
	}

	one := "/api/v1/sagas/" + failed.SagaID.String()
	covered := 0
	for _, path := range []string{
		one, one + "?include=running", one + "/step-logs", one + "/steps", "/api/v1/sagas?view=full", "/api/v1/sagas",
		"/api/v1/sagas/" + completed.SagaID.String(), "/api/v1/sagas/" + completed.SagaID.String() + "/steps",
	} {
		open, veiled := e.Send("GET", path, "", apitest.As("operator")...), e.Send("GET", path, "", apitest.As("auditor")...)
		if open.Status != 200 || veiled.Status != 200 {
			t.Fatalf("%s: %d and %d", path, open.Status, veiled.Status)
		}
		if strings.Contains(string(veiled.Body), "canary") {
			t.Errorf("%s shows an auditor %s", path, veiled.Body)
		}
		if strings.Contains(string(open.Body), "***") {
			t.Errorf("%s is redacted for an operator: %s", path, open.Body)
		}
		var want, got any
		open.Into(&want)
		veiled.Into(&got)
		want, n := cover(want)
		covered += n
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-what an operator sees, covered +what an auditor sees):\n%s", path, diff)
		}
		if open.Header.Get("ETag") != veiled.Header.Get("ETag") {
			t.Errorf("%s has two tags", path)
		}
	}
	if covered < 30 {
		t.Errorf("only %d values were redacted", covered)
	}
	for member, kept := range map[string]string{`"message":"the participant refused"`: "an error's message", `"error_message":`: "a saga's"} {
		if r := e.Send("GET", one, "", apitest.As("auditor")...); !strings.Contains(string(r.Body), member) {
			t.Errorf("%s is missing: %s", kept, r.Body)
		}
	}
}

// cover redacts decoded JSON as docs/security.md describes, and counts.
func cover(v any) (any, int) {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			if slices.Contains([]string{"payload", "metadata", "result", "request_payload", "response_payload", "input_data",
				"output_data", "details"}, key) {
				v[key] = "***"
				n++
				continue
			}
			var below int
			v[key], below = cover(member)
			n += below
		}
	case []any:
		for i := range v {
			var below int
			v[i], below = cover(v[i])
			n += below
		}
	}
	return v, n
}

func TestEveryFreeFormMemberOfResponsesIsRedacted(t *testing.T) {
	names := httpapi.Veiled(t)
	for _, want := range []string{"payload", "metadata", "result", "request_payload", "response_payload", "input_data",
		"output_data", "details"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not redacted", want)
		}
	}
}

func TestWhatADryRunSaysOfContentIsRedacted(t *testing.T) {
	change := func(member string) api.PlannedChange {
		return api.PlannedChange{Member: member, From: new("before"), To: new("after")}
	}
	hidden, shown := "***", "before"
	for member, want := range map[string]string{
		"payload": hidden, "payload.amount": hidden, "edit.payload": hidden, "edit.payload.lines.0": hidden,
		"status": shown, "payload_size": shown, "parameters.retries": shown,
	} {
		body := struct {
			Changes []api.PlannedChange `json:"changes"`
		}{[]api.PlannedChange{change(member), {Member: member, To: new("before")}}}
		got, ok := httpapi.Cover(&body)
		text, err := json.Marshal(got)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		if c := body.Changes; *c[0].From != want || (*c[0].To == "after") != (want == shown) || c[1].From != nil ||
			*c[1].To != want {
			t.Errorf("%s: %s", member, text)
		}
	}
}

func TestResponsesThatCannotBeRedactedAreNotSent(t *testing.T) {
	type row struct {
		Payload    json.RawMessage `json:"payload,omitempty"`
		Definition json.RawMessage `json:"definition"`
		At         time.Time       `json:"at"`
		ID         uuid.UUID       `json:"id"`
		Below      []*row          `json:"below"`
		Note       *string         `json:"note"`
	}
	secret := json.RawMessage(`"canary"`)
	for name, body := range map[string]any{
		"a value": row{Payload: secret}, "a pointer": &row{Payload: secret},
		"rows below": []row{{Payload: secret, Below: []*row{{Payload: secret}, nil}}}, "nothing there": row{},
		"what is embedded": struct{ row }{row{Payload: secret}}, "beside labels": struct {
			row
			Labels map[string]string `json:"labels"`
		}{row{Payload: secret}, map[string]string{"a": "b"}},
	} {
		got, ok := httpapi.Cover(body)
		text, err := json.Marshal(got)
		if !ok || err != nil || strings.Contains(string(text), "canary") {
			t.Errorf("%s: %s, %t, %v", name, text, ok, err)
		}
	}
	if got, ok := httpapi.Cover(row{Definition: secret}); !ok || string(got.(row).Definition) != string(secret) {
		t.Errorf("a member that is not a payload: %s, %t", got.(row).Definition, ok)
	}
	for name, body := range map[string]any{
		"JSON itself": secret, "a list of JSON": []json.RawMessage{secret},
		"a map":    map[string]json.RawMessage{"payload": secret},
		"anything": struct{ Payload any }{secret}, "a map in a row": struct{ Rows map[string]row }{map[string]row{"a": {Payload: secret}}},
	} {
		if _, ok := httpapi.Cover(body); ok {
			t.Errorf("%s is sent", name)
		}
	}
}

func TestWithoutPayloadsReadContentCannotBeFilteredBy(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
	filter := `/api/v1/sagas?metadata=%7B%22card%22%3A%224111%22%7D`
	if p := e.Send("GET", filter, "", apitest.As("auditor")...).Wants(403, principal.CodeForbidden); !strings.Contains(
		p.Detail, "payloads:read") {
		t.Errorf("detail %q does not name the permission", p.Detail)
	}
	if r := e.Send("GET", filter, "", apitest.As("operator")...); r.Status != 200 {
		t.Errorf("an operator: %d %s", r.Status, r.Body)
	}
}
