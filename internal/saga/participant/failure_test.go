package participant

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/skald-saga/skald/internal/egress"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/test/testnet"
)

func check(t *testing.T, o saga.Outcome, verdict saga.Verdict, class retry.Class, code string) {
	t.Helper()
	if o.Verdict != verdict || o.Class != class || o.Code != code {
		t.Errorf(
			"verdict %d, class %q, code %q (%s); want %d, %q, %q",
			o.Verdict,
			o.Class,
			o.Code,
			o.Message,
			verdict,
			class,
			code,
		)
	}
	if o.Message == "" || strings.Contains(o.Message, "127.0.0.1") || strings.Contains(o.Message, "169.254") {
		t.Errorf("message %q: want one, without addresses", o.Message)
	}
}

func TestNoAnswerInTimeIsUnknown(t *testing.T) {
	for name, begin := range map[string]string{"silence": "", "half an answer": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"} {
		t.Run(name, func(t *testing.T) {
			srv := serveRaw(t, func(e exchange) bool {
				e.say(begin)
				e.Read(make([]byte, 1)) // until the client closes the connection
				return false
			})
			c := newClient(t, nil)
			call := callTo(srv.url())
			call.Timeout = 50 * time.Millisecond
			check(t, c.Call(t.Context(), call), saga.Unknown, retry.Timeout, CodeTimeout)
			wantSeen(t, srv, 1, 1)
			if n, _ := held(&c.idle); n != 0 {
				t.Error("the connection was kept although its answer may still come")
			}
		})
	}
}

func TestARequestThatIsNotReadInTimeIsUnknown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // connections wait in its backlog and are never accepted
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	call := callTo("http://" + l.Addr().String())
	call.Timeout, call.Body = 100*time.Millisecond, bytes.Repeat([]byte("x"), 32<<20)
	check(t, newClient(t, nil).Call(t.Context(), call), saga.Unknown, retry.Timeout, CodeTimeout)
}

func TestARefusedConnectionIsNotApplied(t *testing.T) {
	o := newClient(t, nil).Call(t.Context(), callTo("http://"+testnet.ClosedAddress(t)))
	check(t, o, saga.NotApplied, retry.Network, CodeDialFailed)
	if !strings.Contains(o.Message, "connection refused") {
		t.Errorf("message %q does not report that the connection was refused", o.Message)
	}
}

// resolver returns a DNS resolver that answers the n-th query for an IPv4 address, counting from 1,
// with answer(n), or with an error if that is "".
func resolver(answer func(n int64) string) *net.Resolver {
	var asked atomic.Int64
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			raw := make([]byte, 2048)
			n, err := server.Read(raw)
			var m dnsmessage.Message
			if err != nil || m.Unpack(raw[2:n]) != nil { // DNS over a stream has a two-byte length prefix
				return
			}
			m.Header.Response, m.Additionals = true, nil
			if m.Questions[0].Type == dnsmessage.TypeA {
				if a := answer(asked.Add(1)); a == "" {
					m.RCode = dnsmessage.RCodeNameError
				} else {
					m.Answers = []dnsmessage.Resource{{
						Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET},
						Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
					}}
				}
			}
			if reply, err := m.AppendPack(make([]byte, 2)); err == nil {
				reply[0], reply[1] = byte((len(reply)-2)>>8), byte(len(reply)-2)
				server.Write(reply)
			}
		}()
		return client, nil
	}}
}

func TestAnUnknownHostNameIsNotApplied(t *testing.T) {
	c := newClient(t, func(cfg *Config) { cfg.Policy.Resolver = resolver(func(int64) string { return "" }) })
	check(t, c.Call(t.Context(), callTo("http://nowhere.example/")), saga.NotApplied, retry.Network, CodeDNSFailed)
}

func TestATimeoutWhileConnectingIsNotApplied(t *testing.T) {
	c := newClient(t, func(cfg *Config) {
		cfg.Policy.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
	})
	call := callTo("http://slow.example/")
	call.Timeout = 50 * time.Millisecond
	check(t, c.Call(t.Context(), call), saga.NotApplied, retry.Timeout, CodeDialTimeout)
}

