package egress

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/skald-saga/skald/internal/secret/files"
)

// TLSFiles name the PEM files of TLS to those who are called. Each may be empty, but Cert
// and Key only together. Section is that of their settings, for errors.
type TLSFiles struct {
	Section   string
	Cert, Key string // the certificate that Skald shows to those who ask for one, and its private key
	CA        string // who vouches for those who are called; "": the system's authorities
}

// Watch reads the files, and again when they have changed. While a file is missing or
// wrong, what was read last stays in use and failed is called.
func (f TLSFiles) Watch(failed func(error)) (*files.Watched[*tls.Config], error) {
	return files.Watch(f.read, failed, f.Cert, f.Key, f.CA)
}

// read returns a configuration with a cache of its own: a session established with another
// certificate, or with a peer no longer trusted, must not be resumed.
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
			return nil, errors.New(f.Section + ".tls_ca_file holds no certificate")
		}
	}
	return c, nil
}

// Client makes requests by net/http over connections that the policy allows. It follows
// no redirect, uses no proxy and speaks TLS as configured when a connection is opened.
type Client struct {
	current atomic.Pointer[generation]
	tls     func() *tls.Config
	make    func(*tls.Config) *http.Client
}

// generation is the connections of one configuration.
type generation struct {
	tls    *tls.Config
	client *http.Client
}

// NewClient returns a client whose requests end after timeout, and which keeps perHost
// connections to a host. secure returns the present configuration of TLS, always the same
// pointer until it changes; nil: the system's authorities and no certificate.
func (p *Policy) NewClient(timeout time.Duration, perHost int, secure func() *tls.Config) *Client {
	if secure == nil {
		fixed := &tls.Config{MinVersion: tls.VersionTLS12}
		secure = func() *tls.Config { return fixed }
	}
	return &Client{tls: secure, make: func(c *tls.Config) *http.Client {
		return &http.Client{
			Timeout: timeout,
			Transport: &http.Transport{
				Proxy:               nil, // a proxy would connect out of the policy's sight
				DialContext:         p.DialContext(timeout),
				TLSClientConfig:     c.Clone(),
				TLSHandshakeTimeout: timeout,
				MaxIdleConnsPerHost: perHost, MaxIdleConns: 256, IdleConnTimeout: time.Minute,
				MaxResponseHeaderBytes: 64 << 10,
				DisableCompression:     true,
				ForceAttemptHTTP2:      true,
			},
			// A redirect could lead to a URL that was never allowed.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}}
}

// Do makes a request. After a change of the configuration it opens a new connection;
// requests in flight end on theirs.
func (c *Client) Do(r *http.Request) (*http.Response, error) {
	secure, used := c.tls(), c.current.Load()
	if used == nil || used.tls != secure {
		next := &generation{secure, c.make(secure)}
		if c.current.CompareAndSwap(used, next) {
			if used != nil {
				used.client.CloseIdleConnections()
			}
		} else {
			next = c.current.Load() // another request was faster
		}
		used = next
	}
	return used.client.Do(r)
}

// Close closes idle connections.
func (c *Client) Close() {
	if used := c.current.Load(); used != nil {
		used.client.CloseIdleConnections()
	}
}

// Rejected describes what was wrong with a peer's certificate, in words that anyone may read:
// without the names for which it is valid. It is "" when err is something else.
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
		return "its certificate is for another name"
	case errors.As(err, &issuer):
		return "its certificate was issued by an authority that is not trusted"
	case errors.As(err, &other) && other.Reason == x509.Expired:
		return "its certificate has expired or is not valid yet"
	}
	return "its certificate was not accepted"
}

// refusals are the alerts by which a server refuses the certificate of a client, or
// that there is none. crypto/tls does not export their type.
var refusals = map[string]bool{
	"tls: bad certificate": true, "tls: unsupported certificate": true, "tls: revoked certificate": true,
	"tls: expired certificate": true, "tls: unknown certificate": true, "tls: unknown certificate authority": true,
	"tls: access denied": true, "tls: certificate required": true, "tls: handshake failure": true,
}

// RefusedUs reports whether err is the alert by which the other end has refused Skald's
// certificate, or its absence. In TLS 1.3 that can arrive after the handshake, in place of
// an answer.
func RefusedUs(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "remote error" && refusals[network.Err.Error()]
}
