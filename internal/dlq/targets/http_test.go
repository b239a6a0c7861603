package targets_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/targets"
	"github.com/skald-saga/skald/internal/egress"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// httpDriver may connect to loopback addresses only if loopback is set.
func httpDriver(t *testing.T, loopback bool, timeout time.Duration, atOnce int) *targets.HTTP {
	t.Helper()
	policy, err := egress.NewPolicy(nil, nil, loopback)
	if err != nil {
		t.Fatal(err)
	}
	h := targets.NewHTTP(targets.HTTPConfig{
		Policy: policy, Timeout: timeout, Concurrency: atOnce, Version: "1.2.3", Now: time.Now,
		Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(h.Close)
	return h
}

func parcel(url string, payload string, headers ...dlq.Header) dlq.Drive {
	id, content := uuid.New(), dlq.Content{Payload: []byte(payload), Headers: headers}
	return dlq.Drive{
		Letter: dlq.Letter{ID: id, RootID: id, Generation: 2, OriginalTopic: "ordérs", Content: content}, Number: 4,
		Send: content, To: dlq.Target{Kind: dlq.ToHTTP, URL: url},
	}
}

func serve(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

func TestARequestCarriesThePayloadAndTheLettersID(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	})
	h := httpDriver(t, true, time.Second, 0)
	d := parcel(url+"/in?a=1", `{"n":1.00}`, dlq.Header{Name: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")})
	d.RedriveID = uuid.New()
	r := h.Drive(t.Context(), []dlq.Drive{d})[0]
	want := r
	want.Outcome, want.StatusCode, want.Error = dlq.Acknowledged, 200, ""
	if diff := cmp.Diff(want, r); diff != "" {
		t.Fatalf("the result (-want +got):\n%s", diff)
	}
	if r.StartedAt.IsZero() || r.EndedAt.Before(r.StartedAt) {
		t.Fatalf("from %s to %s", r.StartedAt, r.EndedAt)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "skald/1.2.3", "Idempotency-Key": d.RootID.String() +
			"/2", targets.HeaderMessageID: d.RootID.String(),
		targets.HeaderGeneration: "2", targets.HeaderRevision: "0", targets.HeaderAttempt: "4",
		targets.HeaderRedriveID: d.RedriveID.String(), targets.HeaderOriginalTopic: "ord%C3%A9rs",
		"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Header.Get(name), want)
		}
	}
	if got.Method != "POST" || got.RequestURI != "/in?a=1" || string(body) != `{"n":1.00}` {
		t.Errorf("%s %s %s", got.Method, got.RequestURI, body)
	}
}

func TestTheContentTypeIsTheRecordsOrGuessedFromThePayload(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got.Store(r.Header.Get("Content-Type")) })
	h := httpDriver(t, true, time.Second, 0)
	for _, tt := range []struct{ name, payload, header, want string }{
		{"its own", `{}`, "application/vnd.a+json; v=1", "application/vnd.a+json; v=1"},
		{"none that is one", `{}`, "a\r\nX: y", "application/json"},
		{"JSON", `{}`, "", "application/json"},
		{"text", "hello", "", "text/plain; charset=utf-8"},
		{"bytes", "\xff\x00", "", "application/octet-stream"},
	} {
		d := parcel(url, tt.payload)
		if tt.header != "" {
			d.Send.Headers = []dlq.Header{{Name: "content-type", Value: []byte(tt.header)}}
		}
		if r := h.Drive(t.Context(), []dlq.Drive{d})[0]; r.Outcome != dlq.Acknowledged || got.Load() != tt.want {
			t.Errorf("%s: %+v, %q; want %q", tt.name, r, got.Load(), tt.want)
		}
	}
}

func TestOutcomesOfHTTPResponses(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]dlq.AttemptOutcome{
		200: dlq.Acknowledged, 204: dlq.Acknowledged, 400: dlq.FailedDrive, 404: dlq.FailedDrive, 408: dlq.FailedDrive,
		425: dlq.FailedDrive, 429: dlq.FailedDrive,
		503: dlq.FailedDrive, 500: dlq.Uncertain, 502: dlq.Uncertain, 504: dlq.Uncertain, 302: dlq.Uncertain,
	} {
		asked := new(atomic.Int32)
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
			if code >= 300 {
				_, _ = w.Write([]byte(strings.Repeat("é\x00", 10_000)))
			}
		})
		r := httpDriver(t, true, time.Second, 0).Drive(t.Context(), []dlq.Drive{parcel(url, "{}")})[0]
		if r.Outcome != want || r.StatusCode != code || asked.Load() != 1 {
			t.Errorf("%d: %s %d after %d requests, want %s", code, r.Outcome, r.StatusCode, asked.Load(), want)
		}
		if (want != dlq.Acknowledged) != strings.HasPrefix(r.Error, "the target answered ") || len(r.Error) > 600 ||
			r.Error != dlq.Storable(r.Error, 600) {
			t.Errorf("%d: %q", code, r.Error)
		}
	}
}

