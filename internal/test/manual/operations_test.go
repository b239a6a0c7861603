package manual

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/test/testnet"
	"github.com/skald-saga/skald/internal/test/testprogram"
)

// participant starts a participant that answers 200, or doesn't answer while it is held.
func participant(t *testing.T) (host string, held *atomic.Bool) {
	t.Helper()
	held = &atomic.Bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for held.Load() && r.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), held
}

func post(t *testing.T, url, key, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(key))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode/100 != 2 {
		t.Fatalf("%s: %s %s", url, res.Status, text)
	}
}

func content(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// psql runs SQL as an administrator.
func psql(t *testing.T, p *Postgres, database, statements string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "psql", "-qAt", "-v", "ON_ERROR_STOP=1", "-d", database)
	cmd.Env = append(environment(), p.Admin()...)
	cmd.Stdin = strings.NewReader(statements)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// vaultStatement returns the SQL that the page gives to Vault, with Vault's placeholders filled in.
func vaultStatement(t *testing.T, login, password string) string {
	t.Helper()
	page := content(t, root(t), "docs/operations.md")
	m := regexp.MustCompile(`creation_statements="((?:[^"\\]|\\.)*)"`).FindStringSubmatch(page)
	if m == nil {
		t.Fatal("the page has no creation_statements")
	}
	return strings.NewReplacer(`\"`, `"`, "{{name}}", login, "{{password}}", password, "{{expiration}}", "2100-01-01").
		Replace(m[1])
}

// notGoneOnWith runs the recovery with a pg_dump that behaves as in lie, and expects the
// recovery to stop before anything is restored.
func notGoneOnWith(t *testing.T, s Session, lie string, other *Postgres) {
	t.Helper()
	bin := t.TempDir()
	real, err := exec.LookPath("pg_dump")
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nreal=" + real + "\n" + lie + "\n"
	testprogram.Write(t, bin, "pg_dump", []byte(script), 0o700)
	s.Dir = t.TempDir()
	s.Env = append(slices.Clone(s.Env), "PATH="+bin+":"+filepath.Dir(Skald(t))+":"+os.Getenv("PATH"))
	if _, problems := s.run(t); len(problems) == 0 {
		t.Error("it is not noticed")
	}
	if exists(filepath.Join(s.Dir, "skald.dump")) {
		t.Error("it got the name of a good one")
	}
	if out, err := psql(t, other, "postgres", "SELECT count(*) FROM pg_database WHERE datname = 'restored'"); err != nil ||
		out != "0\n" {
		t.Errorf("databases to restore into: %s%v", out, err)
	}
}

func TestTheFirstProductionStartAndTheWayBackFromADump(t *testing.T) {
	t.Parallel()
	pg, other := StartPostgres(t), StartPostgres(t)
	host, held := participant(t)
	secrets, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(secrets, "ca.pem"), []byte(content(t, pg.CA)+content(t, other.CA)),
		0o600); err != nil {
		t.Fatal(err)
	}
	given := []string{"SECRETS=" + secrets, "PARTICIPANT=http://" + host + "/hello", "SKALD_EGRESS_ALLOW=" + host}
	Session{
		Page: "docs/operations.md", Heading: "First production start", Dir: dir,
		Env: append(append(pg.Admin(), given...), "SKALD_LISTEN_ADDR="+testnet.FreeAddress(t)),
	}.Run(t)

	// The first node is stopped. Another node, whose login is created in the same way as by Vault,
	// has sagas in progress when it is stopped as well.
	held.Store(true)
	if out, err := psql(t, pg, "postgres", vaultStatement(t, "v_ops", "of vault")); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !t.Run("sagas under way", func(t *testing.T) {
		addr := Serve(t, append(
			given,
			"SKALD_ENV=prod",
			"SKALD_DATABASE_URL=",
			"SKALD_DATABASE_HOST=127.0.0.1",
			"SKALD_DATABASE_PORT="+strconv.Itoa(pg.Port()),
			"SKALD_DATABASE_SSL_ROOT_CERT="+pg.CA,
			"SKALD_DATABASE_USER=v_ops",
			"SKALD_DATABASE_PASSWORD=of vault",
			"SKALD_ENGINE_DRAIN_TIMEOUT=1s",
		)...)
		for range 5 {
			post(
				t,
				"http://"+addr+"/api/v1/sagas",
				content(t, secrets, "admin_key"),
				`{"workflow_name": "held", "payload": {}, "steps": [
				{"name": "hello", "action": {"http": {"url": "http://`+host+`/hello"}}, "compensation": "none", "timeout_ms": 60000}]}`,
			)
		}
	}) {
		t.FailNow()
	}
	held.Store(false)

	back := Session{
		Page: "docs/operations.md", Heading: "A dump, and back",
		Env: append(
			append(pg.Admin(), given...),
			"SKALD_LISTEN_ADDR="+testnet.FreeAddress(t),
			"RESTORED_PGHOST=127.0.0.1",
			"RESTORED_PGPORT="+strconv.Itoa(other.Port()),
		),
	}
	for name, lie := range map[string]string{
		"a dump that is cut off":            `"$real" "$@"; truncate -s -2000 skald.dump.part`,
		"a dump that fails":                 `"$real" "$@"; exit 1`,
		"a dump without row-level security": `shift; "$real" "$@"`, // PostgreSQL refuses it
	} {
		t.Run(name, func(t *testing.T) { notGoneOnWith(t, back, lie, other) })
	}
	back.Dir = dir
	back.Run(t)
	if rows := content(t, dir, "skald.rows"); !strings.Contains(rows, "saga.saga_states 6\n") {
		t.Errorf("the dump has\n%s; want 6 sagas", rows)
	}
}
