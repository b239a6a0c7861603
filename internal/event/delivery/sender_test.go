package delivery_test

import (
	"bytes"
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

	"github.com/skald-saga/skald/api/webhooks"
	"github.com/skald-saga/skald/internal/egress"
	"github.com/skald-saga/skald/internal/event/delivery"
	"github.com/skald-saga/skald/internal/event/webhook"
)

var now = time.Now().UTC()

// sender returns a sender that may connect to loopback addresses only if loopback is set.
func sender(t *testing.T, log io.Writer, loopback bool, timeout time.Duration) *delivery.Sender {
	t.Helper()
	policy, err := egress.NewPolicy(nil, nil, loopback)
	if err != nil {
		t.Fatal(err)
	}
	s := delivery.NewSender(delivery.SenderConfig{
		Policy: policy, Timeout: timeout, Version: "1.2.3", Now: func() time.Time { return now },
		Log: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	t.Cleanup(s.Close)
	return s
}

func to(url string) *webhook.Subscription {
	return &webhook.Subscription{ID: uuid.New(), URL: url, Secrets: []webhook.Secret{{Key: bytes.Repeat([]byte("k"), 32)}}}
}

var parcel = &webhook.Delivery{ID: uuid.New(), Body: []byte(`{"specversion":"1.0"}`), Attempt: 1}

// server serves f and counts the connections.
func server(t *testing.T, f http.HandlerFunc) (url string, connections *atomic.Int32) {
	t.Helper()
	connections = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { connections.Add(1); f(w, r) }))
	t.Cleanup(s.Close)
	return s.URL, connections
}

func TestARequestIsAsDocumentedForReceivers(t *testing.T) {
	var got *http.Request
	var body []byte
	url, _ := server(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	})
	s := to(url + "/in?a=1")
	until := now.Add(time.Hour)
	s.Secrets = append(s.Secrets, webhook.Secret{Key: bytes.Repeat([]byte("o"), 32), ExpiresAt: &until})
	if o := sender(t, io.Discard, true, time.Second).Send(t.Context(), s, parcel); o != (webhook.Outcome{Status: 200}) {
		t.Fatalf("outcome %+v", o)
	}
	heard := map[string]string{
		"method": got.Method, "URI": got.RequestURI, "body": string(body), "agent": got.UserAgent(),
		"type": got.Header.Get("Content-Type"), "id": got.Header.Get(webhooks.HeaderID),
	}
	want := map[string]string{
		"method": "POST", "URI": "/in?a=1", "body": string(parcel.Body), "agent": "skald/1.2.3",
		"type": "application/cloudevents+json; charset=utf-8", "id": parcel.ID.String(),
	}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Errorf("the request (-want +got):\n%s", diff)
	}
	for _, k := range s.Secrets {
		if err := webhooks.Verify([]string{webhooks.FormatSecret(k.Key)}, got.Header, body, now); err != nil {
			t.Errorf("key %q: %v", k.Key[0], err)
		}
	}
	if n := len(strings.Fields(got.Header.Get(webhooks.HeaderSignature))); n != 2 {
		t.Errorf("%d signatures; want those of both secrets", n)
	}
}

func TestOutcomesOfResponses(t *testing.T) {
	inside, reached := server(t, func(http.ResponseWriter, *http.Request) {})
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   webhook.Outcome
	}{
		{"a redirect is not followed", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside, http.StatusTemporaryRedirect)
		}, webhook.Outcome{Status: 307}},
		{"Retry-After in seconds", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(429)
		}, webhook.Outcome{Status: 429, RetryAfter: 2 * time.Minute}},
		{"Retry-After as a date", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", now.Add(time.Hour).Format(http.TimeFormat))
			w.WriteHeader(503)
		}, webhook.Outcome{Status: 503, RetryAfter: now.Add(time.Hour).Truncate(time.Second).Sub(now)}},
		{"Retry-After that is nonsense", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "-1")
			w.WriteHeader(503)
		}, webhook.Outcome{Status: 503}},
		{"an endless answer is not read", func(w http.ResponseWriter, r *http.Request) {
			for w.WriteHeader(200); r.Context().Err() == nil; {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, webhook.Outcome{Status: 200}},
		{"a connection that breaks", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, webhook.Outcome{Error: "the connection failed"}},
		{"no answer", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the sender disconnects
			<-r.Context().Done()
		}, webhook.Outcome{Error: "no answer in time"}},
	} {
		url, calls := server(t, tt.answer)
		if got := sender(t, io.Discard, true, 300*time.Millisecond).Send(t.Context(), to(url), parcel); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
		if calls.Load() != 1 {
			t.Errorf("%s: %d requests were sent in one attempt", tt.name, calls.Load())
		}
	}
	if reached.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

func TestAFailureIsReportedWithoutAddresses(t *testing.T) {
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer secure.Close()
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	closed := httptest.NewServer(nil)
	closed.Close()
	for _, tt := range []struct{ name, url, want string }{
		{"nobody listens", closed.URL, "the connection failed"},
		{"a name that does not exist", "http://nowhere.invalid/", "the host name cannot be resolved"},
		{"a certificate nobody vouches for", secure.URL, "the TLS handshake failed: its certificate was issued by an authority that is not trusted"},
	} {
		o := sender(t, io.Discard, true, 5*time.Second).Send(t.Context(), to(tt.url), parcel)
		if o != (webhook.Outcome{Error: tt.want}) || strings.Contains(o.Error, "127.") {
			t.Errorf("%s: %+v, want %q", tt.name, o, tt.want)
		}
	}
}

func TestTheEgressPolicyIsCheckedForEveryConnection(t *testing.T) {
	decoy, reached := server(t, func(http.ResponseWriter, *http.Request) {})
	port := decoy[strings.LastIndex(decoy, ":"):]
	var log bytes.Buffer
	s := sender(t, &log, false, time.Second)
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "[::1]", "127.0.0.2"} {
		o := s.Send(t.Context(), to("http://"+host+port+"/"), parcel)
		if o.Status != 0 || o.Abandoned || o.Error != "the egress policy does not allow the address" {
			t.Errorf("%s: %+v", host, o)
		}
	}
	if reached.Load() != 0 {
		t.Errorf("the decoy got %d requests", reached.Load())
	}
	if !strings.Contains(log.String(), "loopback") {
		t.Error("the operator does not learn why")
	}
}

func TestAnAttemptThatTheNodeGivesUpIsAbandoned(t *testing.T) {
	begun := make(chan struct{})
	url, _ := server(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(begun)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	if o := sender(t, io.Discard, true, time.Minute).Send(ctx, to(url), parcel); o != (webhook.Outcome{Abandoned: true}) {
		t.Errorf("%+v", o)
	}
}

// An endpoint that closes idle connections sometimes closes a connection just when it is used. That
// does not count as an attempt.
func TestAnEventThatAKeptConnectionLosesIsSentOnceMore(t *testing.T) {
	var requests atomic.Int32
	url, _ := server(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if requests.Add(1) == 2 {
			panic(http.ErrAbortHandler)
		}
	})
	s := sender(t, io.Discard, true, time.Minute)
	for i := range 2 {
		if o := s.Send(t.Context(), to(url), parcel); o != (webhook.Outcome{Status: 200}) {
			t.Errorf("event %d: %+v", i+1, o)
		}
	}
	if n := requests.Load(); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}