func TestACancellationWhileConnectingIsNotApplied(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := newClient(t, func(cfg *Config) {
		cfg.Policy.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}}
	})
	check(t, c.Call(ctx, callTo("http://slow.example/")), saga.NotApplied, retry.Network, CodeAborted)
}

func TestAForbiddenAddressIsNeverCalled(t *testing.T) {
	decoy := serveRaw(t, func(e exchange) bool { e.say(okAnswer); return true })
	_, port, _ := net.SplitHostPort(decoy.Addr().String())
	var log bytes.Buffer
	c := newClient(t, func(cfg *Config) {
		cfg.Policy = &egress.Policy{Resolver: resolver(func(int64) string { return "127.0.0.1" })}
		cfg.Log = slog.New(slog.NewJSONHandler(&log, nil))
	})
	for _, host := range []string{"127.0.0.1", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
		"decoy.example", "DECOY.example.", "127.1.example"} {
		check(
			t,
			c.Call(t.Context(), callTo("http://"+host+":"+port+"/latest/meta-data")),
			saga.NotApplied,
			retry.Refused,
			CodeEgressDenied,
		)
		check(t, c.Call(t.Context(), callTo("https://"+host+":"+port+"/")), saga.NotApplied, retry.Refused, CodeEgressDenied)
	}
	for _, url := range []string{"http://169.254.169.254/latest/meta-data", "http://[fd00:ec2::254]/", "http://100.100.100.200/"} {
		check(t, c.Call(t.Context(), callTo(url)), saga.NotApplied, retry.Refused, CodeEgressDenied)
	}
	wantSeen(t, decoy, 0, 0)
	if n := strings.Count(log.String(), `"msg":"egress denied"`); n != 21 ||
		!strings.Contains(log.String(), testID.String()) {
		t.Errorf("%d warnings, want 21 that name the saga:\n%s", n, &log)
	}
}

func TestANameThatChangesToTheMetadataServiceIsNotCalled(t *testing.T) {
	srv := serveRaw(t, func(e exchange) bool {
		e.say(response("200 OK", "Connection: close\r\n", "{}")) // so that the next call opens a new connection
		return false
	})
	_, port, _ := net.SplitHostPort(srv.Addr().String())
	c := newClient(t, func(cfg *Config) {
		cfg.Policy.Resolver = resolver(func(n int64) string {
			if n == 1 {
				return "127.0.0.1"
			}
			return "169.254.169.254"
		})
	})
	call := callTo("http://shop.example:" + port)
	wantDone(t, c.Call(t.Context(), call))
	check(t, c.Call(t.Context(), call), saga.NotApplied, retry.Refused, CodeEgressDenied)
	wantSeen(t, srv, 1, 1)
}

func TestURLsAndHeadersThatCannotBeSent(t *testing.T) {
	for _, url := range []string{"", "/path", "//host/path", "ftp://host/", "http://", "http://:80/",
		"http://user:secret@host/", "http://host:0/", "http://host:99999/", "http://ho st/", "http://host/\r\nX: y",
		"http://a\u0000b/", "http://\u00ad/", "mailto:a@b", "http:host"} {
		check(t, newClient(t, nil).Call(t.Context(), callTo(url)), saga.NotApplied, retry.Refused, CodeInvalidRequest)
	}
	for name, value := range map[string]string{"X-A": "b\r\nX-B: c", "X A": "b", "": "b", "X-C\n": "d", "X-D": "\x00"} {
		call := callTo("http://127.0.0.1:1/")
		call.By.HTTP.Headers = map[string]string{name: value}
		check(t, newClient(t, nil).Call(t.Context(), call), saga.NotApplied, retry.Refused, CodeInvalidRequest)
	}
	for _, method := range []string{"GET", "HEAD", "CONNECT", "post", "POST /x"} {
		call := callTo("http://127.0.0.1:1/")
		call.By.HTTP.Method = method
		check(t, newClient(t, nil).Call(t.Context(), call), saga.NotApplied, retry.Refused, CodeInvalidRequest)
	}
	call := callTo("")
	call.By = workflow.Call{Job: "is made by the database"}
	check(t, newClient(t, nil).Call(t.Context(), call), saga.NotApplied, retry.Refused, CodeInvalidRequest)
}

