package app_test

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// client returns a client that trusts pool and shows certs; no connection is used twice.
func tlsClient(t *testing.T, pool *x509.CertPool, certs ...tls.Certificate) *http.Client {
	c := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certs},
	}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func TestTheServerSpeaksTLSAndTakesNewCertificates(t *testing.T) {
	t.Parallel()
	ca, dir := testnet.NewIssuer(t), t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	ca.Issue(t, 10, cert, key)
	n := start(t, "", "a", func(c *config.Config) {
		c.Store, c.Server.TLSCertFile, c.Server.TLSKeyFile = config.Memory, cert, key
	})
	if !strings.HasPrefix(n.url, "https://") {
		t.Fatalf("the URL is %s", n.url)
	}
	get := func(c *http.Client) (serial int64, proto string, err error) {
		res, err := c.Get(n.url + "/readyz")
		if err != nil {
			return 0, "", err
		}
		res.Body.Close()
		return res.TLS.PeerCertificates[0].SerialNumber.Int64(), res.Proto, nil
	}
	if serial, proto, err := get(tlsClient(t, ca.Pool())); err != nil || serial != 10 || proto != "HTTP/2.0" {
		t.Errorf("certificate %d, %s, %v", serial, proto, err)
	}
	if _, _, err := get(tlsClient(t, testnet.NewIssuer(t).Pool())); err == nil {
		t.Error("a client that trusts another CA is content")
	}
	if res, err := http.Get(strings.Replace(n.url, "https", "http", 1) + "/healthz"); err == nil {
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("plain HTTP is answered with %d", res.StatusCode)
		}
	}
	if err := os.WriteFile(key, []byte("half a"), 0o600); err != nil { // a writer is not finished
		t.Fatal(err)
	}
	ca.Issue(t, 11, cert, "")
	// They are looked at when a client comes, and a second after the last look.
	patience.Until(t, "the log says that the files do not fit", func() bool {
		if serial, _, err := get(tlsClient(t, ca.Pool())); err != nil || serial != 10 {
			t.Fatalf("while the files do not fit: certificate %d, %v", serial, err)
		}
		return strings.Contains(n.logs.String(), "tls_key_file")
	})
	ca.Issue(t, 12, cert, key)
	patience.Until(t, "the new certificate is used", func() bool {
		serial, _, err := get(tlsClient(t, ca.Pool()))
		if err != nil {
			t.Fatal(err)
		}
		return serial == 12
	})
}

func TestClientsNeedACertificateWhereACAIsNamed(t *testing.T) {
	t.Parallel()
	ca, clients, dir := testnet.NewIssuer(t), testnet.NewIssuer(t), t.TempDir()
	cert, key, clientCA := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem"), filepath.Join(dir, "ca.pem")
	ca.Issue(t, 1, cert, key)
	clients.Write(t, clientCA)
	n := start(t, "", "a", func(c *config.Config) {
		c.Store, c.Server.TLSCertFile, c.Server.TLSKeyFile, c.Server.TLSClientCAFile = config.Memory, cert, key, clientCA
	})
	for _, tt := range []struct {
		name  string
		certs []tls.Certificate
		fits  bool
	}{
		{"none", nil, false},
		{"one of another CA", []tls.Certificate{ca.Issue(t, 2, "", "")}, false},
		{"its own", []tls.Certificate{clients.Issue(t, 3, "", "")}, true},
	} {
		res, err := tlsClient(t, ca.Pool(), tt.certs...).Get(n.url + "/readyz")
		if err == nil {
			res.Body.Close()
		}
		if (err == nil) != tt.fits {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestParticipantsAndWebhooksSeeTheCertificatesOfTheirSettings(t *testing.T) {
	t.Parallel()
	ca, clients, dir := testnet.NewIssuer(t), testnet.NewIssuer(t), t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	ca.Write(t, path("ca.pem"))
	clients.Issue(t, 20, path("p.pem"), path("p.key"))
	clients.Issue(t, 30, path("w.pem"), path("w.key"))
	shown := make(chan int64, 100)
	serve := func(cert tls.Certificate) string {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			shown <- r.TLS.PeerCertificates[0].SerialNumber.Int64()
		}))
		srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		srv.TLS = &tls.Config{
			Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients.Pool(),
		}
		srv.StartTLS()
		t.Cleanup(srv.Close)
		return srv.URL
	}
	_, n := inMemory(t, func(c *config.Config) {
		p, w := &c.Participants, &c.Webhooks
		p.TLSCertFile, p.TLSKeyFile, p.TLSCAFile = path("p.pem"), path("p.key"), path("ca.pem")
		w.TLSCertFile, w.TLSKeyFile, w.TLSCAFile = path("w.pem"), path("w.key"), path("ca.pem")
	})
	run := func(url string) map[string]any {
		_, doc := call(t, "POST", n.url+"/api/v1/sagas?wait=4m", `{"steps": [{"name": "a", "compensation": "none",
			"retry": {"max_attempts": 1}, "action": {"http": {"url": "`+url+`"}}}]}`)
		return doc
	}
	ours := serve(ca.Issue(t, 2, "", ""))
	if doc := run(ours); doc["state"] != "completed" || <-shown != 20 {
		t.Errorf("a participant that asks for a certificate: %v", doc)
	}
	doc := run(serve(testnet.NewIssuer(t).Issue(t, 3, "", "")))
	failure, _ := doc["error"].(map[string]any)
	if message, _ := failure["message"].(string); doc["status"] != "FAILED" || failure["code"] != "tls_failed" ||
		!strings.Contains(message, "an authority that is not trusted") {
		t.Errorf("a participant of a foreign authority: %v", doc)
	}
	_, hook := call(t, "POST", n.url+"/api/v1/webhooks", `{"url": "`+ours+`"}`)
	if status, doc := call(t, "POST", n.url+"/api/v1/webhooks/"+hook["id"].(string)+"/test", ""); status >= 300 {
		t.Fatalf("test the webhook: %d %v", status, doc)
	}
	if serial := <-shown; serial != 30 {
		t.Errorf("the webhook saw certificate %d, want 30", serial)
	}
}
