//go:build alerts

package manual

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// sooner is what the test changes in expressions: how long something has to last, and nothing else. There is no "for".
var sooner = map[string][2]string{
	"SkaldLoopStopped":      {"> 60", "> 5"},
	"SkaldSlowLoopStopped":  {`{loop="job_logs"} > 300`, `{loop="job_logs"} > 40`},
	"SkaldFeedHeldBack":     {"> 60", "> 1"},
	"SkaldSagasPileUp":      {"offset 1h", "offset 10s"},
	"SkaldParticipantsSlow": {"> 10", "> 0.2"},
	"SkaldKafkaBehind":      {"> 300", "> 1"},
	"SkaldRunsWait":         {"> 300", "> 1"},
}

// notHere are the alerts that this test does not bring about, and why. Promtool tries them.
var notHere = map[string]string{
	"SkaldKafkaReadingPaused": "needs a broker that has records which cannot be stored",
	"SkaldLoginFails":         "needs a login that changes",
	"SkaldLoginExpires":       "needs a login from Vault",
	"SkaldInvariantBroken":    "needs a mistake in the scheduler",
	"SkaldDatabaseRisk":       "TestAlertsFireInARealPrometheus has it",
	"SkaldWorkersSilent":      "a lease, and the time to confirm it, have to pass",
	"SkaldWebhooksBehind":     "the webhook that fails here is disabled at once",
	"SkaldOldSnapshot":        "is measured every five minutes",
}

