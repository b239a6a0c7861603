// Package uitest runs a complete Skald server, with its API and its pages and its own database, for
// tests of the pages.
package uitest

import (
	"bytes"
	"context"
	"encoding/json"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Server is a Skald server that runs in this process until the test ends.
type Server struct {
	URL string
	// Participant is the URL of a participant that answers every call with 200, unless the path
	// names another status ("/503/reserve").
	Participant string
	Key         string // the API key that Call sends; "" means none
	Token       string // a person's token, which Call sends instead; "" means none
	logs        *buffer
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Start starts a server with the test configuration, which change modifies first. One server suits
// many cases: start at most one per test function.
func Start(t testing.TB, change ...func(*config.Config)) *Server {
	t.Helper()
	s := &Server{logs: &buffer{}}
	participant := httptest.NewServer(http.HandlerFunc(participate))
	t.Cleanup(participant.Close)
	s.Participant = participant.URL
	cfg := config.Default(config.Test)
	cfg.Database.URL = config.Secret(testdb.DSN(t))
	cfg.Server.ListenAddr = "127.0.0.1:0"
	cfg.DLQ.AutoRetry = false // letters are not retried automatically; tests of automatic retries turn them on
	for _, f := range change {
		f(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- app.Run(ctx, cfg, app.Options{
			EUID: 1000, // tests may run as root, which is not allowed to run programs
			Log:  slog.New(slog.NewJSONHandler(s.logs, nil)), Ready: func(url string) { ready <- url },
		})
	}()
	select {
	case s.URL = <-ready:
	case err := <-ended:
		cancel()
		t.Fatalf("Skald did not start: %v\n%s", err, s.logs)
	case <-patience.Context(t).Done():
		cancel()
		t.Fatalf("Skald did not become ready:\n%s", s.logs)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Skald ended with %v", err)
		}
	})
	return s
}

func participate(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	status := http.StatusOK
	switch first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); first {
	case "409":
		status = http.StatusConflict
	case "503":
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"reservation": 9007199254740993}`)
}

// Call sends a request to the API, with body as JSON unless it is nil, and returns the status and
// the decoded response. Numbers keep their digits.
func (s *Server) Call(t testing.TB, method, path string, body any) (int, map[string]any) {
	t.Helper()
	var raw io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		raw = bytes.NewReader(text)
	}
	req, err := http.NewRequest(method, s.URL+"/api/v1"+path, raw)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPatch {
		req.Header.Set("If-Match", "*")
	}
	switch {
	case s.Token != "":
		req.Header.Set("Authorization", "Bearer "+s.Token)
	case s.Key != "":
		req.Header.Set("X-API-Key", s.Key)
	}
	status, text := s.send(t, req)
	var doc map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil && text != "" {
		t.Fatalf("%s %s: %d %s: %v", method, path, status, text, err)
	}
	return status, doc
}

// Logs returns what the server has logged.
func (s *Server) Logs() string { return s.logs.String() }

// Must is Call for a request that must succeed.
func (s *Server) Must(t testing.TB, method, path string, body any) map[string]any {
	t.Helper()
	status, doc := s.Call(t, method, path, body)
	if status/100 != 2 {
		t.Fatalf("%s %s: %d %v", method, path, status, doc)
	}
	return doc
}

// Get fetches a page without following redirects.
func (s *Server) Get(t testing.TB, path string) (status int, page string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	status, page = s.send(t, req)
	return status, page
}

// Post sends a form in the way a browser would from a page of this server. It returns the status,
// the page, and the target of a redirect.
func (s *Server) Post(t testing.TB, path string, form url.Values) (status int, page, location string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	res, err := plain.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if showsSecret.Match(text) && res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s shows a secret but may be cached: %v", path, res.Header)
	}
	return res.StatusCode, string(text), res.Header.Get("Location")
}

// showsSecret matches a page that shows a new webhook secret or a new API key.
var showsSecret = regexp.MustCompile(`whsec_[A-Za-z0-9+/]{20}|SKALD_API_KEY=\w`)

// plain follows no redirects.
var plain = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func (s *Server) send(t testing.TB, req *http.Request) (int, string) {
	t.Helper()
	res, err := plain.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// Form returns the hidden fields of an action's form on a page; a POST has to send them back.
func Form(page string) url.Values {
	form := url.Values{}
	for _, part := range strings.Split(page, `<input type="hidden" name="`)[1:] {
		name, rest, _ := strings.Cut(part, `"`)
		_, rest, _ = strings.Cut(rest, `value="`)
		value, _, _ := strings.Cut(rest, `"`)
		form.Set(name, html.UnescapeString(value))
	}
	return form
}
