package participant

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/api/webhooks"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

var update = flag.Bool("update", false, "write the examples of api/participant.openapi.yaml")

const contractPath = "../../../api/participant.openapi.yaml"

// realCalls are the requests that a participant receives for a saga whose second step is refused:
// the execute of the second step, and the compensation of the first.
func realCalls(t *testing.T) (requests []string) {
	t.Helper()
	srv := serveRaw(t, func(e exchange) bool {
		answer := response("200 OK", "", `{"reservation_id":"rsv_1"}`)
		if strings.Contains(e.head, "charge-payment/execute") {
			answer = response("409 Conflict", "", `{"code":"INSUFFICIENT_FUNDS","message":"the card was declined"}`)
		}
		e.say(answer)
		return true
	})
	def, err := workflow.ParseYAML([]byte(strings.ReplaceAll(`
name: order
steps:
  - name: reserve-stock
    action: {http: {url: "URL/reservations"}}
    compensation: {http: {url: "URL/reservations/cancel"}, answer: {later: "status == 202"}}
  - name: charge-payment
    action: {http: {url: "URL/charges"}}
    answer: {later: "status == 202"}
    compensation: {http: {url: "URL/charges/refund"}}
`, "URL", srv.url())), workflow.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := webhooks.ParseSecret("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, func(cfg *Config) {
		cfg.SigningKeys = func() [][]byte { return [][]byte{key} }
		cfg.Callback = func(a reported.Attempt) string {
			return "https://skald.example/api/v1/step-callbacks/" + hex.EncodeToString(a.Bytes()[:4])
		}
		cfg.NewSpanID = func() [8]byte { return [8]byte{0xb7, 0xad, 6: 0x31, 7: 0x9c} }
	})
	owner, state, baggage := int64(1), "vendor=a", "customer=42"
	r := saga.NewInstance(saga.New(saga.Spec{
		ID: testID, Payload: json.RawMessage(`{"sku":"lamp","quantity":2,"amount":59.9,"card":"visa"}`),
		TraceState: &state, Baggage: &baggage,
	}, def, 1, &owner, instant, 0), def)
	r.Tenant.ID = uuid.MustParse("00000000-0000-0000-0000-000000000001")
	for r.State != saga.Compensated {
		outcome := c.Call(t.Context(), r.Call(saga.Defaults{StepTimeout: time.Minute}))
		change, err := saga.Apply(r, saga.Answered{Outcome: outcome}, saga.Moment{Now: instant, NewID: uuid.New})
		if err != nil {
			t.Fatal(err)
		}
		r = change.After
	}
	if len(srv.requests) != 3 {
		t.Fatalf("%d requests; want 3", len(srv.requests))
	}
	return srv.requests[1:]
}

// rendered returns the examples of the document as YAML.
func rendered(t *testing.T, requests []string) string {
	t.Helper()
	var b strings.Builder
	for i, name := range []string{"Execute", "Compensate"} {
		head, body, _ := strings.Cut(requests[i], "\r\n\r\n")
		lines := strings.Split(head, "\r\n")
		fmt.Fprintf(&b, "    %s:\n      summary: %q\n      x-headers:\n", name, lines[0])
		for _, line := range lines[1:] {
			field, value, _ := strings.Cut(line, ": ")
			if field != "Host" && field != "Content-Length" { // differs between runs
				fmt.Fprintf(&b, "        %s: %q\n", field, value)
			}
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, []byte(body), "      ", "  "); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "      value: %s\n", indented.String())
	}
	return b.String()
}

// The document must contain what Skald sends and describe it.
func TestTheContractOfParticipantsIsWhatTheyReceive(t *testing.T) {
	requests := realCalls(t)
	text, err := os.ReadFile(contractPath)
	if err != nil {
		t.Fatal(err)
	}
	before, shown, found := strings.Cut(string(text), "\n  examples:\n")
	if !found {
		t.Fatal("it has no examples")
	}
	want := rendered(t, requests)
	if *update {
		if err := os.WriteFile(contractPath, []byte(before+"\n  examples:\n"+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if shown != want {
		t.Errorf("the examples are not what is sent: run this test with -update\n%s", want)
	}
	served, err := api.ParticipantContract()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(served)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	checkRequest(t, doc.Paths.Find("/steps/{step}").Post, requests[0])
	checkRequest(t, doc.Paths.Find("/steps/{step}/compensation").Post, requests[1])
}

// checkRequest compares a request with the document: every header must be sent and described, and
// every member of the body must match.
func checkRequest(t *testing.T, op *openapi3.Operation, raw string) {
	t.Helper()
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, p := range op.Parameters {
		name := http.CanonicalHeaderKey(p.Value.Name)
		described[name] = true
		if req.Header.Get(name) == "" {
			t.Errorf("%s: the document has %s, which was not sent", req.URL, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(req.Header)) {
		if general := []string{"Accept", "User-Agent", "Content-Type", "Content-Length"}; !described[name] &&
			!slices.Contains(general, name) {
			t.Errorf("%s: %s is sent, and not described", req.URL, name)
		}
	}
	var body any
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	schema := op.RequestBody.Value.Content["application/json"].Schema.Value
	if err := schema.VisitJSON(body); err != nil {
		t.Errorf("%s: %v", req.URL, err)
	}
	for name := range body.(map[string]any) {
		if schema.Properties[name] == nil {
			t.Errorf("%s: the body has %s, which is not described", req.URL, name)
		}
	}
}
