package participant

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/skald-saga/skald/internal/egress"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// benchServer turns the test binary into a participant, so that benchmarks measure only the caller.
const benchServer = "TEST_BENCH_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(benchServer) != "" {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"reservation_id":"r-12345","ok":true}`)
		}))
		fmt.Println(srv.URL)
		io.Copy(io.Discard, os.Stdin) // until the parent ends
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

var (
	instant = time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.FixedZone("", 3600))
	testID  = uuid.MustParse("0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b")
)

// newClient returns a client that may call loopback addresses. Its clock is stopped.
func newClient(t testing.TB, change func(*Config)) *Client {
	t.Helper()
	policy, err := egress.NewPolicy(nil, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Policy: policy, Version: "1.2.3", Now: func() time.Time { return instant }}
	if change != nil {
		change(&cfg)
	}
	c := New(cfg)
	t.Cleanup(c.Close)
	return c
}

func callTo(url string) saga.Call {
	return saga.Call{
		SagaID: testID, Step: "reserve-stock", Action: saga.Execute, Attempt: 1, Fence: 7,
		Key:     testID.String() + "/reserve-stock/execute",
		Body:    []byte(`{"saga_id":"` + testID.String() + `","payload":{"order_id":"A-1"},"outputs":{}}`),
		By:      workflow.Call{HTTP: &workflow.HTTPCall{Method: "POST", URL: url}},
		Timeout: time.Minute,
	}
}

// rawServer is a participant that controls every byte. It counts what it receives and passes each
// request to its script.
type rawServer struct {
	net.Listener
	mu       sync.Mutex
	conns    int      // accepted connections; guarded by mu
	requests []string // every completely received request, head and body; guarded by mu
}

// exchange is one request that a rawServer has received completely.
type exchange struct {
	net.Conn
	head string
	body []byte
	nth  int // number among all requests, from 1
}

func (e exchange) say(answer string) { io.WriteString(e, answer) }

// reset closes the connection so that the other end receives a reset.
func (e exchange) reset() {
	e.Conn.(*net.TCPConn).SetLinger(0)
	e.Close()
}

// serveRaw runs script for each request until it returns false, then closes the connection.
func serveRaw(t testing.TB, script func(exchange) bool) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{Listener: l}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns++
			s.mu.Unlock()
			running.Go(func() { s.serve(conn, script) })
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return s
}

func (s *rawServer) serve(conn net.Conn, script func(exchange) bool) {
	defer conn.Close()
	var raw bytes.Buffer
	r := bufio.NewReader(io.TeeReader(conn, &raw))
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.requests = append(s.requests, raw.String())
		e := exchange{Conn: conn, body: body, nth: len(s.requests)}
		e.head, _, _ = strings.Cut(raw.String(), "\r\n\r\n")
		s.mu.Unlock()
		raw.Reset()
		if !script(e) {
			return
		}
	}
}

func (s *rawServer) url() string { return "http://" + s.Addr().String() }

// seen returns how many requests and connections the server has had.
func (s *rawServer) seen() (requests, conns int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests), s.conns
}
