package listen

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Files name the PEM files of a server's TLS. ClientCA is optional.
type Files struct {
	Cert, Key string // the certificate with its chain, and its private key
	ClientCA  string // who vouches for clients, which then need a certificate; "": they need none
}

// lookEvery is how often the files are looked at, at most.
const lookEvery = time.Second

// TLS returns the configuration of a server that reads its files again when they have
// changed: connections that are open keep what they have. While a file is missing or
// wrong, what was read last stays in use and failed is called.
func TLS(files Files, failed func(error)) (*tls.Config, error) {
	r := &reloading{files: files, failed: failed}
	if err := r.read(); err != nil {
		return nil, err
	}
	c := newConfig()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.current(), nil }
	return c, nil
}

func newConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
}

type reloading struct {
	files  Files
	failed func(error)

	mu     sync.Mutex
	config *tls.Config // guarded by mu, and so the others
	stamps [3]stamp
	looked time.Time
}

type stamp struct {
	modified time.Time
	size     int64
}

func (f Files) stamps() (out [3]stamp) {
	for i, path := range []string{f.Cert, f.Key, f.ClientCA} {
		if info, err := os.Stat(path); err == nil {
			out[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return out
}

// current returns the configuration for the next connection.
func (r *reloading) current() *tls.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.looked) >= lookEvery {
		r.looked = now
		if r.files.stamps() != r.stamps {
			if err := r.read(); err != nil {
				r.failed(err)
			}
		}
	}
	return r.config
}

// read reads the files. Their stamps are taken before: a change in between is read once
// more.
func (r *reloading) read() error {
	stamps := r.files.stamps()
	cert, err := tls.LoadX509KeyPair(r.files.Cert, r.files.Key)
	if err != nil {
		return fmt.Errorf("read server.tls_cert_file and server.tls_key_file: %w", err)
	}
	c := newConfig()
	c.Certificates = []tls.Certificate{cert}
	if r.files.ClientCA != "" {
		text, err := os.ReadFile(r.files.ClientCA)
		if err != nil {
			return fmt.Errorf("read server.tls_client_ca_file: %w", err)
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !c.ClientCAs.AppendCertsFromPEM(text) {
			return errors.New("server.tls_client_ca_file holds no certificate")
		}
	}
	r.config, r.stamps = c, stamps
	return nil
}
