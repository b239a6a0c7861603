package httpapi_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/httpkit/ratelimit"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestRequestsOverTheLimitGetRetryAfter(t *testing.T) {
	t.Parallel()
	now, limited := time.Unix(1e9, 0), map[string]int{}
	e := apitest.NewEdge(t, func(c *httpapi.Config) {
		c.Limiter = ratelimit.New(ratelimit.Limits{Key: 50, Creates: 4}, func() time.Time { return now })
		c.Limited = func(limit string) { limited[limit]++ }
	})
	const body = `{"steps":[{"name":"a","action":{"http":{"url":"http://127.0.0.1:9/"}},"compensation":"none"}]}`
	for i := range 8 { // i creates were counted before it, and four a second come back
		left := `"creates";r=` + strconv.Itoa(7-i) + `;t=` + strconv.Itoa((i+3)/4)
		if i == 0 {
			left = `"key";r=99;t=0`
		}
		r := e.Send("POST", apitest.SagasPath, body)
		if r.Status != http.StatusCreated || r.Header.Get("RateLimit") != left ||
			r.Header.Get("RateLimit-Policy") != `"key";q=100;w=2, "creates";q=8;w=2` {
			t.Fatalf("saga %d: %d %v %s; want %s", i, r.Status, r.Header, r.Body, left)
		}
	}
	r := e.Send("POST", apitest.SagasPath, body)
	p := r.Wants(http.StatusTooManyRequests, "REQ_RATE_LIMITED")
	if r.Header.Get("Retry-After") != "1" || !strings.Contains(p.Detail, `"creates"`) || limited["creates"] != 1 {
		t.Errorf("refused with %v %+v, counted %v", r.Header, p, limited)
	}
	for i := range 92 { // operations that create nothing continue, up to the credential's own limit
		if r := e.Send("GET", apitest.SagasPath, ""); r.Status != http.StatusOK {
			t.Fatalf("read %d: %d %s", i, r.Status, r.Body)
		}
	}
	e.Send("GET", apitest.SagasPath, "").Wants(http.StatusTooManyRequests, "REQ_RATE_LIMITED")
	for _, path := range []string{"/healthz", "/readyz", "/version", "/openapi.json"} {
		if r := e.Send("GET", path, ""); r.Status != http.StatusOK || r.Header.Get("RateLimit") != "" {
			t.Errorf("%s, which needs no credential: %d %v", path, r.Status, r.Header)
		}
	}
	now = now.Add(249 * time.Millisecond)
	e.Send("POST", apitest.SagasPath, body).Wants(http.StatusTooManyRequests, "REQ_RATE_LIMITED")
	now = now.Add(time.Second - 249*time.Millisecond) // what Retry-After said
	for i := range 4 {
		if r := e.Send("POST", apitest.SagasPath, body); r.Status != http.StatusCreated {
			t.Errorf("saga %d after the wait: %d %s", i, r.Status, r.Body)
		}
	}
	e.Send("POST", apitest.SagasPath, body).Wants(http.StatusTooManyRequests, "REQ_RATE_LIMITED")
}

func TestWithoutLimitsThereAreNoRateLimitHeaders(t *testing.T) {
	t.Parallel()
	e := apitest.NewEdge(t)
	r := e.Send("GET", apitest.SagasPath, "")
	if r.Header.Get("RateLimit") != "" || r.Header.Get("RateLimit-Policy") != "" {
		t.Errorf("headers %v", r.Header)
	}
}
