package manual

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// participant answers 200, or never while it is held.
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
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusCreated {
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

func TestTheFirstProductionStartAndTheWayBackFromADump(t *testing.T) {
	t.Parallel()
	pg, other := StartPostgres(t), StartPostgres(t)
	host, held := participant(t)
	secrets, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(secrets, "ca.pem"), []byte(content(t, pg.CA)+content(t, other.CA)), 0o600); err != nil {
		t.Fatal(err)
	}
	given := []string{"SECRETS=" + secrets, "PARTICIPANT=http://" + host + "/hello", "SKALD_EGRESS_ALLOW=" + host}
	masks := []Mask{{`\b\d+ migrations applied`, "N migrations applied"}}
	Session{
		Page: "docs/operations.md", Heading: "First production start", Dir: dir, Masks: masks,
		Env: append(append(pg.Admin(), given...), "SKALD_LISTEN_ADDR="+FreeAddress(t)),
	}.Run(t)

	// Its node is gone. Another one has sagas under way when it goes as well.
	held.Store(true)
	if !t.Run("sagas under way", func(t *testing.T) {
		addr := Serve(t, append(given, "SKALD_ENV=prod", "SKALD_DATABASE_URL=",
			"SKALD_DATABASE_HOST=127.0.0.1", "SKALD_DATABASE_PORT="+strconv.Itoa(pg.Port()), "SKALD_DATABASE_SSL_ROOT_CERT="+pg.CA,
			"SKALD_DATABASE_USER=skald_server", "SKALD_DATABASE_PASSWORD_FILE="+filepath.Join(secrets, "skald_server"),
			"SKALD_ENGINE_DRAIN_TIMEOUT=1s")...)
		for range 5 {
			post(t, "http://"+addr+"/api/v1/sagas", content(t, secrets, "admin_key"), `{"workflow_name": "held", "payload": {}, "steps": [
				{"name": "hello", "action": {"http": {"url": "http://`+host+`/hello"}}, "compensation": "none", "timeout_ms": 60000}]}`)
		}
	}) {
		t.FailNow()
	}
	held.Store(false)

	Session{
		Page: "docs/operations.md", Heading: "A dump, and back", Dir: dir, Masks: masks,
		Env: append(append(pg.Admin(), given...), "SKALD_LISTEN_ADDR="+FreeAddress(t), "RESTORED_PGHOST=127.0.0.1", "RESTORED_PGPORT="+strconv.Itoa(other.Port())),
	}.Run(t)
	if rows := content(t, dir, "skald.rows"); !strings.Contains(rows, "saga.saga_states 6\n") {
		t.Errorf("the dump has\n%s; want 6 sagas", rows)
	}
}
