package redislease_test

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/skald-saga/skald/internal/jobrun/redislease"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// TestTLSChecksWhoAnswers uses the certificate of httptest, which is for 127.0.0.1.
func TestTLSChecksWhoAnswers(t *testing.T) {
	t.Parallel()
	source := httptest.NewTLSServer(nil)
	source.Close()
	pair := source.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	cert := write("cert.pem", "CERTIFICATE", pair.Certificate[0])
	_, port, _ := net.SplitHostPort(testnet.FreeAddress(t))
	newServer(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", write("key.pem", "PRIVATE KEY", key),
		"--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	known := x509.NewCertPool()
	known.AddCert(source.Certificate())
	for _, c := range []struct {
		host  string
		roots *x509.CertPool
		ok    bool
	}{{"127.0.0.1", known, true}, {"127.0.0.1", x509.NewCertPool(), false}, {"localhost", known, false}} {
		err := redislease.ConnectTrusting(t.Context(), "rediss://"+net.JoinHostPort(c.host, port), c.roots)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.host, err)
		}
	}
}
