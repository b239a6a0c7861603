package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/skald-saga/skald/internal/test/apitest"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// innards are traces of the implementation that no answer to a client may contain. Nothing that the
// test sends matches them, so repeating input to the client is not reported as a leak.
var innards = regexp.MustCompile(`goroutine \d|\.go:\d|SQLSTATE|\bpq: |pgx|openapi3|runtime error|panic|json: |strconv|` +
	`invalid input syntax|violates|relation "|/work/|/root/|/home/|/tmp/|github\.com/(getkin|lib|jackc)|0x[0-9a-f]{8}`)

// declared are the 503 codes that an input may get from a healthy server, because the feature that
// it requests is not configured.
var declared = map[string]bool{"DLQ_NO_KAFKA": true}

// badServer is the real binary with a database of its own, and the requests sent to it.
type badServer struct {
	t      *testing.T
	url    string
	log    string // the path of its log
	key    string
	client *http.Client

	mu     sync.Mutex
	kinds  map[string]int // kind → answers
	faults int
}

func TestEveryKindOfBadInputIsRefusedByEveryOperation(t *testing.T) {
	s := newBadServer(t)
	doc := apitest.OpenapiYAML(t)
	// The operations of a group run one after the other: concurrent requests that change the same
	// thing would be told to retry.
	work := make(chan []badRequest)
	var workers sync.WaitGroup
	for range 6 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for requests := range work {
				for _, r := range requests {
					s.try(r)
				}
			}
		}()
	}
	operations, requests := 0, 0
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if path == "/metrics" {
				continue // which has no problem documents
			}
			all := badRequests(method, path, item, op)
			operations, requests = operations+1, requests+len(all)
			work <- all
		}
	}
	close(work)
	workers.Wait()
	t.Logf("%d operations, %d kinds, %d requests", operations, len(s.kinds), requests)
	if operations < 150 || requests < 50*operations {
		t.Errorf("%d operations, %d requests: the catalogue is not applied", operations, requests)
	}
	for _, kind := range everyKind() {
		if s.kinds[kind] == 0 {
			t.Errorf("no operation was asked in the way of %q", kind)
		}
	}
	r := s.send(badRequest{kind: "none", method: "GET", path: "/readyz"})
	if r.status != http.StatusOK {
		t.Errorf("afterwards /readyz answers %d %s", r.status, r.body)
	}
}

// newBadServer starts the binary with credentials required.
func newBadServer(t *testing.T) *badServer {
	t.Helper()
	out, code := run(t, nil, "key", "generate")
	if code != 0 {
		t.Fatalf("key generate: %s", out)
	}
	s := &badServer{t: t, key: regexp.MustCompile(`sk_\S+|skald_\S+`).FindString(out), kinds: map[string]int{}}
	t.Cleanup(func() { // after the server has stopped
		if s.log != "" {
			s.readLog()
		}
	})
	s.url, s.log = serve(t, testdb.DSN(t),
		[]string{"SKALD_DATABASE_MAX_OPEN_CONNS=20", "SKALD_BOOTSTRAP_ADMIN_KEY=" + s.key})
	transport := &http.Transport{MaxIdleConnsPerHost: 8, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	s.client = &http.Client{Transport: apitest.Checked(t, unfollowed{transport}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return s
}

// unfollowed ends a stream after its headers, because it would not end on its own.
type unfollowed struct{ next http.RoundTripper }

func (u unfollowed) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := u.next.RoundTrip(req)
	if err == nil && strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		res.Body.Close()
		res.Body = io.NopCloser(strings.NewReader(""))
	}
	return res, err
}

// badRequest is one request of the catalogue.
type badRequest struct {
	kind, method, path string // the path is escaped and includes the query
	media, body        string
	header             [][2]string
	// closes reports whether the server may close the connection before it has read everything.
	closes bool
}

type badAnswer struct {
	status int
	media  string
	body   []byte
}

func (s *badServer) send(r badRequest) badAnswer {
	ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, s.url+r.path, strings.NewReader(r.body))
	if err != nil {
		s.t.Errorf("%s: %s %q cannot be sent: %v", r.kind, r.method, r.path, err)
		return badAnswer{}
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	if r.media != "" {
		req.Header.Set("Content-Type", r.media)
	}
	for _, h := range r.header {
		req.Header[http.CanonicalHeaderKey(h[0])] = append(req.Header[http.CanonicalHeaderKey(h[0])], h[1])
		if h[0] == "Authorization" {
			req.Header["Authorization"] = []string{h[1]}
		}
	}
	res, err := s.client.Do(req)
	if err != nil {
		if r.closes && !errors.Is(err, context.DeadlineExceeded) {
			return badAnswer{status: http.StatusRequestEntityTooLarge}
		}
		s.t.Errorf("%s: %s %s: %v", r.kind, r.method, short(r.path), err)
		return badAnswer{}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Errorf("%s: %s %s: %v", r.kind, r.method, short(r.path), err)
	}
	return badAnswer{res.StatusCode, res.Header.Get("Content-Type"), body}
}

// try sends a request. Whatever is wrong with it, the answer must be a success or a problem
// document that reveals nothing about the implementation. The transport checks the answer against
// the contract.
func (s *badServer) try(r badRequest) {
	a := s.send(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds[r.kind]++
	if a.status == 0 || a.media == "" || s.faults > 40 {
		return
	}
	wrong := ""
	var p struct {
		Type, Title, Detail, Code string
		Status                    int
	}
	if a.status >= 400 {
		switch err := json.Unmarshal(a.body, &p); {
		case a.media != "application/problem+json" || err != nil:
			wrong = "is not a problem document"
		case p.Status != a.status || p.Code == "" || p.Title == "" || p.Detail == "",
			!strings.HasSuffix(p.Type, "#"+strings.ToLower(p.Code)):
			wrong = "is an incomplete problem"
		case a.status >= 500 && !(a.status == http.StatusServiceUnavailable && declared[p.Code]):
			wrong = "is the server's fault"
		}
		if leak := innards.Find(a.body); leak != nil {
			wrong = "leaks " + string(leak)
		}
	}
	if wrong != "" {
		s.faults++
		s.t.Errorf("%s: %s %s %v %s\nanswers %d, which %s: %s", r.kind, r.method, short(r.path), r.header, short(r.body), a.status,
			wrong, short(string(a.body)))
	}
}

// readLog fails the test if an input made the server log an error.
func (s *badServer) readLog() {
	text, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Error(err)
	}
	lines := 0
	for _, line := range bytes.Split(text, []byte("\n")) {
		if bytes.Contains(line, []byte(`"level":"ERROR"`)) || bytes.Contains(line, []byte("level=ERROR")) ||
			bytes.Contains(line, []byte("panic")) || bytes.Contains(line, []byte("goroutine ")) {
			if lines++; lines <= 20 {
				s.t.Errorf("the server logged %s", short(string(line)))
			}
		}
	}
}

func short(text string) string {
	if len(text) > 600 {
		return text[:300] + "…" + text[len(text)-200:]
	}
	return text
}
