package participant

import (
	"bytes"
	"context"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
)

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

func wantDone(t *testing.T, o saga.Outcome) {
	t.Helper()
	if o.Verdict != saga.Done {
		t.Fatalf("verdict %d, %s: %s; want done", o.Verdict, o.Code, o.Message)
	}
}

func wantSeen(t *testing.T, s *rawServer, requests, conns int) {
	t.Helper()
	if r, c := s.seen(); r != requests || c != conns {
		t.Errorf("the participant got %d requests over %d connections, want %d over %d", r, c, requests, conns)
	}
}

// A participant may close a kept-alive connection at the moment it is used (trap X45). The request
// is sent a second time over a new connection, but only in this case.
func TestWhatAKeptConnectionLosesIsSentOnceMore(t *testing.T) {
	hangUp := func(e exchange) { e.Close() }
	halfAnAnswer := func(e exchange) { e.say("HTTP/1.1 200"); e.Close() }
	says := func(answer string) func(exchange) { return func(e exchange) { e.say(answer) } }
	done := saga.Outcome{Verdict: saga.Done}
	lost := saga.Outcome{Verdict: saga.Unknown, Class: retry.Network, Code: CodeConnectionLost}
	doubted := func(o saga.Outcome) saga.Outcome { o.InDoubt = true; return o }
	refused := saga.Outcome{Verdict: saga.Refused, Class: retry.Refused, Code: "http_404"}
	busy := saga.Outcome{Verdict: saga.NotApplied, Class: retry.Unavailable, Code: "http_429"}
	for _, tt := range []struct {
		name   string
		kept   bool             // an earlier call has left a connection
		script []func(exchange) // how the call's requests end
		want   saga.Outcome
	}{
		{"closed", true, []func(exchange){hangUp, says(okAnswer)}, done},
		{"reset", true, []func(exchange){exchange.reset, says(okAnswer)}, done},
		{"closed, then refused by somebody", true, []func(exchange){hangUp, says(response("404 Not Found", "", ""))}, doubted(refused)},
		{"closed, then too busy", true, []func(exchange){hangUp, says(response("429 Too Many Requests", "", ""))}, doubted(busy)},
		{"closed twice", true, []func(exchange){hangUp, hangUp}, doubted(lost)},
		{"closed after half an answer", true, []func(exchange){halfAnAnswer}, lost},
		{"a new connection closed", false, []func(exchange){hangUp}, lost},
		{"a new connection reset", false, []func(exchange){exchange.reset}, lost},
	} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			t.Run(method+" "+tt.name, func(t *testing.T) {
				before := 0
				srv := serveRaw(t, func(e exchange) bool {
					if e.nth == before {
						e.say(okAnswer)
						return true
					}
					tt.script[e.nth-before-1](e)
					return false
				})
				c := newClient(t, nil)
				call := callTo(srv.url())
				call.By.HTTP.Method = method
				if tt.kept {
					before = 1
					wantDone(t, c.Call(t.Context(), call))
					call.Attempt = 2
				}
				o := c.Call(t.Context(), call)
				got := saga.Outcome{Verdict: o.Verdict, Class: o.Class, Code: o.Code, InDoubt: o.InDoubt}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", o.Message, diff)
				}
				wantSeen(t, srv, before+len(tt.script), len(tt.script))
				if n := len(tt.script); n > 1 && srv.requests[before] != srv.requests[before+1] {
					t.Errorf("it sent\n%s\nand then\n%s", srv.requests[before], srv.requests[before+1])
				}
			})
		}
	}
}

func TestALateAnswerOverAKeptConnectionIsNotAskedForAgain(t *testing.T) {
	srv := serveRaw(t, func(e exchange) bool {
		if e.nth == 2 {
			e.Read(make([]byte, 1)) // until the client gives up
			return false
		}
		e.say(okAnswer)
		return true
	})
	c := newClient(t, nil)
	call := callTo(srv.url())
	wantDone(t, c.Call(t.Context(), call))
	call.Timeout = 50 * time.Millisecond
	if o := c.Call(t.Context(), call); o.Verdict != saga.Unknown || o.Code != CodeTimeout {
		t.Errorf("verdict %d, code %s; want unknown, timeout", o.Verdict, o.Code)
	}
	wantSeen(t, srv, 2, 1)
}