func TestTLS(t *testing.T) {
	var conns atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"proto":%q,"host":%q}`, r.Proto, r.TLS.ServerName)
	}))
	srv.EnableHTTP2 = true // the client must not negotiate it
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.StartTLS()
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	trusting := func(cfg *Config) {
		secure := &tls.Config{RootCAs: roots}
		cfg.TLS = func() *tls.Config { return secure }
		cfg.Policy.Resolver = resolver(func(int64) string { return "127.0.0.1" })
	}

	t.Run("a certificate that fits is accepted and the connection kept", func(t *testing.T) {
		c := newClient(t, trusting)
		before := conns.Load()
		for range 3 {
			o := c.Call(t.Context(), callTo("https://example.com:"+port+"/"))
			if want := `{"host":"example.com","proto":"HTTP/1.1"}`; string(o.Output) != want {
				t.Fatalf("output %s (%s), want %s", o.Output, o.Message, want)
			}
		}
		if n := conns.Load() - before; n != 1 {
			t.Errorf("%d connections for three calls", n)
		}
		c.Close()
	})
	t.Run("another name is refused", func(t *testing.T) {
		var log bytes.Buffer
		c := newClient(t, func(cfg *Config) { trusting(cfg); cfg.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
		o := c.Call(t.Context(), callTo("https://other.test:"+port+"/"))
		check(t, o, saga.NotApplied, retry.Network, CodeTLSFailed)
		if !strings.Contains(o.Message, "certificate") || strings.Contains(o.Message, "example.com") ||
			!strings.Contains(log.String(), "example.com") {
			t.Errorf("message %q, log %s: only the log may name the certificate's names", o.Message, &log)
		}
	})
	t.Run("an unknown authority is refused", func(t *testing.T) {
		c := newClient(t, func(cfg *Config) { trusting(cfg); cfg.TLS = nil })
		check(t, c.Call(t.Context(), callTo("https://example.com:"+port+"/")), saga.NotApplied, retry.Network, CodeTLSFailed)
	})
	t.Run("plain HTTP on an https URL is refused", func(t *testing.T) {
		plain := httptest.NewServer(http.NotFoundHandler())
		defer plain.Close()
		check(
			t,
			newClient(t, nil).Call(t.Context(), callTo("https"+strings.TrimPrefix(plain.URL, "http"))),
			saga.NotApplied,
			retry.Network,
			CodeTLSFailed,
		)
	})
	t.Run("a handshake that never ends is a timeout", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		call := callTo("https://" + l.Addr().String())
		call.Timeout = 50 * time.Millisecond
		check(t, newClient(t, trusting).Call(t.Context(), call), saga.NotApplied, retry.Timeout, CodeDialTimeout)
	})
}

// brokenConn fails before it accepts a byte.
type brokenConn struct{ net.Conn }

func (brokenConn) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAConnectionThatBreaksBeforeTheFirstByteIsNotApplied(t *testing.T) {
	srv := serveRaw(t, func(e exchange) bool { e.say(okAnswer); return true })
	c := newClient(t, nil)
	dial := c.dial
	c.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return brokenConn{conn}, err
	}
	check(t, c.Call(t.Context(), callTo(srv.url())), saga.NotApplied, retry.Network, CodeNotSent)
}

func TestAClockThatIsSetBackGivesNoNegativeDuration(t *testing.T) {
	srv := serveRaw(t, func(e exchange) bool { e.say(okAnswer); return true })
	now := instant
	c := newClient(t, func(cfg *Config) {
		cfg.Now = func() time.Time { now = now.Add(-time.Second); return now }
	})
	if o := c.Call(t.Context(), callTo(srv.url())); o.EndedAt.Before(o.StartedAt) {
		t.Errorf("ended at %s, before its start at %s", o.EndedAt, o.StartedAt)
	}
}
