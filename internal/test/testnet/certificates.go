package testnet

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
	"os"
	"testing"
	"time"
)

// Issuer is a test's certificate authority.
type Issuer struct {
	Cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewIssuer returns a certificate authority that is not trusted yet.
func NewIssuer(t testing.TB) *Issuer {
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
	return &Issuer{c, key}
}

// Pool returns a pool that trusts only this authority.
func (i *Issuer) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(i.Cert)
	return p
}

// Write writes the authority's own certificate to path.
func (i *Issuer) Write(t testing.TB, path string) {
	t.Helper()
	replace(t, path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Cert.Raw}))
}

// Issue writes a certificate for 127.0.0.1 and its key to the files cert and key; "" skips either
// file. change, if any, modifies the certificate before it is signed.
func (i *Issuer) Issue(
	t testing.TB, serial int64, cert, key string, change ...func(*x509.Certificate),
) tls.Certificate {
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
	for _, f := range change {
		f(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, i.Cert, &own.PublicKey, i.key)
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
		if path != "" {
			replace(t, path, text)
		}
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// replace writes a file atomically for readers.
func replace(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