func TestARequestThatWasNeverSentHasFailedAndOthersAreUncertain(t *testing.T) {
	t.Parallel()
	nobody := "http://" + testnet.ClosedAddress(t)
	reset := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			c.Close()
		}
	})
	late := make(chan struct{})
	slow := serve(t, func(http.ResponseWriter, *http.Request) { <-late })
	t.Cleanup(func() { close(late) }) // before its server is closed
	for _, tt := range []struct {
		name, url string
		loopback  bool
		want      dlq.AttemptOutcome
	}{
		{"nobody listens", nobody, true, dlq.FailedDrive},
		{"the policy refuses", nobody, false, dlq.FailedDrive},
		{"not a URL", "http://a b", true, dlq.FailedDrive},
		{"reset after it was sent", reset, true, dlq.Uncertain},
		{"no answer in time", slow, true, dlq.Uncertain},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httpDriver(t, tt.loopback, 300*time.Millisecond, 0).Drive(t.Context(), []dlq.Drive{parcel(tt.url, "{}")})[0]
			if r.Outcome != tt.want || r.Error == "" || strings.Contains(r.Error, "127.0.0.1") {
				t.Errorf("%s %q, want %s and words without addresses", r.Outcome, r.Error, tt.want)
			}
		})
	}
}

func TestConcurrentRequestsAreBoundedAndTheRestIsWithdrawnWhenTheNodeStops(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int32
	arrived := make(chan struct{}, 10)
	hold := make(chan struct{})
	url := serve(t, func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		arrived <- struct{}{}
		<-hold
	})
	ctx, stop := context.WithCancel(t.Context())
	var batch []dlq.Drive
	for range 5 {
		batch = append(batch, parcel(url, "{}"))
	}
	done := make(chan []dlq.Result)
	go func() { done <- httpDriver(t, true, time.Minute, 2).Drive(ctx, batch) }()
	<-arrived
	<-arrived
	stop()
	count := map[dlq.AttemptOutcome]int{}
	for _, r := range <-done {
		count[r.Outcome]++
	}
	close(hold)
	if count[dlq.Uncertain] != 2 || count[dlq.Withdrawn] != 3 || most.Load() != 2 {
		t.Errorf("%v, %d at once; want 2 uncertain, 3 withdrawn, 2 at once", count, most.Load())
	}
}

// These are the responses with which a target asks for a pause, which are the same that steps
// honour.
func TestATargetSaysWhenToComeBack(t *testing.T) {
	t.Parallel()
	var status atomic.Int32
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(int(status.Load()))
	})
	h := httpDriver(t, true, time.Minute, 1)
	for code, want := range map[int32]time.Duration{
		200: 0, 400: 0, 404: 0, 408: 10 * time.Minute, 425: 10 * time.Minute, 429: 10 * time.Minute, 500: 0,
		502: 0, 503: 10 * time.Minute,
	} {
		status.Store(code)
		if r := h.Drive(t.Context(), []dlq.Drive{parcel(url, "{}")})[0]; r.RetryAfter != want || r.StatusCode != int(code) {
			t.Errorf("%d: come back after %v, want %v (%d)", code, r.RetryAfter, want, r.StatusCode)
		}
	}
}

// A target that closes idle connections sometimes closes one just when it is used. The letter is
// then sent once more, and unless that is acknowledged, the first transmission may have arrived.
func TestALetterThatAKeptConnectionLosesIsSentOnceMore(t *testing.T) {
	t.Parallel()
	const closed = 0
	for name, tt := range map[string]struct {
		answers []int // of the requests after the first, which leaves a connection
		want    dlq.AttemptOutcome
	}{
		"then taken":      {[]int{closed, 200}, dlq.Acknowledged},
		"then refused":    {[]int{closed, 404}, dlq.Uncertain},
		"then too busy":   {[]int{closed, 503}, dlq.Uncertain},
		"then lost again": {[]int{closed, closed}, dlq.Uncertain},
		"refused at once": {[]int{404}, dlq.FailedDrive},
	} {
		var requests atomic.Int32
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			n := int(requests.Add(1)) - 2
			if n < 0 {
				return
			}
			if tt.answers[n] == closed {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(tt.answers[n])
		})
		h := httpDriver(t, true, time.Minute, 0)
		if r := h.Drive(t.Context(), []dlq.Drive{parcel(url, "{}")})[0]; r.Outcome != dlq.Acknowledged {
			t.Fatalf("%s: the first letter: %+v", name, r)
		}
		r := h.Drive(t.Context(), []dlq.Drive{parcel(url, "{}")})[0]
		if n := int(requests.Load()); r.Outcome != tt.want || n != 1+len(tt.answers) {
			t.Errorf("%s: %s after %d requests, want %s after %d", name, r.Outcome, n, tt.want, 1+len(tt.answers))
		}
	}
}
