package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// exchange is one request at a server of bare connections.
type exchange struct {
	net.Conn
	body string
}

func (e exchange) say(status string) {
	fmt.Fprintf(e, "HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\n{}", status)
}

func (e exchange) reset() {
	_ = e.Conn.(*net.TCPConn).SetLinger(0)
	_ = e.Close()
}

// serveRaw lets the scripts end the requests, one after the other, and returns how many
// requests and connections there were and whether all had the body "content".
func serveRaw(t *testing.T, script []func(exchange)) (url string, seen func() (requests, conns int, same bool)) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	requests, conns, same := 0, 0, true
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { _ = ln.Close() })
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns++
			mu.Unlock()
			serving.Go(func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					body, _ := io.ReadAll(r.Body)
					mu.Lock()
					nth := requests
					requests++
					same = same && string(body) == "content"
					mu.Unlock()
					if nth < len(script) {
						script[nth](exchange{conn, string(body)})
					}
				}
			})
		}
	})
	return "http://" + ln.Addr().String(), func() (int, int, bool) {
		mu.Lock()
		defer mu.Unlock()
		return requests, conns, same
	}
}

func TestWhatAKeptConnectionLosesIsSentOnceMore(t *testing.T) {
	policy, err := NewPolicy(nil, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	ok := func(e exchange) { e.say("200 OK") }
	hangUp := func(e exchange) { _ = e.Close() }
	half := func(e exchange) { fmt.Fprint(e, "HTTP/1.1 2"); _ = e.Close() }
	silent := func(e exchange) { _, _ = e.Read(make([]byte, 1)) } // until the client gives up
	for _, tt := range []struct {
		name     string
		script   []func(exchange) // how the requests end
		calls    int              // the last one is judged
		status   int              // 0: an error
		repeated bool
		conns    int
	}{
		{"closed", []func(exchange){ok, hangUp, ok}, 2, 200, true, 2},
		{"reset", []func(exchange){ok, exchange.reset, ok}, 2, 200, true, 2},
		{"closed, then refused", []func(exchange){ok, hangUp, func(e exchange) { e.say("404 Not Found") }}, 2, 404, true, 2},
		{"closed twice", []func(exchange){ok, hangUp, hangUp}, 2, 0, true, 2},
		{"closed within an answer", []func(exchange){ok, half}, 2, 0, false, 1},
		{"too late", []func(exchange){ok, silent}, 2, 0, false, 1},
		{"a new connection closed", []func(exchange){hangUp}, 1, 0, false, 1},
		{"a new connection reset", []func(exchange){exchange.reset}, 1, 0, false, 1},
	} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
			t.Run(method+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				url, seen := serveRaw(t, tt.script)
				c := policy.NewClient(time.Minute, 2, nil)
				defer c.Close()
				status, repeated := 0, false
				for i := range tt.calls {
					if tt.name == "too late" && i == 1 {
						c.timeout = 100 * time.Millisecond
					}
					req, err := http.NewRequest(method, url, http.NoBody)
					if err != nil {
						t.Fatal(err)
					}
					req.Header.Set("Idempotency-Key", "k") // what makes net/http repeat a request on its own
					var res *http.Response
					res, repeated, err = c.Send(req, []byte("content"))
					if status = 0; err == nil {
						status = res.StatusCode
						_, _ = io.Copy(io.Discard, res.Body)
						_ = res.Body.Close()
					}
				}
				requests, conns, same := seen()
				if status != tt.status || repeated != tt.repeated || conns != tt.conns || requests > len(tt.script) ||
					requests < len(tt.script) && tt.name != "too late" || !same {
					t.Errorf("status %d, repeated %t, %d requests over %d connections, equal bytes %t; want %d, %t, %d over %d",
						status, repeated, requests, conns, same, tt.status, tt.repeated, len(tt.script), tt.conns)
				}
			})
		}
	}
}

// Over HTTP/2 the end of a stream is the answer of a server that lives.
func TestAStreamThatEndsIsNotSentAgain(t *testing.T) {
	var requests atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	policy, err := NewPolicy(nil, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	trusted := srv.Client().Transport.(*http.Transport).TLSClientConfig
	c := policy.NewClient(time.Minute, 2, func() *tls.Config { return trusted })
	defer c.Close()
	for i := range 2 {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, srv.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, repeated, err := c.Send(req, []byte("content"))
		if repeated || (err == nil) != (i == 0) {
			t.Errorf("request %d: repeated %t, %v", i+1, repeated, err)
		}
		if err == nil {
			if res.ProtoMajor != 2 {
				t.Fatalf("HTTP/%d", res.ProtoMajor)
			}
			_ = res.Body.Close()
		}
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}
