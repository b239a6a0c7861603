package postgres_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	serial "math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/postgres/devpg"
)

// certificate writes a self-signed certificate for 127.0.0.1, and its key, into dir.
func certificate(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestTLSToTheServerIsWhatTheModeSays(t *testing.T) {
	t.Parallel()
	dir, mine := t.TempDir(), t.TempDir()
	cert, key := certificate(t, mine, "server")
	stranger, _ := certificate(t, mine, "stranger")
	start := func(settings map[string]string) *devpg.Server {
		s, err := devpg.Start(t.Context(), devpg.Config{Dir: dir, Exclusive: true, Settings: settings})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Stop(context.Background()) })
		return s
	}
	plain := start(nil)
	attempt := func(s *devpg.Server, parameters string) error {
		c, err := pq.NewConfig(s.DSN(devpg.Database))
		if err != nil {
			t.Fatal(err)
		}
		d,
			err := postgres.Open(t.Context(),
			postgres.Config{Unsecured: true, DSN: fmt.Sprintf("port=%d user=%s password=%s dbname=%s %s", c.Port, c.User, c.Password, c.Database, parameters)})
		if err != nil {
			return err
		}
		defer d.Close()
		for range 5 { // also when a connection is reused, and its socket checked
			var secure bool
			if err := d.SQL().QueryRowContext(t.Context(), `SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`).Scan(&secure); err != nil {
				return err
			}
			if want := !strings.Contains(parameters, "disable"); secure != want {
				return fmt.Errorf("TLS is %v", secure)
			}
		}
		return nil
	}
	if err := attempt(plain, "host=127.0.0.1 sslmode=require"); err == nil {
		t.Error("a server without TLS is accepted, though the mode is require")
	}
	if err := plain.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The server's account must own its key file.
	info, err := os.Stat(filepath.Join(dir, "pgdata"))
	if err != nil {
		t.Fatal(err)
	}
	account := info.Sys().(*syscall.Stat_t)
	for from, to := range map[string]string{cert: "server.crt", key: "server.key"} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "pgdata", to)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, int(account.Uid), int(account.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	secure := start(map[string]string{"ssl": "on"})
	for _, tt := range []struct {
		name, parameters, refused string
	}{
		{"disable", "host=127.0.0.1 sslmode=disable", ""},
		{"require", "host=127.0.0.1 sslmode=require", ""},
		{"verify-full with the right CA", "host=127.0.0.1 sslmode=verify-full sslrootcert=" + cert, ""},
		{"verify-full with another CA", "host=127.0.0.1 sslmode=verify-full sslrootcert=" + stranger, "certificate"},
		{"verify-full by a name that is not in the certificate", "host=localhost hostaddr=127.0.0.1 sslmode=verify-full sslrootcert=" + cert, "certificate"},
		{"verify-ca by that name", "host=localhost hostaddr=127.0.0.1 sslmode=verify-ca sslrootcert=" + cert, ""},
		{"verify-ca with another CA", "host=127.0.0.1 sslmode=verify-ca sslrootcert=" + stranger, "certificate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := attempt(secure, tt.parameters)
			if tt.refused == "" && err != nil || tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)) {
				t.Errorf("%v; want %q", err, tt.refused)
			}
		})
	}
}