// soonerRules writes the rules with the changes of sooner, and returns their path.
func soonerRules(t *testing.T, dir string) string {
	t.Helper()
	var rules []map[string]any
	for _, a := range alerts(t) {
		expr := strings.Join(strings.Fields(a.Expr), " ")
		if change, given := sooner[a.Alert]; given {
			if !strings.Contains(expr, change[0]) {
				t.Fatalf("%s has no %q", a.Alert, change[0])
			}
			expr = strings.Replace(expr, change[0], change[1], 1)
		}
		rules = append(rules, map[string]any{"alert": a.Alert, "expr": expr, "labels": a.Labels})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "sooner", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "rules.yml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// fired asks Prometheus which alerts have fired so far.
func fired(t *testing.T, prometheus string) (names []string) {
	t.Helper()
	query := `group by (alertname) (max_over_time(ALERTS{alertstate="firing"}[1h]))`
	var answer struct {
		Data struct {
			Result []struct{ Metric map[string]string }
		}
	}
	text := get(t, "http://"+prometheus+"/api/v1/query?query="+url.QueryEscape(query))
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	for _, r := range answer.Data.Result {
		names = append(names, r.Metric["alertname"])
	}
	slices.Sort(names)
	return names
}

// moody is a participant, and a receiver of webhooks, that behaves as the path says.
func moody(t *testing.T) (host string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fails":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/slow":
			time.Sleep(time.Second)
		case "/hangs":
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		case "/refuses":
			w.WriteHeader(http.StatusConflict)
		}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return strings.TrimPrefix(s.URL, "http://")
}

// conditions is what the test of the alerts works with.
type conditions struct {
	*testing.T
	host, dsn, prometheus string
	done                  map[string]bool
}

func (c *conditions) sql(statement string) {
	c.Helper()
	out, err := exec.CommandContext(c.Context(), "psql", "-qAt", "-d", c.dsn, "-c", statement).CombinedOutput()
	if err != nil {
		c.Fatalf("%s: %v\n%s", statement, err, out)
	}
}

// fire waits until the alerts have fired.
func (c *conditions) fire(names ...string) {
	c.Helper()
	for _, name := range names {
		patience.Until(c.T, name+" fires", func() bool { return slices.Contains(fired(c.T, c.prometheus), name) })
		c.Log(name, "fires")
		c.done[name] = true
	}
}

// saga has one step, whose participant behaves as the path says.
func (c *conditions) saga(path string) string {
	return `{"workflow_name": "w", "payload": {}, "steps": [{"name": "a",
		"action": {"http": {"url": "http://` + c.host + path + `"}}, "timeout_ms": 240000,
		"compensation": {"http": {"url": "http://` + c.host + `/refuses"}},
		"retry": {"max_attempts": 3, "initial_interval_ms": 600000, "max_interval_ms": 600000}}]}`
}

// held starts a transaction that holds back the feed, until it is called.
func (c *conditions) held() (end func()) {
	c.Helper()
	cmd := exec.CommandContext(c.Context(), "psql", "-q", "-d", c.dsn)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.Fatal(err)
	}
	_, _ = io.WriteString(in, "BEGIN; SELECT pg_current_xact_id();\n")
	end = sync.OnceFunc(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	c.Cleanup(end)
	return end
}

// What each alert is for is brought about, on a real Prometheus that scrapes a real server.
func TestAlertsFireInTheirConditions(t *testing.T) {
	dir := t.TempDir()
	database, err := devpg.Start(t.Context(), devpg.Config{Dir: t.TempDir(), Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Stop(context.Background()) })
	c := &conditions{t, moody(t), database.DSN(devpg.Database), testnet.FreeAddress(t), map[string]bool{}}
	addr := testnet.FreeAddress(t)
	config := fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs: [{job_name: skald, static_configs: [{targets: [%q]}]}]
`, soonerRules(t, dir), addr)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	Background(t, "prometheus", []string{"--config.file=" + filepath.Join(dir, "prometheus.yml"), "--log.level=warn",
		"--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + c.prometheus})
	patience.Until(t, "Prometheus is there", func() bool {
		return ready(t.Context(), http.DefaultClient, "http://"+c.prometheus+"/-/ready")
	})
	c.fire("SkaldDown") // there is no node yet
	Background(t, Skald(t), []string{"serve"},
		"SKALD_LISTEN_ADDR="+addr, "SKALD_ENV=test", "SKALD_DATABASE_URL="+c.dsn, "SKALD_DLQ_AUTO_RETRY=false",
		"SKALD_EGRESS_ALLOW="+c.host, "SKALD_TEST_CLOCK_OFFSET=3s", "SKALD_SERVER_MAX_CONNECTIONS_PER_ADDRESS=60",
		"SKALD_ENGINE_MAX_RUNNING=8", "SKALD_WEBHOOKS_MAX_ATTEMPTS=1", "SKALD_WEBHOOKS_DISABLE_AFTER=1",
		"SKALD_DLQ_RETENTION_DAYS=2", "SKALD_KAFKA_BROKERS="+testnet.ClosedAddress(t),
		"SKALD_KAFKA_EVENT_TOPIC=events")
	api := "http://" + addr + "/api/v1"
	patience.Until(t, "the server is ready", func() bool {
		return ready(t.Context(), http.DefaultClient, "http://"+addr+"/readyz")
	})
	release := c.held()
	c.fire("SkaldClockOff")

	// A step that fails before its undo does; one that is slow; 130 that wait.
	post(t, api+"/sagas", "", `{"workflow_name": "unlucky", "payload": {}, "steps": [
		{"name": "first", "action": {"http": {"url": "http://`+c.host+`/done"}},
			"compensation": {"http": {"url": "http://`+c.host+`/refuses"}}},
		{"name": "second", "action": {"http": {"url": "http://`+c.host+`/refuses"}}, "compensation": "none"}]}`)
	for range 5 {
		post(t, api+"/sagas", "", c.saga("/slow"))
	}
	for range 130 {
		post(t, api+"/sagas", "", c.saga("/fails"))
	}
	letter := `{"original_topic": "orders", "error_message": "no", "payload": {}}`
	post(t, api+"/dlq/messages/batch", "", `{"messages": [`+strings.Repeat(letter+",", 101)+letter+`]}`)
	c.sql(`UPDATE dlq.dlq_messages SET status = 'DEAD', resolution = 'EXHAUSTED', next_retry_at = NULL
		WHERE id = (SELECT id FROM dlq.dlq_messages WHERE status = 'PENDING' LIMIT 1)`)
	c.fire("SkaldSagaFailed", "SkaldDeadLettersPileUp", "SkaldDeadLettersLeave", "SkaldParticipantsSlow",
		"SkaldParticipantsFail", "SkaldSagasPileUp", "SkaldFeedHeldBack")
	release()
	post(t, api+"/webhooks", "", `{"url": "http://`+c.host+`/fails"}`)
	post(t, api+"/sagas", "", c.saga("/done"))
	c.fire("SkaldKafkaBehind", "SkaldWebhookDisabled")

	// A run that no worker takes, and a table that is gone.
	post(t, api+"/job-definitions", "",
		`{"name": "greet", "type": "manual", "command_name": "greet", "queue": "lonely"}`)
	post(t, api+"/job-definitions/greet/runs", "", `{"args": {}}`)
	c.fire("SkaldRunsWait")
	c.sql(`ALTER TABLE jobs.backfills RENAME TO elsewhere`)
	c.fire("SkaldSweepFails")

	// A saga that nothing would ever continue, and one that is waited for.
	c.sql(`UPDATE saga.saga_states SET next_run_at = NULL WHERE id = (SELECT id FROM saga.saga_states
		WHERE lease_owner IS NULL AND next_run_at IS NOT NULL LIMIT 1)`)
	for range 8 {
		post(t, api+"/sagas", "", c.saga("/hangs"))
	}
	c.fire("SkaldSagasStuck", "SkaldNodeFull")
	var open []net.Conn
	for range 80 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	c.fire("SkaldConnectionsRefused")
	for _, conn := range open {
		_ = conn.Close()
	}

	// The server's database hangs.
	testdb.Freeze(t, database.PID())
	for range 3 {
		_, _ = http.Get(api + "/sagas")
	}
	c.fire("SkaldRequestsFail", "SkaldDatabaseNotWritable", "SkaldLoopStopped", "SkaldNoJobLeader", "SkaldLoopLate",
		"SkaldSlowLoopStopped")
	for _, a := range alerts(t) {
		if done, why := c.done[a.Alert], notHere[a.Alert]; done == (why != "") {
			t.Errorf("%s: brought about %t, elsewhere %q", a.Alert, done, why)
		}
	}
}