func TestAConnectionThatWasClosedMeanwhileIsReplacedBeforeSending(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(exchange)
	}{
		{"closed", func(e exchange) { e.Close() }},
		{"reset", exchange.reset},
		{"closed with a word of farewell", func(e exchange) { e.say("HTTP/1.1 408 Request Timeout\r\n\r\n") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answered, over := make(chan struct{}), make(chan struct{})
			srv := serveRaw(t, func(e exchange) bool {
				e.say(okAnswer)
				if e.nth == 1 {
					<-answered // the client has returned the connection to its pool
					tt.then(e)
					close(over)
					return false
				}
				return true
			})
			c := newClient(t, nil)
			call := callTo(srv.url())
			wantDone(t, c.Call(t.Context(), call))
			close(answered)
			<-over
			wantDone(t, c.Call(t.Context(), call))
			wantSeen(t, srv, 2, 2)
		})
	}
}

func TestEveryAttemptCarriesTheSameBytes(t *testing.T) {
	srv := serveRaw(t, func(e exchange) bool {
		e.say(response([]string{"503 Service Unavailable", "429 Too Many Requests", "200 OK"}[e.nth-1], "", ""))
		return true
	})
	c := newClient(t, nil)
	call := callTo(srv.url() + "/a%2Fb?q=1")
	call.Body = []byte(`{"step":"予約","payload":{"n":1.50}}`)
	for call.Attempt = 1; call.Attempt <= 3; call.Attempt++ {
		c.Call(t.Context(), call)
	}
	wantSeen(t, srv, 3, 1)
	for i, raw := range srv.requests {
		_, body, _ := strings.Cut(raw, "\r\n\r\n")
		if body != string(call.Body) {
			t.Errorf("attempt %d sent %q, want %q", i+1, body, call.Body)
		}
		// Each attempt has its own span in the same trace.
		want := strings.Replace(srv.requests[0], "X-Saga-Attempt: 1", "X-Saga-Attempt: "+string(rune('1'+i)), 1)
		if spanless(raw) != spanless(want) {
			t.Errorf("attempt %d sent\n%s\nwant, but for the attempt and its span,\n%s", i+1, raw, want)
		}
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	var srv *rawServer
	srv = serveRaw(t, func(e exchange) bool {
		e.say(response("307 Temporary Redirect", "Location: "+srv.url()+"/again\r\n", ""))
		return true
	})
	o := newClient(t, nil).Call(t.Context(), callTo(srv.url()))
	if o.Verdict != saga.Unknown || o.Code != "http_307" {
		t.Errorf("verdict %d, code %s; want unknown, http_307", o.Verdict, o.Code)
	}
	wantSeen(t, srv, 1, 1)
}

func TestTheProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	proxy := serveRaw(t, func(e exchange) bool { e.say(okAnswer); return true })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"} {
		t.Setenv(name, proxy.url())
	}
	srv := serveRaw(t, func(e exchange) bool { e.say(okAnswer); return true })
	wantDone(t, newClient(t, nil).Call(t.Context(), callTo(srv.url())))
	wantSeen(t, srv, 1, 1)
	wantSeen(t, proxy, 0, 0)
}

func TestLargeAndEmptyBodiesArriveComplete(t *testing.T) {
	for _, size := range []int{0, 1, maxCopied, maxCopied + 1, 3 << 20} {
		body := bytes.Repeat([]byte("x"), size)
		var got []byte
		srv := serveRaw(t, func(e exchange) bool { got = e.body; e.say(okAnswer); return true })
		c := newClient(t, nil)
		call := callTo(srv.url())
		call.Body = body
		wantDone(t, c.Call(t.Context(), call))
		if !bytes.Equal(got, body) {
			t.Errorf("a body of %d bytes arrived with %d", size, len(got))
		}
	}
}

// A participant that refuses a request without reading it has refused it: its answer counts even
// though the rest of the request could not be sent.
func TestAnAnswerToHalfARequestCounts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var server sync.WaitGroup
	server.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		conn.Read(make([]byte, 1024))
		conn.Write([]byte(response("413 Content Too Large", "", `{"error":"at most 1 kB"}`)))
		conn.Close() // unread bytes cause a reset
	})
	c := newClient(t, nil)
	call := callTo("http://" + l.Addr().String())
	call.Body = bytes.Repeat([]byte("x"), 16<<20)
	o := c.Call(t.Context(), call)
	server.Wait()
	if o.Verdict != saga.Refused || o.Code != "http_413" || o.Message != "at most 1 kB" {
		t.Errorf(
			"verdict %d, code %s, message %q; want refused, http_413, the participant's message",
			o.Verdict,
			o.Code,
			o.Message,
		)
	}
	if n, _ := held(&c.idle); n != 0 {
		t.Error("the connection was kept although the request was not sent whole")
	}
}

