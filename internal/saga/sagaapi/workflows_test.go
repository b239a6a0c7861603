package sagaapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestAWorkflowIsTheSameHoweverItIsSent(t *testing.T) {
	e := apitest.NewEdge(t)
	wrapped, err := json.Marshal(map[string]string{"workflow_yaml": apitest.YamlDefinition})
	if err != nil {
		t.Fatal(err)
	}
	r := e.Send("POST", apitest.WorkflowsPath, apitest.YamlDefinition, "Content-Type", "application/yaml")
	var first client.Workflow
	r.Into(&first)
	if r.Status != http.StatusCreated || r.Header.Get("Location") != apitest.WorkflowsPath+"/order/versions/1" ||
		r.Header.Get("ETag") != `"1"` {
		t.Fatalf("first: %d %v %s", r.Status, r.Header, r.Body)
	}
	if first.StepCount != 2 || strings.Join(first.StepNames, " ") != "reserve-stock notify" || !first.Enabled ||
		first.LatestVersion != 1 {
		t.Errorf("first: %+v", first)
	}
	definition, err := json.Marshal(first.Definition)
	if err != nil {
		t.Fatal(err)
	}
	for name, again := range map[string]apitest.Reply{
		"YAML as text/yaml": e.Send("POST", apitest.WorkflowsPath, apitest.YamlDefinition, "Content-Type",
			"text/yaml; charset=utf-8"),
		"YAML as application/x-yaml": e.Send("POST", apitest.WorkflowsPath, apitest.YamlDefinition, "Content-Type",
			"application/x-yaml"),
		"YAML inside JSON": e.Send("POST", apitest.WorkflowsPath, string(wrapped)),
		"JSON":             e.Send("POST", apitest.WorkflowsPath, string(definition)),
	} {
		var w client.Workflow
		again.Into(&w)
		if again.Status != http.StatusOK || again.Header.Get("Location") != "" {
			t.Errorf("%s: %d %s", name, again.Status, again.Body)
		}
		if diff := cmp.Diff(first, w, cmp.AllowUnexported(client.Compensation{})); diff != "" {
			t.Errorf("%s (-first +again):\n%s", name, diff)
		}
	}
}

func TestANewContentIsANewVersion(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "a")
	r := e.Send("POST", apitest.WorkflowsPath, apitest.Definition("order", "a", "b"), "If-Match", `"1"`)
	if r.Status != http.StatusCreated || r.Header.Get("Location") != apitest.WorkflowsPath+"/order/versions/2" ||
		r.Header.Get("ETag") != `"2"` {
		t.Errorf("second: %d %v", r.Status, r.Header)
	}
	e.Send("POST", apitest.WorkflowsPath, apitest.Definition("order", "a", "b", "c"), "If-Match",
		`"1"`).Wants(http.StatusPreconditionFailed, "WORKFLOW_VERSION_CONFLICT")
	var old, latest client.Workflow
	e.Send("GET", apitest.WorkflowsPath+"/order/versions/1", "").Into(&old)
	e.Send("GET", apitest.WorkflowsPath+"/order", "").Into(&latest)
	for want, got := range map[[3]int]client.Workflow{{1, 2, 1}: old, {2, 2, 2}: latest} {
		if [3]int{got.Version, got.LatestVersion, got.StepCount} != want {
			t.Errorf("%+v; want version, latest and steps %v", got, want)
		}
	}
}

func TestAWorkflowNameMayContainAnyLetters(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("注文:v1.0_ü", "в-запас")
	res, err := e.GetWorkflowWithResponse(t.Context(), "注文:v1.0_ü", nil)
	if err != nil || res.JSON200 == nil || res.JSON200.StepNames[0] != "в-запас" {
		t.Errorf("got %v %s", err, res.Body)
	}
	if s := e.Start(`{"workflow_name":"注文:v1.0_ü"}`); s.DefinitionID != "注文:v1.0_ü@1" {
		t.Errorf("definition_id = %q", s.DefinitionID)
	}
}

func TestValidatingStoresNothing(t *testing.T) {
	e := apitest.NewEdge(t)
	var check client.WorkflowValidation
	r := e.Send("POST", apitest.WorkflowsPath+"/validate", apitest.YamlDefinition, "Content-Type", "application/yaml")
	r.Reads(http.StatusOK, &check)
	if !bool(check.Valid) || check.Name != "order" || check.StepCount != 2 || len(check.StepNames) != 2 {
		t.Errorf("got %s", r.Body)
	}
	e.Send("GET", apitest.WorkflowsPath+"/order", "").Wants(http.StatusNotFound, "WORKFLOW_NOT_FOUND")
	p := e.Send("POST", apitest.WorkflowsPath+"/validate", `{"name":"a","steps":[{"name":"x"},{"name":"x"}]}`).Wants(http.StatusUnprocessableEntity, "WORKFLOW_INVALID")
	if len(p.Errors) < 5 { // two actions, two compensations, one name
		t.Errorf("errors = %+v, want every mistake", p.Errors)
	}
}

func TestEnableAndDisableAreIdempotentAndGuarded(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "a")
	post := func(verb, match string) apitest.Reply {
		if match == "" {
			return e.Send("POST", apitest.WorkflowsPath+"/order/"+verb, "")
		}
		return e.Send("POST", apitest.WorkflowsPath+"/order/"+verb, "", "If-Match", match)
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
		r.Into(&w)
		if r.Status != http.StatusOK || r.Header.Get("ETag") != tt.etag || w.Enabled != tt.enabled {
			t.Errorf("%d %s: %d %s %t", i, tt.verb, r.Status, r.Header.Get("ETag"), w.Enabled)
		}
	}
	post("disable", `"1"`).Wants(http.StatusPreconditionFailed, "WORKFLOW_VERSION_CONFLICT")
}

func TestSagasFollowTheirWorkflowWithoutDelay(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "a")
	// Each change below is made after the previous state was cached.
	if s := e.Start(`{"workflow_name":"order"}`); s.WorkflowVersion != 1 {
		t.Fatalf("version %d", s.WorkflowVersion)
	}
	e.Register("order", "a", "b")
	if s := e.Start(`{"workflow_name":"order"}`); s.WorkflowVersion != 2 || s.TotalSteps != 2 {
		t.Errorf("after version 2: version %d with %d steps", s.WorkflowVersion, s.TotalSteps)
	}
	if s := e.Start(`{"workflow_name":"order","workflow_version":1}`); s.WorkflowVersion != 1 || s.TotalSteps != 1 {
		t.Errorf("requested version 1: version %d with %d steps", s.WorkflowVersion, s.TotalSteps)
	}
	e.Send("POST", apitest.WorkflowsPath+"/order/disable", "")
	for _, body := range []string{`{"workflow_name":"order"}`, `{"workflow_name":"order","workflow_version":1}`} {
		e.Send("POST", apitest.SagasPath, body).Wants(http.StatusConflict, "WORKFLOW_DISABLED")
	}
	e.Send("POST", apitest.WorkflowsPath+"/order/enable", "")
	e.Start(`{"workflow_name":"order"}`)
}
