package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
)

func TestAWorkflowIsTheSameHoweverItIsSent(t *testing.T) {
	e := newEdge(t)
	wrapped, err := json.Marshal(map[string]string{"workflow_yaml": yamlDefinition})
	if err != nil {
		t.Fatal(err)
	}
	r := e.send("POST", workflows, yamlDefinition, "Content-Type", "application/yaml")
	var first client.Workflow
	r.into(&first)
	if r.status != http.StatusCreated || r.header.Get("Location") != workflows+"/order/versions/1" || r.header.Get("ETag") != `"1"` {
		t.Fatalf("first: %d %v %s", r.status, r.header, r.body)
	}
	if first.StepCount != 2 || strings.Join(first.StepNames, " ") != "reserve-stock notify" || !first.Enabled || first.LatestVersion != 1 {
		t.Errorf("first: %+v", first)
	}
	definition, err := json.Marshal(first.Definition)
	if err != nil {
		t.Fatal(err)
	}
	for name, again := range map[string]reply{
		"YAML as text/yaml":          e.send("POST", workflows, yamlDefinition, "Content-Type", "text/yaml; charset=utf-8"),
		"YAML as application/x-yaml": e.send("POST", workflows, yamlDefinition, "Content-Type", "application/x-yaml"),
		"YAML inside JSON":           e.send("POST", workflows, string(wrapped)),
		"JSON":                       e.send("POST", workflows, string(definition)),
	} {
		var w client.Workflow
		again.into(&w)
		if again.status != http.StatusOK || again.header.Get("Location") != "" {
			t.Errorf("%s: %d %s", name, again.status, again.body)
		}
		if diff := cmp.Diff(first, w, cmp.AllowUnexported(client.Compensation{})); diff != "" {
			t.Errorf("%s (-first +again):\n%s", name, diff)
		}
	}
}

func TestANewContentIsANewVersion(t *testing.T) {
	e := newEdge(t)
	e.register("order", "a")
	r := e.send("POST", workflows, definition("order", "a", "b"), "If-Match", `"1"`)
	if r.status != http.StatusCreated || r.header.Get("Location") != workflows+"/order/versions/2" || r.header.Get("ETag") != `"2"` {
		t.Errorf("second: %d %v", r.status, r.header)
	}
	e.send("POST", workflows, definition("order", "a", "b", "c"), "If-Match", `"1"`).wants(http.StatusPreconditionFailed, "WORKFLOW_VERSION_CONFLICT")
	var old, latest client.Workflow
	e.send("GET", workflows+"/order/versions/1", "").into(&old)
	e.send("GET", workflows+"/order", "").into(&latest)
	if old.Version != 1 || old.LatestVersion != 2 || old.StepCount != 1 || latest.Version != 2 || latest.StepCount != 2 {
		t.Errorf("old %+v, latest %+v", old, latest)
	}
}

func TestAWorkflowNameMayHoldAnyLetters(t *testing.T) {
	e := newEdge(t)
	e.register("注文:v1.0_ü", "в-запас")
	res, err := e.GetWorkflowWithResponse(t.Context(), "注文:v1.0_ü", nil)
	if err != nil || res.JSON200 == nil || res.JSON200.StepNames[0] != "в-запас" {
		t.Errorf("got %v %s", err, res.Body)
	}
	if s := e.start(`{"workflow_name":"注文:v1.0_ü"}`); s.DefinitionID != "注文:v1.0_ü@1" {
		t.Errorf("definition_id = %q", s.DefinitionID)
	}
}

func TestValidatingStoresNothing(t *testing.T) {
	e := newEdge(t)
	var check client.WorkflowValidation
	r := e.send("POST", workflows+"/validate", yamlDefinition, "Content-Type", "application/yaml")
	r.into(&check)
	if r.status != http.StatusOK || !bool(check.Valid) || check.Name != "order" || check.StepCount != 2 || len(check.StepNames) != 2 {
		t.Errorf("got %d %s", r.status, r.body)
	}
	e.send("GET", workflows+"/order", "").wants(http.StatusNotFound, "WORKFLOW_NOT_FOUND")
	p := e.send("POST", workflows+"/validate", `{"name":"a","steps":[{"name":"x"},{"name":"x"}]}`).wants(http.StatusUnprocessableEntity, "WORKFLOW_INVALID")
	if len(p.Errors) < 5 { // two actions, two compensations, one name
		t.Errorf("errors = %+v, want every mistake", p.Errors)
	}
}

func TestEnableAndDisableAreIdempotentAndGuarded(t *testing.T) {
	e := newEdge(t)
	e.register("order", "a")
	post := func(verb, match string) reply {
		if match == "" {
			return e.send("POST", workflows+"/order/"+verb, "")
		}
		return e.send("POST", workflows+"/order/"+verb, "", "If-Match", match)
	}
	for i, tt := range []struct {
		verb, match, etag string
		enabled           bool
	}{
		{"disable", `"1"`, `"2"`, false},
		{"disable", "", `"2"`, false},
		{"enable", "*", `"3"`, true},
		{"enable", `"3"`, `"3"`, true},
	} {
		var w client.Workflow
		r := post(tt.verb, tt.match)
		r.into(&w)
		if r.status != http.StatusOK || r.header.Get("ETag") != tt.etag || w.Enabled != tt.enabled {
			t.Errorf("%d %s: %d %s %t", i, tt.verb, r.status, r.header.Get("ETag"), w.Enabled)
		}
	}
	post("disable", `"1"`).wants(http.StatusPreconditionFailed, "WORKFLOW_VERSION_CONFLICT")
}

func TestSagasFollowTheirWorkflowWithoutDelay(t *testing.T) {
	e := newEdge(t)
	e.register("order", "a")
	// Each change below comes after the edge has cached what was before.
	if s := e.start(`{"workflow_name":"order"}`); s.WorkflowVersion != 1 {
		t.Fatalf("version %d", s.WorkflowVersion)
	}
	e.register("order", "a", "b")
	if s := e.start(`{"workflow_name":"order"}`); s.WorkflowVersion != 2 || s.TotalSteps != 2 {
		t.Errorf("after version 2: version %d with %d steps", s.WorkflowVersion, s.TotalSteps)
	}
	if s := e.start(`{"workflow_name":"order","workflow_version":1}`); s.WorkflowVersion != 1 || s.TotalSteps != 1 {
		t.Errorf("asked for version 1: version %d with %d steps", s.WorkflowVersion, s.TotalSteps)
	}
	e.send("POST", workflows+"/order/disable", "")
	for _, body := range []string{`{"workflow_name":"order"}`, `{"workflow_name":"order","workflow_version":1}`} {
		e.send("POST", sagas, body).wants(http.StatusConflict, "WORKFLOW_DISABLED")
	}
	e.send("POST", workflows+"/order/enable", "")
	e.start(`{"workflow_name":"order"}`)
}
