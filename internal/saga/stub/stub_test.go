package stub

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/saga/certifier"
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

// Without faults it keeps the rules, and what it does on request is what certification finds.
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
		report, err := certifier.Run(patience.Context(t), certifier.Config{URL: server.URL, Effects: server.URL})
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
