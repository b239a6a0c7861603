package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
)

func TestHealthReadinessAndVersion(t *testing.T) {
	var notReady error
	e := newEdge(t, func(c *httpapi.Config) { c.Ready = func(context.Context) error { return notReady } })
	for _, path := range []string{"/healthz", "/readyz"} {
		if r := e.send("GET", path, ""); r.status != http.StatusOK {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	notReady = errors.New("the schema is two versions behind")
	p := e.send("GET", "/readyz", "").wants(http.StatusServiceUnavailable, "SYS_UNAVAILABLE")
	if !strings.Contains(p.Detail, "two versions behind") {
		t.Errorf("detail = %q, want the reason", p.Detail)
	}
	if r := e.send("GET", "/healthz", ""); r.status != http.StatusOK {
		t.Errorf("a node that is not ready is dead: %d", r.status)
	}
	var v client.Version
	e.send("GET", "/version", "").into(&v)
	if v.Version != "1.2.3" || v.Go != "go1.26" || v.Commit != nil {
		t.Errorf("version = %+v", v)
	}
}

func TestRequestIDsAreTakenWhenSane(t *testing.T) {
	e := newEdge(t)
	for sent, taken := range map[string]bool{
		"abc-1.2:3/4+5=6@7_8":    true,
		strings.Repeat("x", 128): true,
		strings.Repeat("x", 129): false,
		"a b":                    false,
		`a"b`:                    false,
		"ä":                      false,
		"":                       false,
	} {
		got := e.send("GET", "/healthz", "", "X-Request-Id", sent).header.Get("X-Request-Id")
		if (got == sent) != taken || got == "" {
			t.Errorf("sent %q, got %q", sent, got)
		}
	}
}

func TestHeadIsGetWithoutTheBody(t *testing.T) {
	e := newEdge(t)
	e.register("order", "a")
	for _, path := range []string{"/healthz", workflows, workflows + "/order"} {
		get, head := e.send("GET", path, ""), e.send("HEAD", path, "")
		if head.status != http.StatusOK || len(head.body) > 0 ||
			head.header.Get("Content-Length") != get.header.Get("Content-Length") || head.header.Get("ETag") != get.header.Get("ETag") {
			t.Errorf("%s: %d %v", path, head.status, head.header)
		}
	}
}

func TestAllowNamesTheMethodsOfThePath(t *testing.T) {
	e := newEdge(t)
	for path, want := range map[string]string{
		sagas:                   "GET, HEAD, POST",
		missing:                 "GET, HEAD",
		missing + "/cancel":     "POST",
		workflows + "/validate": "GET, HEAD, POST", // a workflow may be named so
		"/healthz":              "GET, HEAD",
	} {
		r := e.send("PATCH", path, "")
		r.wants(http.StatusMethodNotAllowed, "REQ_METHOD_NOT_ALLOWED")
		if got := r.header.Get("Allow"); got != want {
			t.Errorf("%s: Allow = %q, want %q", path, got, want)
		}
	}
}

func TestRequestsThatSucceedAreNotLogged(t *testing.T) {
	e := newEdge(t)
	e.register("order", "a")
	e.start(`{"workflow_name":"order"}`)
	if log := e.log.String(); log != "" {
		t.Errorf("logged: %s", log)
	}
}

func TestAConfigurationThatCannotWorkIsRefused(t *testing.T) {
	good := newEdge(t).cfg
	for name, spoil := range map[string]func(*httpapi.Config){
		"no store":           func(c *httpapi.Config) { c.Sagas = nil },
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
	e := newEdge(t)
	r := e.send("GET", "/openapi.json", "")
	var doc map[string]any
	if err := json.Unmarshal(r.body, &doc); err != nil || doc["openapi"] != "3.0.3" {
		t.Errorf("got %v, openapi %v", err, doc["openapi"])
	}
	if strings.Contains(string(r.body), "x-go-") {
		t.Error("the published contract tells Go types")
	}
}
