package main

import (
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAPathAnswersWhatItWasTold(t *testing.T) {
	s := &stub{paths: map[string]*path{}}
	for _, step := range []struct {
		method, path, body string
		status             int
		answer             string
	}{
		{"POST", "/release", `{"a":1}`, 200, `{"ok":true}`},
		{"PUT", "/release", "503", 204, ""},
		{"PUT", "/release", "soon", 400, "the body must be a status"},
		{"POST", "/release", `{"a":2}`, 503, `{"error":"told to answer 503"}`},
		{"POST", "/other", "", 200, `{"ok":true}`},
		{"GET", "/release", "", 200, `{"answer":503,"taken":1,"refused":1,"headers":{"x-step":"2"},"body":{"a":2}}`},
	} {
		r := httptest.NewRequestWithContext(t.Context(), step.method, step.path, strings.NewReader(step.body))
		r.Header.Set("X-Step", "2")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != step.status || !strings.HasPrefix(w.Body.String(), step.answer) {
			t.Errorf("%s %s %q: %d %s", step.method, step.path, step.body, w.Code, w.Body)
		}
	}
}
