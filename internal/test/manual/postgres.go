package manual

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/postgres/devpg"
)

// Postgres is a test's own PostgreSQL server, with TLS.
type Postgres struct {
	*devpg.Server
	CA string // path of the self-signed certificate
}

// StartPostgres starts an empty server, which stops when the test ends.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	dir, ca := t.TempDir(), filepath.Join(t.TempDir(), "ca.pem")
	start := func(settings map[string]string) *devpg.Server {
		s, err := devpg.Start(t.Context(), devpg.Config{Dir: dir, Exclusive: true, Settings: settings})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if err := start(map[string]string{}).Stop(t.Context()); err != nil { // this first run creates the data directory
		t.Fatal(err)
	}
	cert, key := certificate(t)
	// The server's account must own the key file.
	info, err := os.Stat(filepath.Join(dir, "pgdata"))
	if err != nil {
		t.Fatal(err)
	}
	account, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("this platform does not report the owner of a file")
	}
	for path, content := range map[string][]byte{"server.crt": cert, "server.key": key} {
		path = filepath.Join(dir, "pgdata", path)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, int(account.Uid), int(account.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(ca, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(map[string]string{"ssl": "on"})
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})

	u, err := url.Parse(s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = ""
	prepare := exec.CommandContext(t.Context(), "psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", u.String())
	prepare.Env = environment()
	// The server is empty, like any new one, and has the same administrator.
	prepare.Stdin = strings.NewReader(
		"DROP DATABASE " + devpg.Database + "; CREATE ROLE administrator SUPERUSER LOGIN PASSWORD 'of tests';",
	)
	if out, err := prepare.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return &Postgres{Server: s, CA: ca}
}

// Admin returns the environment that libpq needs to connect as an administrator.
func (p *Postgres) Admin() []string {
	return []string{"PGHOST=127.0.0.1", "PGPORT=" + strconv.Itoa(p.Port()), "PGUSER=administrator", "PGPASSWORD=of tests"}
}

// certificate creates a self-signed certificate for 127.0.0.1 and its key.
func certificate(t testing.TB) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62)) // the serial number tells it apart from others
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "127.0.0.1", SerialNumber: serial.String()},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}
