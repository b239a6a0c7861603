package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestHealthReadinessAndVersion(t *testing.T) {
	var notReady error
	e := apitest.NewEdge(t, func(c *httpapi.Config) {
		c.Ready = func(context.Context) (httpapi.Readiness, error) {
			return httpapi.Readiness{SchemaVersion: 175, Warnings: []string{"fsync is off"}}, notReady
		}
	})
	for _, path := range []string{"/healthz", "/readyz"} {
		if r := e.Send("GET", path, ""); r.Status != http.StatusOK {
			t.Errorf("%s: %d", path, r.Status)
		}
	}
	notReady = errors.New("the schema is two versions behind")
	p := e.Send("GET", "/readyz", "").Wants(http.StatusServiceUnavailable, "SYS_UNAVAILABLE")
	if !strings.Contains(p.Detail, "two versions behind") {
		t.Errorf("detail = %q, want the reason", p.Detail)
	}
	if r := e.Send("GET", "/healthz", ""); r.Status != http.StatusOK {
		t.Errorf("a node that is not ready must still be healthy: %d", r.Status)
	}
	var v client.Version
	e.Send("GET", "/version", "").Into(&v)
	if v.Version != "1.2.3" || v.Go != "go1.26" || v.Commit != nil {
		t.Errorf("version = %+v", v)
	}
}

func TestRequestIDsOfClientsAreUsedWhenValid(t *testing.T) {
	e := apitest.NewEdge(t)
	for sent, taken := range map[string]bool{
		"abc-1.2:3/4+5=6@7_8":    true,
		strings.Repeat("x", 128): true,
		strings.Repeat("x", 129): false,
		"a b":                    false,
		`a"b`:                    false,
		"ä":                      false,
		"":                       false,
	} {
		got := e.Send("GET", "/healthz", "", "X-Request-Id", sent).Header.Get("X-Request-Id")
		if (got == sent) != taken || got == "" {
			t.Errorf("sent %q, got %q", sent, got)
		}
	}
}

func TestHeadIsGetWithoutABody(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "a")
	for _, path := range []string{"/healthz", apitest.WorkflowsPath, apitest.WorkflowsPath + "/order"} {
		get, head := e.Send("GET", path, ""), e.Send("HEAD", path, "")
		if head.Status != http.StatusOK || len(head.Body) > 0 ||
			head.Header.Get("Content-Length") != get.Header.Get("Content-Length") ||
			head.Header.Get("ETag") != get.Header.Get("ETag") {
			t.Errorf("%s: %d %v", path, head.Status, head.Header)
		}
	}
}

func TestAllowNamesTheMethodsOfThePath(t *testing.T) {
	e := apitest.NewEdge(t)
	for path, want := range map[string]string{
		apitest.SagasPath:                   "GET, HEAD, POST",
		apitest.MissingSaga + "/steps":      "GET, HEAD",
		apitest.MissingSaga + "/cancel":     "POST",
		apitest.WorkflowsPath + "/validate": "POST", // not a workflow of that name
		"/api/v1/dlq/import":                "POST",
		"/api/v1/dlq/messages/batch":        "POST",
		"/api/v1/dlq/redrives":              "GET, HEAD, POST",
		"/healthz":                          "GET, HEAD",
	} {
		e.Send("OPTIONS", path, "").Wants(http.StatusMethodNotAllowed, "REQ_METHOD_NOT_ALLOWED")
		r := e.Send("PATCH", path, "")
		r.Wants(http.StatusMethodNotAllowed, "REQ_METHOD_NOT_ALLOWED")
		if got := r.Header.Get("Allow"); got != want {
			t.Errorf("%s: Allow = %q, want %q", path, got, want)
		}
	}
}

func TestRequestsThatSucceedAreNotLogged(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "a")
	e.Start(`{"workflow_name":"order"}`)
	if log := e.Log.String(); log != "" {
		t.Errorf("logged: %s", log)
	}
}

func TestInvalidConfigurationIsRefused(t *testing.T) {
	good := apitest.NewEdge(t).Cfg
	for name, spoil := range map[string]func(*httpapi.Config){
		"no store":           func(c *httpapi.Config) { c.Sagas.Store = nil },
		"no clock":           func(c *httpapi.Config) { c.Now = nil },
		"no log":             func(c *httpapi.Config) { c.Log = (*slog.Logger)(nil) },
		"a short cursor key": func(c *httpapi.Config) { c.CursorKey = []byte("short") },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := httpapi.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestTheContractIsServedAsJSON(t *testing.T) {
	e := apitest.NewEdge(t)
	r := e.Send("GET", "/openapi.json", "")
	var doc map[string]any
	if err := json.Unmarshal(r.Body, &doc); err != nil || doc["openapi"] != "3.1.0" {
		t.Errorf("got %v, openapi %v", err, doc["openapi"])
	}
	if strings.Contains(string(r.Body), "x-go-") {
		t.Error("the published contract contains Go types")
	}
	in := e.Send("GET", "/openapi.yaml", "")
	var same any
	if err := yaml.Unmarshal(in.Body, &same); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(same)
	if diff := cmp.Diff(doc, decoded(t, text)); err != nil || diff != "" {
		t.Errorf("in YAML it is another one: %v (-json +yaml):\n%s", err, diff)
	}
	if got := in.Header.Get("Content-Type"); got != "application/yaml" {
		t.Errorf("the type of YAML is %s", got)
	}
	got := e.Send("GET", "/openapi.yaml", "", "If-None-Match", in.Header.Get("ETag"))
	if got.Status != http.StatusNotModified {
		t.Errorf("the same version was sent again: %d", got.Status)
	}
}

func decoded(t *testing.T, text []byte) (doc map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}
