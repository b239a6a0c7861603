package stub

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/saga/certification/player"
	"github.com/skald-saga/skald/internal/test/patience"
)

func TestItMisbehavesOnRequest(t *testing.T) {
	handler, err := New(Config{Script: Script{"ship/execute": {"error", "busy", "ok"}}})
	if err != nil {
		t.Fatal(err)
	}
	for n, tt := range []struct {
		step, fault, key string
		status           int
	}{
		{"charge", "", "a", 200},
		{"charge", "refuse", "b", 409},
		{"charge", "error", "b", 500},
		{"charge", "busy", "b", 429},
		{"charge", "sleep", "b", 400},
		{"charge", "", "", 400},
		{"ship", "", "c", 500},
		{"ship", "", "c", 429},
		{"ship", "", "c", 200},
		{"ship", "", "c", 200},
		{"ship", "refuse", "c", 409},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader("{}"))
		r.Header.Set("X-Saga-Step", tt.step)
		r.Header.Set("X-Saga-Action", "execute")
		r.Header.Set("Idempotency-Key", tt.key)
		r.Header.Set(Header, tt.fault)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != tt.status || w.Code == 429 && w.Header().Get("Retry-After") == "" {
			t.Errorf("call %d: %d %s; want %d", n+1, w.Code, w.Body, tt.status)
		}
	}
	for _, bad := range []Config{
		{Rates: map[string]float64{"explode": 0.1}}, {Rates: map[string]float64{"lose": 0.6, "busy": 0.6}},
		{Script: Script{"a/execute": {"explode"}}},
	} {
		if _, err := New(bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// A path answers with the configured status, both to calls of sagas and to others, and shows what
// it received.
func TestAPathAnswersTheStatusThatWasSet(t *testing.T) {
	handler, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for n, step := range []struct {
		method, path, body, key string
		status                  int
		answer                  string
	}{
		{"POST", "/release", `{"a":1}`, "", 200, `{"ok":true}`},
		{"POST", "/release", `{"a":1}`, "k", 200, `{"ok":true}`},
		{"PUT", "/release", "503", "", 204, ""},
		{"PUT", "/release", "soon", "", 400, `{"error":"the body must be a status`},
		{"PUT", "/release", `{"a":2}`, "k", 503, `{"error":"told to answer 503"}`},
		{"POST", "/other", "", "", 200, `{"ok":true}`},
		{"GET", "/release", "", "", 200, `{"answer":503,"taken":2,"refused":1,"headers":{"idempotency-key":"k","x-saga-step":"s"},"body":{"a":2}}`},
		{"GET", "/release?key=k", "", "", 200, `{"effects":1}`},
		{"PUT", "/release", "201", "", 204, ""},
		{"POST", "/release", "no JSON", "k2", 201, `{"ok":true}`},
		{"GET", "/release", "", "", 200, `{"answer":201,"taken":3,"refused":1,"headers":{"idempotency-key":"k2","x-saga-step":"s"}}`},
	} {
		r := httptest.NewRequestWithContext(t.Context(), step.method, step.path, strings.NewReader(step.body))
		if step.key != "" {
			r.Header.Set("Idempotency-Key", step.key)
			r.Header.Set("X-Saga-Step", "s")
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != step.status || !strings.HasPrefix(w.Body.String(), step.answer) {
			t.Errorf("%d: %s %s %q: %d %s", n+1, step.method, step.path, step.body, w.Code, w.Body)
		}
	}
}

// Without faults the stub keeps the rules. With faults, certification finds those requested.
func TestItIsCertifiedUnlessItMisbehaves(t *testing.T) {
	for fault, want := range map[string]string{
		"ok": "", "twice": "done_twice_behind_equal_answers", "forget": "done_again",
	} {
		cfg := Config{Rates: map[string]float64{fault: 1}}
		handler, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(handler)
		report, err := player.Run(patience.Context(t), player.Config{URL: server.URL, Effects: server.URL})
		server.Close()
		if err != nil || len(report.Played) == 0 {
			t.Fatalf("%s: %v", fault, err)
		}
		found := ""
		if len(report.Findings) > 0 {
			found = report.Findings[0].Code
		}
		if found != want {
			t.Errorf("%s: found %q first; want %q\n%s", fault, found, want, report.Text())
		}
	}
}
