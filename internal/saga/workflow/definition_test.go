package workflow_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// full uses every field of a definition. Its steps are declared out of order.
const full = `
name: order
description: "Reserves, charges, ships: \u00e9\u4e16 <&>"
timeout_ms: 60000
compensation_timeout_ms: 120000
retry: {max_attempts: 5, initial_interval_ms: 200, max_interval_ms: 5000, multiplier: 2.0, jitter: 0.2, retry_on: [timeout, network, unavailable]}
compensation_retry: {max_attempts: 50}
retention: {completed_ms: 604800000, failed_ms: -1}
steps:
  - name: charge
    depends_on: [reserve-stock]
    action:       {http: {method: PUT, url: "https://pay.example/charges?x=1", headers: {X-Team: stock, Authorization: "Bearer \u00e9"}}}
    compensation: {http: {method: DELETE, url: "https://pay.example/charges"}}
    timeout_ms: 2000
    retry: {retry_on: [], jitter: 0}
    compensation_retry: {max_attempts: 7, jitter: 0}
    metadata: {owner: payments, pages: [1.50, null]}
  - name: reserve-stock
    action:       {http: {url: "http://127.0.0.1:9001/reservations"}}
    compensation: {http: {url: "http://[::1]:9001/reservations/cancel"}}
  - name: notify
    action: {http: {url: "http://127.0.0.1:9002/notify"}}
    compensation: none
`

// fullJSON is the same definition as full.
const fullJSON = `{
 "steps": [
  {"name": "charge", "depends_on": ["reserve-stock"],
   "action": {"http": {"headers": {"Authorization": "Bearer é", "X-Team": "stock"}, "url": "https://pay.example/charges?x=1", "method": "PUT"}},
   "compensation": {"http": {"method": "DELETE", "url": "https://pay.example/charges"}},
   "timeout_ms": 2e3, "retry": {"retry_on": [], "jitter": 0.0}, "compensation_retry": {"max_attempts": 7, "jitter": 0},
   "metadata": {"pages": [1.5, null], "owner": "payments"}},
  {"name": "reserve-stock",
   "action": {"http": {"url": "http://127.0.0.1:9001/reservations"}},
   "compensation": {"http": {"url": "http://[::1]:9001/reservations/cancel"}}},
  {"name": "notify", "action": {"http": {"url": "http://127.0.0.1:9002/notify"}}, "compensation": "none"}
 ],
 "compensation_retry": {"max_attempts": 50}, "retention": {"failed_ms": -1, "completed_ms": 6048e5},
 "retry": {"max_attempts": 5, "initial_interval_ms": 200, "max_interval_ms": 5000.0, "multiplier": 2, "jitter": 0.2, "retry_on": ["timeout", "network", "unavailable"]},
 "compensation_timeout_ms": 120000, "timeout_ms": 60000,
 "description": "Reserves, charges, ships: \u00e9\u4e16 <&>", "name": "order"
}`

func mustYAML(t *testing.T, src string) *workflow.Definition {
	t.Helper()
	d, err := workflow.ParseYAML([]byte(src), workflow.Limits{})
	if err != nil {
		t.Fatalf("ParseYAML: %v", err)
	}
	return d
}

func mustJSON(t *testing.T, src string) *workflow.Definition {
	t.Helper()
	d, err := workflow.ParseJSON([]byte(src), workflow.Limits{})
	if err != nil {
		t.Fatalf("ParseJSON: %v", err)
	}
	return d
}

