package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/apitest"
)

// The draft of Idempotency-Key puts the key in quotes, but most clients omit them. Both forms are
// the same key.
func TestAQuotedIdempotencyKeyIsTheSameKey(t *testing.T) {
	t.Parallel()
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	for _, keys := range [][3]string{ // the first two are the same key, the third is another
		{`k1`, `"k1"`, `""k1""`},
		{`"k2"`, `k2`, `"k2`},
		{`"`, `"""`, `"x"`},
	} {
		start := func(key string) (string, apitest.Reply) {
			var s struct {
				ID string `json:"saga_id"`
			}
			r := e.Send("POST", apitest.SagasPath, `{"workflow_name":"order"}`, "Idempotency-Key", key)
			if r.Into(&s); s.ID == "" {
				t.Fatalf("%s: %d %s", key, r.Status, r.Body)
			}
			return s.ID, r
		}
		first, _ := start(keys[0])
		again, r := start(keys[1])
		if again != first || r.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s and %s: two sagas", keys[0], keys[1])
		}
		if other, _ := start(keys[2]); other == first {
			t.Errorf("%s and %s: one saga", keys[0], keys[2])
		}
		hook := func(key string) apitest.Reply { // whose response is kept with the key
			return e.Send("POST", "/api/v1/webhooks", hookBody, "Idempotency-Key", key)
		}
		hook(keys[0])
		hook(keys[1]).Wants(http.StatusConflict, "REQ_IDEMPOTENCY_ANSWER_NOT_KEPT")
		if r := hook(keys[2]); r.Status != http.StatusCreated {
			t.Errorf("%s: %d %s", keys[2], r.Status, r.Body)
		}
	}
}

// A problem document repeats only as much of a path as a real one has.
func TestTheInstanceOfAProblemIsBounded(t *testing.T) {
	t.Parallel()
	e := apitest.NewEdge(t)
	for path, want := range map[string]string{
		"/nothing":                           "/nothing",
		"/" + strings.Repeat("x", 900):       "/" + strings.Repeat("x", 254),
		"/a" + strings.Repeat("%C3%BC", 100): "/a" + strings.Repeat("%C3%BC", 42) + "%",
		"/abc" + strings.Repeat("%2F", 1000): "/abc" + strings.Repeat("%2F", 83),
	} {
		var p struct{ Instance string }
		e.Send("GET", path, "").Into(&p)
		if p.Instance != strings.TrimSuffix(want, "%") {
			t.Errorf("%.20s…: %s", path, p.Instance)
		}
	}
}

// The body of a PATCH is a JSON merge patch, which may have its own media type. Other media types
// are refused.
func TestPatchesHaveTheirOwnMediaType(t *testing.T) {
	t.Parallel()
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	saga := apitest.SagasPath + "/" + e.Start(`{"workflow_name":"order"}`).SagaID.String()
	for _, tt := range []struct {
		method, path, body, media string
		status                    int
	}{
		{"PATCH", saga, `{"note":"look"}`, "application/json", http.StatusOK},
		{"PATCH", saga, `{"note":"look"}`, "application/merge-patch+json", http.StatusOK},
		{"PATCH", saga, `{"note":"look"}`, "Application/Merge-Patch+JSON; charset=UTF-8", http.StatusOK},
		{"PATCH", saga, `{"note":7}`, "application/merge-patch+json", http.StatusUnprocessableEntity},
		{"PATCH", saga, `{"note":"a","note":"b"}`, "application/merge-patch+json", http.StatusBadRequest},
		{"PATCH", saga, `[]`, "application/json-patch+json", http.StatusUnsupportedMediaType},
		{"POST", apitest.SagasPath, `{"workflow_name":"order"}`, "application/merge-patch+json", http.StatusUnsupportedMediaType},
	} {
		if r := e.Send(tt.method, tt.path, tt.body, "Content-Type", tt.media, "If-Match", "*"); r.Status != tt.status {
			t.Errorf("%s %s as %s: %d %s", tt.method, tt.body, tt.media, r.Status, r.Body)
		}
	}
}

// Accept chooses among formats but never causes a refusal: a client that asks for an image gets
// JSON, labeled as JSON.
func TestAcceptRefusesNothing(t *testing.T) {
	t.Parallel()
	e := apitest.NewEdge(t)
	for path, want := range map[string]string{
		apitest.SagasPath: "application/json", "/api/v1/nothing": "application/problem+json",
	} {
		plain := e.Send("GET", path, "")
		for _, accept := range []string{"image/png", "application/json;q=0", "text/*", "nonsense"} {
			r := e.Send("GET", path, "", "Accept", accept)
			if media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); r.Status != plain.Status || media != want {
				t.Errorf("%s, Accept %s: %d %s, want %d %s", path, accept, r.Status, media, plain.Status, want)
			}
		}
	}
}