func TestConnectionsAreReusedAndBounded(t *testing.T) {
	const workers, kept = 8, 3
	var gate sync.WaitGroup
	gate.Add(workers)
	srv := serveRaw(t, func(e exchange) bool {
		if e.nth <= workers { // the first calls all wait for each other, so each has its own connection
			gate.Done()
			gate.Wait()
		}
		e.say(okAnswer)
		return true
	})
	c := newClient(t, func(cfg *Config) { cfg.MaxIdlePerHost = kept })
	var calls sync.WaitGroup
	for range workers {
		calls.Go(func() { c.Call(t.Context(), callTo(srv.url())) })
	}
	calls.Wait()
	wantSeen(t, srv, workers, workers)
	if n, _ := held(&c.idle); n != kept {
		t.Errorf("%d connections are kept, want %d", n, kept)
	}
	for range 20 {
		wantDone(t, c.Call(t.Context(), callTo(srv.url()+"/other?path=1")))
	}
	wantSeen(t, srv, workers+20, workers)
}

func TestAClosedClientKeepsNoConnections(t *testing.T) {
	srv := serveRaw(t, func(e exchange) bool { e.say(okAnswer); return true })
	c := newClient(t, nil)
	wantDone(t, c.Call(t.Context(), callTo(srv.url())))
	c.Close()
	wantDone(t, c.Call(t.Context(), callTo(srv.url())))
	wantSeen(t, srv, 2, 2)
	if n, _ := held(&c.idle); n != 0 {
		t.Errorf("%d connections are kept by a closed client", n)
	}
}

// A deadline that passed while the connection was idle must not make it unusable.
func TestAKeptConnectionOutlivesTheDeadlineOfItsLastCall(t *testing.T) {
	srv := serveRaw(t, func(e exchange) bool { e.say(okAnswer); return true })
	c := newClient(t, nil)
	wantDone(t, c.Call(t.Context(), callTo(srv.url())))
	cn := c.idle.get(srv.url())
	if err := cn.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	c.idle.put(srv.url(), cn)
	wantDone(t, c.Call(t.Context(), callTo(srv.url())))
	wantSeen(t, srv, 2, 1)
}

func TestACanceledCallClosesItsConnection(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	srv := serveRaw(t, func(e exchange) bool {
		if e.nth == 1 {
			cancel()
			e.Read(make([]byte, 1)) // until the client closes the connection
			return false
		}
		e.say(okAnswer)
		return true
	})
	c := newClient(t, nil)
	o := c.Call(ctx, callTo(srv.url()))
	if o.Verdict != saga.Unknown || o.Class != retry.Network || o.Code != CodeAborted {
		t.Errorf("verdict %d, class %s, code %s; want unknown, network, aborted", o.Verdict, o.Class, o.Code)
	}
	o = c.Call(ctx, callTo(srv.url()))
	if o.Verdict != saga.NotApplied || o.Code != CodeAborted {
		t.Errorf("after the end: verdict %d, code %s; want not applied, aborted", o.Verdict, o.Code)
	}
	wantDone(t, c.Call(t.Context(), callTo(srv.url())))
	wantSeen(t, srv, 2, 2)
}

// The cancellation may reach the connection at any later moment, even if the answer was received
// first.
func TestAConnectionThatMayStillBeAbortedIsNotKept(t *testing.T) {
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		srv := serveRaw(t, func(e exchange) bool {
			cancel()
			e.say(okAnswer)
			return true
		})
		c := newClient(t, nil)
		o := c.Call(ctx, callTo(srv.url()))
		if o.Verdict != saga.Done && o.Code != CodeAborted {
			t.Fatalf("verdict %d, code %s; want done, or aborted", o.Verdict, o.Code)
		}
		if n, _ := held(&c.idle); n != 0 {
			t.Fatal("the connection was kept")
		}
	}
}

func TestTheCallsOfManyGoroutinesDoNotMix(t *testing.T) {
	srv := serveRaw(t, func(e exchange) bool {
		e.say(response("200 OK", "", string(e.body)))
		return true
	})
	c := newClient(t, nil)
	var calls sync.WaitGroup
	for g := range 16 {
		calls.Go(func() {
			for i := range 50 {
				call := callTo(srv.url())
				call.Body = []byte(`{"call":` + strings.Repeat("1", 1+g) + strings.Repeat("0", i) + `}`)
				if o := c.Call(t.Context(), call); string(o.Output) != string(call.Body) {
					t.Errorf("sent %s, got back %s (%s)", call.Body, o.Output, o.Message)
				}
			}
		})
	}
	calls.Wait()
}

var spans = regexp.MustCompile(`(traceparent: 00-[0-9a-f]{32}-)[0-9a-f]{16}`)

func spanless(request string) string { return spans.ReplaceAllString(request, "$1") }
