package participant

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/egress"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/secret/files"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// secureServer is a participant that uses TLS.
func secureServer(t *testing.T, cfg *tls.Config, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(f)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.TLS = cfg
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

// watch loads the TLS files for calls to participants.
func watch(t *testing.T, from egress.TLSFiles) *files.Watched[*tls.Config] {
	t.Helper()
	w, err := from.Watch(func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestACertificateThatDoesNotFitIsNamedInTheError(t *testing.T) {
	ca, foreign := testnet.NewIssuer(t), testnet.NewIssuer(t)
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	ca.Write(t, bundle)
	trusted := watch(t, egress.TLSFiles{CA: bundle}).Current
	issue := func(change func(*x509.Certificate)) tls.Certificate { return ca.Issue(t, 3, "", "", change) }
	for _, tt := range []struct {
		name string
		cert tls.Certificate
		want string // "" if the certificate is valid
	}{
		{"one that fits", ca.Issue(t, 2, "", ""), ""},
		{"expired", issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }),
			"its certificate has expired or is not valid yet"},
		{"not valid yet", issue(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Minute) }),
			"its certificate has expired or is not valid yet"},
		{"for another name", issue(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 2)} }),
			"its certificate was issued for a different name"},
		{"of a foreign authority", foreign.Issue(t, 6, "", ""), "its certificate was issued by an authority that is not trusted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			called := false
			srv := secureServer(t, &tls.Config{Certificates: []tls.Certificate{tt.cert}},
				func(http.ResponseWriter, *http.Request) { called = true })
			o := newClient(t, func(cfg *Config) { cfg.TLS = trusted }).Call(t.Context(), callTo(srv.URL))
			if tt.want == "" {
				wantDone(t, o)
				return
			}
			check(t, o, saga.NotApplied, retry.Network, CodeTLSFailed)
			if o.Message != "no TLS connection to the participant: "+tt.want || called {
				t.Errorf("message %q, want %q; the participant was called: %t", o.Message, tt.want, called)
			}
		})
	}
}

// refusing is a participant that demands a client certificate and reads everything that is sent
// after its refusal, so that the alert arrives before the connection breaks.
func refusing(t *testing.T, cfg *tls.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				if err := tls.Server(conn, cfg).Handshake(); err == nil {
					t.Error("the participant accepts it")
					return
				}
				_, _ = io.Copy(io.Discard, conn)
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return "https://" + l.Addr().String()
}

func TestAParticipantThatDemandsAClientCertificateGetsIt(t *testing.T) {
	ca, clients, foreign, dir := testnet.NewIssuer(t), testnet.NewIssuer(t), testnet.NewIssuer(t), t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	ca.Write(t, path("ca.pem"))
	clients.Issue(t, 7, path("own.pem"), path("own.key"))
	foreign.Issue(t, 8, path("foreign.pem"), path("foreign.key"))
	for name, version := range map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13} {
		server := &tls.Config{
			Certificates: []tls.Certificate{ca.Issue(t, 2, "", "")}, MinVersion: version, MaxVersion: version,
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients.Pool(),
		}
		t.Run(name+", its own", func(t *testing.T) {
			var shown int64
			srv := secureServer(t, server.Clone(), func(_ http.ResponseWriter, r *http.Request) {
				shown = r.TLS.PeerCertificates[0].SerialNumber.Int64()
			})
			w := watch(t, egress.TLSFiles{Cert: path("own.pem"), Key: path("own.key"), CA: path("ca.pem")})
			wantDone(t, newClient(t, func(cfg *Config) { cfg.TLS = w.Current }).Call(t.Context(), callTo(srv.URL)))
			if shown != 7 {
				t.Errorf("the participant saw certificate %d, want 7", shown)
			}
		})
		for kind, from := range map[string]egress.TLSFiles{
			"none":              {CA: path("ca.pem")},
			"one of another CA": {CA: path("ca.pem"), Cert: path("foreign.pem"), Key: path("foreign.key")},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				c := newClient(t, func(cfg *Config) { cfg.TLS = watch(t, from).Current })
				defer c.Close() // before the participant stops
				o := c.Call(t.Context(), callTo(refusing(t, server)))
				check(t, o, saga.NotApplied, retry.Network, CodeTLSFailed)
				if !strings.Contains(o.Message, "rejected Skald's client certificate") {
					t.Errorf("message %q", o.Message)
				}
			})
		}
	}
}

// The next call presents the new certificate. Calls in flight end on their connections, and none
// fails.
func TestNewCertificatesAreUsedWithoutACallThatFails(t *testing.T) {
	ca, clients, dir := testnet.NewIssuer(t), testnet.NewIssuer(t), t.TempDir()
	from := egress.TLSFiles{
		Cert: filepath.Join(dir, "c.pem"), Key: filepath.Join(dir, "k.pem"), CA: filepath.Join(dir, "ca.pem"),
	}
	ca.Write(t, from.CA)
	clients.Issue(t, 10, from.Cert, from.Key)
	w := watch(t, from)
	inside, proceed := make(chan struct{}), make(chan struct{})
	serials := make(chan int64, 10)
	srv := secureServer(t, &tls.Config{
		Certificates: []tls.Certificate{ca.Issue(t, 2, "", "")},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: clients.Pool(),
	}, func(_ http.ResponseWriter, r *http.Request) {
		serials <- r.TLS.PeerCertificates[0].SerialNumber.Int64()
		if r.Header.Get("X-Saga-Attempt") == "2" {
			inside <- struct{}{}
			<-proceed
		}
	})
	c := newClient(t, func(cfg *Config) { cfg.TLS = w.Current })
	one := func(attempt int) {
		call := callTo(srv.URL)
		call.Attempt = attempt
		wantDone(t, c.Call(t.Context(), call))
	}
	one(1) // its connection is kept for the next call
	var flying sync.WaitGroup
	flying.Go(func() { one(2) })
	<-inside
	clients.Issue(t, 11, from.Cert, from.Key)
	if _, read, err := w.Look(func(*tls.Config) bool { return false }); !read || err != nil {
		t.Fatalf("the new files: read %t, %v", read, err)
	}
	one(3)
	close(proceed)
	flying.Wait()
	one(4)
	for i, want := range []int64{10, 10, 11, 11} {
		if got := <-serials; got != want {
			t.Errorf("request %d came with certificate %d, want %d", i+1, got, want)
		}
	}
}
