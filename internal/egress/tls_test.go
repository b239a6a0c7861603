package egress_test

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/egress"
	"github.com/skald-saga/skald/internal/test/testnet"
)

func TestAClientTakesNewCertificatesWithTheNextConnection(t *testing.T) {
	ca, clients, dir := testnet.NewIssuer(t), testnet.NewIssuer(t), t.TempDir()
	from := egress.TLSFiles{
		Section: "webhooks",
		Cert:    filepath.Join(dir, "c.pem"), Key: filepath.Join(dir, "k.pem"), CA: filepath.Join(dir, "ca.pem"),
	}
	ca.Write(t, from.CA)
	var shown int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		shown = r.TLS.PeerCertificates[0].SerialNumber.Int64()
	}))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.EnableHTTP2 = true
	srv.TLS = &tls.Config{
		Certificates: []tls.Certificate{ca.Issue(t, 2, "", "")},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: clients.Pool(),
	}
	srv.StartTLS()
	defer srv.Close()
	policy, err := egress.NewPolicy(nil, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := from.Watch(nil); err == nil || !strings.Contains(err.Error(), "webhooks.tls_key_file") {
		t.Errorf("without the files: %v", err)
	}
	clients.Issue(t, 10, from.Cert, from.Key)
	w, err := from.Watch(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := policy.NewClient(0, 2, w.Current)
	defer c.Close()
	get := func() error {
		req, err := http.NewRequest(http.MethodGet, srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, _, err := c.Send(req, nil)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, res.Body)
		return res.Body.Close()
	}
	never := func(*tls.Config) bool { return false }
	if err := get(); err != nil || shown != 10 {
		t.Errorf("certificate %d, %v; want 10", shown, err)
	}
	if err := os.WriteFile(from.Key, []byte("half a"), 0o600); err != nil { // a writer is active
		t.Fatal(err)
	}
	if _, _, err := w.Look(never); err == nil {
		t.Error("half a key is accepted")
	}
	if err := get(); err != nil || shown != 10 {
		t.Errorf("while the files do not fit: certificate %d, %v; want 10", shown, err)
	}
	clients.Issue(t, 11, from.Cert, from.Key)
	if _, read, err := w.Look(never); !read || err != nil {
		t.Fatalf("the new files: read %t, %v", read, err)
	}
	if err := get(); err != nil || shown != 11 {
		t.Errorf("certificate %d, %v; want 11", shown, err)
	}
	testnet.NewIssuer(t).Write(t, from.CA)
	if _, read, err := w.Look(never); !read || err != nil {
		t.Fatalf("the new authority: read %t, %v", read, err)
	}
	if err := get(); egress.Rejected(err) == "" {
		t.Errorf("a server whose authority is no longer trusted: %v", err)
	}
	if egress.Rejected(errors.New("x")) != "" || egress.RefusedUs(errors.New("x")) {
		t.Error("any error is one of certificates")
	}
}