func TestADefinitionIsReadWhole(t *testing.T) {
	all := []retry.Class{retry.Timeout, retry.Network, retry.Unavailable}
	want := &workflow.Definition{
		Name: "order", Description: "Reserves, charges, ships: é世 <&>",
		TimeoutMS: 60000, CompensationTimeoutMS: 120000,
		Retry: &retry.Policy{
			MaxAttempts:       5,
			InitialIntervalMS: 200,
			MaxIntervalMS:     5000,
			Multiplier:        2,
			Jitter:            new(0.2),
			RetryOn:           all,
		},
		CompensationRetry: &retry.Policy{MaxAttempts: 50},
		Retention:         &workflow.Retention{CompletedMS: 604_800_000, FailedMS: workflow.Forever},
		Steps: []workflow.Step{
			{
				Name:   "reserve-stock",
				Action: workflow.Call{HTTP: &workflow.HTTPCall{Method: "POST", URL: "http://127.0.0.1:9001/reservations"}},
				Compensation: workflow.Compensation{
					Call: workflow.Call{HTTP: &workflow.HTTPCall{Method: "POST", URL: "http://[::1]:9001/reservations/cancel"}},
				},
			},
			{
				Name: "charge", DependsOn: []string{"reserve-stock"}, TimeoutMS: 2000,
				Action: workflow.Call{HTTP: &workflow.HTTPCall{
					Method: "PUT", URL: "https://pay.example/charges?x=1",
					Headers: map[string]string{"X-Team": "stock", "Authorization": "Bearer é"},
				}},
				Compensation: workflow.Compensation{
					Call: workflow.Call{HTTP: &workflow.HTTPCall{Method: "DELETE", URL: "https://pay.example/charges"}},
				},
				Retry:             &retry.Policy{Jitter: new(0.0), RetryOn: []retry.Class{}},
				CompensationRetry: &retry.Policy{MaxAttempts: 7, Jitter: new(0.0)},
				Metadata:          []byte(`{"owner":"payments","pages":[1.5,null]}`),
			},
			{Name: "notify", Action: workflow.Call{HTTP: &workflow.HTTPCall{Method: "POST", URL: "http://127.0.0.1:9002/notify"}}},
		},
	}
	if diff := cmp.Diff(want, mustYAML(t, full), asStored); diff != "" {
		t.Errorf("YAML (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, mustJSON(t, fullJSON), asStored); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

// asStored leaves out what is only in the client's text.
var asStored = cmpopts.IgnoreFields(workflow.Definition{}, "Written")

func TestYAMLAndJSONOfOneContentHaveOneHash(t *testing.T) {
	if a, b := mustYAML(t, full).Hash(), mustJSON(t, fullJSON).Hash(); !bytes.Equal(a, b) {
		t.Errorf("hash of the YAML text %x, of the JSON text %x", a, b)
	}
}

func TestAStoredDefinitionReadsBackAsItWas(t *testing.T) {
	d := mustYAML(t, full)
	stored, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var got workflow.Definition
	if err := json.Unmarshal(stored, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, &got, asStored); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if !bytes.Equal(d.Hash(), got.Hash()) {
		t.Error("the hash changed")
	}
	again := mustJSON(t, string(stored)) // a definition that the API returned may be registered again
	if diff := cmp.Diff(d, again, asStored); diff != "" {
		t.Errorf("registered again (-want +got):\n%s", diff)
	}
	if !bytes.Contains(stored, []byte(`"compensation":"none"`)) {
		t.Errorf("no compensation is not written as none: %s", stored)
	}
}

// TestADefinitionThatANewerProgramRegisteredIsNotHalfRead: an unknown part anywhere makes the whole
// definition unreadable.
func TestADefinitionThatANewerProgramRegisteredIsNotHalfRead(t *testing.T) {
	const known = `{"name":"w","retry":{"max_attempts":3},"steps":[{"name":"s","action":{"http":{"method":"POST","url":"http://a.example"}},` +
		`"compensation":{"http":{"method":"POST","url":"http://a.example/undo"}}}]}`
	if workflow.Stored([]byte(known)) == nil {
		t.Error("what this program knows is damaged")
	}
	for _, part := range []string{`{"name"`, `{"max_attempts"`, `{"name":"s"`, `{"method"`, `{"http":{"method":"POST","url":"http://a.example/undo"`} {
		newer := strings.Replace(known, part, `{"later":1,`+part[1:], 1)
		if newer == known {
			t.Fatal(part)
		}
		if got := workflow.Stored([]byte(newer)); got != nil {
			t.Errorf("%s was read as %+v", newer, got)
		}
	}
	for _, damaged := range []string{``, `null`, `{}`, `[]`, `{"name":"w","steps":[]}`, known[:40]} {
		if got := workflow.Stored([]byte(damaged)); got != nil {
			t.Errorf("%s was read as %+v", damaged, got)
		}
	}
}

func TestTheHashTellsContentsApart(t *testing.T) {
	seen := map[string]string{}
	for _, tt := range []struct{ name, src string }{
		{"the least", minimal("")},
		{"a description", minimal("description: x")},
		{"another description", minimal("description: y")},
		{"a timeout", minimal("timeout_ms: 1")},
		{"a retention", minimal("retention: {completed_ms: 1}")},
		{"retries as given", minimal("retry: {max_attempts: 2}")},
		{"retrying nothing", minimal("retry: {max_attempts: 2, retry_on: []}")},
		{"no jitter", minimal("retry: {max_attempts: 2, jitter: 0}")},
		{"the same for compensations", minimal("compensation_retry: {max_attempts: 2}")},
	} {
		h := string(mustYAML(t, tt.src).Hash())
		if other, twice := seen[h]; twice {
			t.Errorf("%s and %s have one hash", tt.name, other)
		}
		seen[h] = tt.name
	}
	if a, b := mustYAML(t, minimal("description: ''")), mustYAML(t, minimal("")); !bytes.Equal(a.Hash(), b.Hash()) {
		t.Error("an empty description and none differ")
	}
}

// minimal is the smallest definition, plus one line at its top level.
func minimal(line string) string {
	return "name: a\n" + line + `
steps:
  - name: s
    action: {http: {url: "http://h/"}}
    compensation: none
`
}

func TestCompensationJSON(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		none     bool
		out      string
	}{
		{"none", `"none"`, true, `"none"`},
		{"null, which is never written, is none", `null`, true, `"none"`},
		{"a call", `{"http":{"method":"POST","url":"http://h/"}}`, false, `{"http":{"method":"POST","url":"http://h/"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c workflow.Compensation
			if err := json.Unmarshal([]byte(tt.in), &c); err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			if c.None() != tt.none || string(b) != tt.out {
				t.Errorf("None = %v, JSON %s; want %v, %s", c.None(), b, tt.none, tt.out)
			}
		})
	}
	c := workflow.Compensation{Call: workflow.Call{HTTP: &workflow.HTTPCall{URL: "http://h/"}}}
	if err := json.Unmarshal([]byte(`"none"`), &c); err != nil || !c.None() {
		t.Errorf("none into a used value: None = %v, %v", c.None(), err)
	}
	if err := json.Unmarshal([]byte(`"later"`), &c); err == nil {
		t.Error("another word than none is accepted")
	}
}

func TestPoliciesAreLayeredStepThenWorkflowThenServer(t *testing.T) {
	d := mustYAML(t, full) // reserve-stock, charge, notify
	for _, tt := range []struct {
		name string
		got  retry.Policy
		want retry.Policy
	}{
		{"a step without policy has the workflow's", d.ActionRetry(0, nil), *d.Retry},
		{"a step's own fields win, empty and zero ones too", d.ActionRetry(1, nil), retry.Policy{MaxAttempts: 5, InitialIntervalMS: 200, MaxIntervalMS: 5000, Multiplier: 2, Jitter: new(0.0), RetryOn: []retry.Class{}}},
		{"a compensation inherits nothing from actions", d.CompensationPolicy(0), retry.Policy{MaxAttempts: 50}.Or(retry.Patient)},
		{"a step's compensation policy wins", d.CompensationPolicy(1), retry.Policy{MaxAttempts: 7, Jitter: new(0.0)}.Or(retry.Patient)},
		{"without any policy actions have the default", mustYAML(t, minimal("")).ActionRetry(0, nil), retry.Default},
		{"without any policy compensations are patient", mustYAML(t, minimal("")).CompensationPolicy(0), retry.Patient},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestStepTimeoutAndNames(t *testing.T) {
	d := mustYAML(t, full)
	if got := d.StepTimeout(1, time.Minute); got != 2*time.Second {
		t.Errorf("own timeout = %v, want 2s", got)
	}
	if got := d.StepTimeout(0, time.Minute); got != time.Minute {
		t.Errorf("timeout without own = %v, want the default, 1m", got)
	}
	if diff := cmp.Diff([]string{"reserve-stock", "charge", "notify"}, d.StepNames()); diff != "" {
		t.Errorf("names in running order (-want +got):\n%s", diff)
	}
}
