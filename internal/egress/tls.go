package egress

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/skald-saga/skald/internal/secret/files"
)

// TLSFiles names the PEM files for TLS connections to servers. Each may be empty, but Cert and Key
// must be set together. Section is the section of their settings, for error messages.
type TLSFiles struct {
	Section   string
	Cert, Key string // client certificate for servers that request one, and its private key
	CA        string // CAs for verifying servers; "": the system's
}

// Watch reads the files and reloads them when they change. While a file is missing or invalid, its
// last valid content stays in use, and failed is called.
func (f TLSFiles) Watch(failed func(error)) (*files.Watched[*tls.Config], error) {
	return files.Watch(f.read, failed, f.Cert, f.Key, f.CA)
}

// read returns a configuration with its own session cache, because a session with another
// certificate, or with a peer that is no longer trusted, must not be resumed.
func (f TLSFiles) read() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(256)}
	if f.Cert != "" {
		cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("read %s.tls_cert_file and %s.tls_key_file: %w", f.Section, f.Section, err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("read %s.tls_ca_file: %w", f.Section, err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, errors.New(f.Section + ".tls_ca_file contains no certificate")
		}
	}
	return c, nil
}

// Rejected describes what is wrong with a peer's certificate, in text that tenants may see, so it
// omits the names for which the certificate is valid. It returns "" for other errors.
func Rejected(err error) string {
	var invalid *tls.CertificateVerificationError
	if !errors.As(err, &invalid) {
		return ""
	}
	var name x509.HostnameError
	var issuer x509.UnknownAuthorityError
	var other x509.CertificateInvalidError
	switch {
	case errors.As(err, &name):
		return "its certificate was issued for a different name"
	case errors.As(err, &issuer):
		return "its certificate was issued by an authority that is not trusted"
	case errors.As(err, &other) && other.Reason == x509.Expired:
		return "its certificate has expired or is not valid yet"
	}
	return "its certificate was not accepted"
}

// refusals lists the texts of the alerts with which a server rejects a client's certificate or its
// absence. crypto/tls does not export their type.
var refusals = map[string]bool{
	"tls: bad certificate": true, "tls: unsupported certificate": true, "tls: revoked certificate": true,
	"tls: expired certificate": true, "tls: unknown certificate": true, "tls: unknown certificate authority": true,
	"tls: access denied": true, "tls: certificate required": true, "tls: handshake failure": true,
}

// RefusedUs reports whether err is the alert with which the peer rejects Skald's certificate or
// its absence. In TLS 1.3 that can arrive after the handshake, in place of an answer.
func RefusedUs(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "remote error" && refusals[network.Err.Error()]
}
