package listen

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/skald-saga/skald/internal/secret/files"
)

// Files names the PEM files for a server's TLS. ClientCA is optional.
type Files struct {
	Cert, Key string // the certificate with its chain, and its private key
	ClientCA  string // CAs of client certificates, which are required if it is set
}

// TLS returns the configuration of a server, and the files, which are reloaded when they change.
// Open connections are not affected. While a file is missing or invalid, its last valid content
// stays in use, and failed is called.
func TLS(from Files, failed func(error)) (*tls.Config, *files.Watched[*tls.Config], error) {
	w, err := files.Watch(from.read, failed, from.Cert, from.Key, from.ClientCA)
	if err != nil {
		return nil, nil, err
	}
	c := newConfig()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return w.Current(), nil }
	return c, w, nil
}

func newConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
}

func (f Files) read() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("read server.tls_cert_file and server.tls_key_file: %w", err)
	}
	c := newConfig()
	c.Certificates = []tls.Certificate{cert}
	if f.ClientCA == "" {
		return c, nil
	}
	text, err := os.ReadFile(f.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("read server.tls_client_ca_file: %w", err)
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(text) {
		return nil, errors.New("server.tls_client_ca_file contains no certificate")
	}
	return c, nil
}
