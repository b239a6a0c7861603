package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/config"
)

// issuer is a certificate authority of a test.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA of a test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return &issuer{c, key}
}

func (i *issuer) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(i.cert)
	return p
}

// issue writes a certificate for 127.0.0.1 and its key to cert and key, at once as far
// as a reader can tell.
func (i *issuer) issue(t *testing.T, serial int64, cert, key string) tls.Certificate {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "of a test"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, i.cert, &own.PublicKey, i.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
	for path, text := range map[string][]byte{cert: certPEM, key: keyPEM} {
		if path == "" {
			continue
		}
		if err := os.WriteFile(path+".new", text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

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
	ca, dir := newIssuer(t), t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	ca.issue(t, 10, cert, key)
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
	if serial, proto, err := get(tlsClient(t, ca.pool())); err != nil || serial != 10 || proto != "HTTP/2.0" {
		t.Errorf("certificate %d, %s, %v", serial, proto, err)
	}
	if _, _, err := get(tlsClient(t, newIssuer(t).pool())); err == nil {
		t.Error("a client that trusts another CA is content")
	}
	if res, err := http.Get(strings.Replace(n.url, "https", "http", 1) + "/healthz"); err == nil {
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("plain HTTP is answered with %d", res.StatusCode)
		}
	}
	if err := os.WriteFile(key, []byte("half a"), 0o600); err != nil { // somebody is writing
		t.Fatal(err)
	}
	ca.issue(t, 11, cert, "")
	time.Sleep(1100 * time.Millisecond) // until the files are looked at again
	if serial, _, err := get(tlsClient(t, ca.pool())); err != nil || serial != 10 {
		t.Errorf("while the files do not fit: certificate %d, %v", serial, err)
	}
	if !strings.Contains(n.logs.String(), "tls_key_file") {
		t.Error("nothing is logged about files that do not fit")
	}
	ca.issue(t, 12, cert, key)
	for deadline := time.Now().Add(time.Minute); ; {
		serial, _, err := get(tlsClient(t, ca.pool()))
		if err != nil {
			t.Fatal(err)
		}
		if serial == 12 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the certificate is still %d", serial)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestClientsNeedACertificateWhereACAIsNamed(t *testing.T) {
	t.Parallel()
	ca, clients, dir := newIssuer(t), newIssuer(t), t.TempDir()
	cert, key, clientCA := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem"), filepath.Join(dir, "ca.pem")
	ca.issue(t, 1, cert, key)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: clients.cert.Raw})
	if err := os.WriteFile(clientCA, text, 0o600); err != nil {
		t.Fatal(err)
	}
	n := start(t, "", "a", func(c *config.Config) {
		c.Store, c.Server.TLSCertFile, c.Server.TLSKeyFile, c.Server.TLSClientCAFile = config.Memory, cert, key, clientCA
	})
	for _, tt := range []struct {
		name  string
		certs []tls.Certificate
		fits  bool
	}{
		{"none", nil, false},
		{"one of another CA", []tls.Certificate{ca.issue(t, 2, "", "")}, false},
		{"its own", []tls.Certificate{clients.issue(t, 3, "", "")}, true},
	} {
		res, err := tlsClient(t, ca.pool(), tt.certs...).Get(n.url + "/readyz")
		if err == nil {
			res.Body.Close()
		}
		if (err == nil) != tt.fits {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
