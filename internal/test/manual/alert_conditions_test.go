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

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.yaml.in/yaml/v3"

	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/secret/vault/vaulttest"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// sooner lists the changes that the test makes to expressions: how long a condition has to last,
// and nothing else. The rules have no "for" here.
var sooner = map[string][2]string{
	"SkaldLoopStopped":      {"> 60", "> 5"},
	"SkaldSlowLoopStopped":  {`{loop="job_logs"} > 300`, `{loop="job_logs"} > 40`},
	"SkaldFeedHeldBack":     {"> 60", "> 1"},
	"SkaldSagasPileUp":      {"offset 1h", "offset 10s"},
	"SkaldParticipantsSlow": {"> 10", "> 0.2"},
	"SkaldKafkaBehind":      {"> 300", "> 1"},
	"SkaldRunsWait":         {"> 300", "> 1"},
	"SkaldWebhooksBehind":   {"> 900", "> 1"},
}

// notHere lists the alerts that this test doesn't trigger, with the reason. Promtool tests them.
var notHere = map[string]string{
	"SkaldDatabaseRisk": "TestAlertsFireInARealPrometheus has it",
	"SkaldOldSnapshot":  "it is measured every five minutes, and only with pg_read_all_stats",
}

// soonerRules writes the rules with the changes of sooner and returns the file's path.
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

// moody starts a participant, which also receives webhooks, whose behavior depends on the path of a
// request.
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

// conditions is the state of the test of the alerts.
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

// saga returns a saga with one step, whose participant's behavior depends on path.
func (c *conditions) saga(path string) string {
	return `{"workflow_name": "w", "payload": {}, "steps": [{"name": "a",
		"action": {"http": {"url": "http://` + c.host + path + `"}}, "timeout_ms": 240000,
		"compensation": {"http": {"url": "http://` + c.host + `/refuses"}},
		"retry": {"max_attempts": 3, "initial_interval_ms": 600000, "max_interval_ms": 600000}}]}`
}

// held starts a transaction that holds back the feed and keeps an old snapshot until end is called.
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
	_, _ = io.WriteString(in, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id();\n")
	end = sync.OnceFunc(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	c.Cleanup(end)
	return end
}

// silence acts as a worker that claims and starts the run of the queue "lonely" and is never heard
// of again.
func (c *conditions) silence(api string) {
	c.Helper()
	c.call(http.MethodPatch, api+"/settings", `{"values": {"heartbeat_interval_seconds": 0.5,
		"run_lease_seconds": 1, "continuation_confirm_seconds": 1}}`, nil)
	var w struct {
		ID string `json:"worker_id"`
	}
	c.call(http.MethodPost, api+"/workers", `{"name": "w", "queues": ["lonely"]}`, &w)
	var claimed struct{ Runs []map[string]any }
	c.call(http.MethodPost, api+"/workers/"+w.ID+"/claim", `{"slots": 1}`, &claimed)
	if len(claimed.Runs) != 1 {
		c.Fatalf("%d runs were claimed", len(claimed.Runs))
	}
	r := claimed.Runs[0]
	fence, _ := json.Marshal(map[string]any{"worker_id": w.ID, "attempt": r["attempt"], "lease_token": r["lease_token"],
		"leader_epoch": r["leader_epoch"]})
	c.call(http.MethodPost, fmt.Sprint(api, "/job-runs/", r["run_id"], "/start"), string(fence), nil)
}

// call makes a request, which must succeed, and decodes the response.
func (c *conditions) call(method, url, body string, answer any) {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), method, url, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		c.Fatalf("%s %s: %s %v\n%s", method, url, res.Status, err, text)
	}
	if answer != nil {
		if err := json.Unmarshal(text, answer); err != nil {
			c.Fatal(err)
		}
	}
}

// another starts a second node. It gets its login from Vault, which is then sealed, and reads dead
// letters from Kafka that can't be stored.
func (c *conditions) another(addr string) {
	c.Helper()
	login, err := url.Parse(c.dsn)
	if err != nil {
		c.Fatal(err)
	}
	user := login.User.Username() // the address doesn't keep the user
	password, _ := login.User.Password()
	v := vaulttest.New()
	v.Role("database/creds/skald", vaulttest.Role{TTL: 10 * time.Second, MaxTTL: time.Hour,
		Make: func(int) (string, string) { return user, password }})
	server := httptest.NewServer(v)
	c.Cleanup(server.Close)
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders.dlq"))
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(broker.Close)
	login.User = nil
	Background(c.T, Skald(c.T), []string{"serve"},
		"SKALD_LISTEN_ADDR="+addr, "SKALD_ENV=test", "SKALD_DATABASE_URL="+login.String(), "SKALD_DLQ_AUTO_RETRY=false",
		"SKALD_DATABASE_AUTO_MIGRATE=false", "SKALD_ROLES=api,ingest", "SKALD_VAULT_ADDRESS="+server.URL,
		"SKALD_VAULT_TOKEN=root", "SKALD_VAULT_DYNAMIC_PATH=database/creds/skald",
		"SKALD_KAFKA_BROKERS="+strings.Join(broker.ListenAddrs(), ","), "SKALD_INGEST_TOPICS=[.]dlq$")
	c.fire("SkaldLoginExpires")
	v.Seal()
	c.sql(`CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN RAISE EXCEPTION ''no room'' USING ERRCODE = ''disk_full''; END';
		CREATE TRIGGER refuse BEFORE INSERT ON dlq.dlq_messages FOR EACH ROW EXECUTE FUNCTION public.refuse()`)
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...))
	if err != nil {
		c.Fatal(err)
	}
	defer client.Close()
	record := &kgo.Record{Topic: "orders.dlq", Key: []byte("k"), Value: []byte("{}")}
	if err := client.ProduceSync(c.Context(), record).FirstErr(); err != nil {
		c.Fatal(err)
	}
	c.fire("SkaldKafkaReadingPaused", "SkaldLoginFails")
}

// TestAlertsFireInTheirConditions creates the condition of each alert on a real Prometheus that
// scrapes a real server.
func TestAlertsFireInTheirConditions(t *testing.T) {
	dir := t.TempDir()
	database, err := devpg.Start(t.Context(), devpg.Config{Dir: t.TempDir(), Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Stop(context.Background()) })
	c := &conditions{t, moody(t), database.DSN(devpg.Database), testnet.FreeAddress(t), map[string]bool{}}
	addr, second := testnet.FreeAddress(t), testnet.FreeAddress(t)
	config := fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs: [{job_name: skald, static_configs: [{targets: [%q, %q]}]}]
`, soonerRules(t, dir), addr, second)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	Background(t, "prometheus", []string{"--config.file=" + filepath.Join(dir, "prometheus.yml"), "--log.level=warn",
		"--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + c.prometheus})
	patience.Until(t, "Prometheus is there", func() bool {
		return ready(t.Context(), http.DefaultClient, "http://"+c.prometheus+"/-/ready")
	})
	c.fire("SkaldDown") // no node has been started yet
	Background(t, Skald(t), []string{"serve"},
		"SKALD_LISTEN_ADDR="+addr, "SKALD_ENV=test", "SKALD_DATABASE_URL="+c.dsn, "SKALD_DLQ_AUTO_RETRY=false",
		"SKALD_EGRESS_ALLOW="+c.host, "SKALD_TEST_CLOCK_OFFSET=3s", "SKALD_SERVER_MAX_CONNECTIONS_PER_ADDRESS=60",
		"SKALD_ENGINE_MAX_RUNNING=8", "SKALD_WEBHOOKS_MAX_ATTEMPTS=1", "SKALD_WEBHOOKS_DISABLE_AFTER=1",
		"SKALD_DLQ_RETENTION_DAYS=2", "SKALD_KAFKA_BROKERS="+testnet.ClosedAddress(t),
		"SKALD_KAFKA_EVENT_TOPIC=events", "SKALD_PARTICIPANT_SECRETS={card: {base_url: 'http://"+c.host+
			"/card', secrets: {key: {file: "+filepath.Join(dir, "missing")+"}}}}")
	api := "http://" + addr + "/api/v1"
	patience.Until(t, "the server is ready", func() bool {
		return ready(t.Context(), http.DefaultClient, "http://"+addr+"/readyz")
	})
	release := c.held()
	c.fire("SkaldClockOff")
	post(t, api+"/webhooks", "", `{"url": "http://`+c.host+`/done"}`)

	// A saga whose step fails and whose compensation then fails too, slow sagas, and 130 waiting
	// ones.
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
		"SkaldParticipantsFail", "SkaldSagasPileUp", "SkaldFeedHeldBack", "SkaldWebhooksBehind")
	release()
	post(t, api+"/webhooks", "", `{"url": "http://`+c.host+`/fails"}`)
	post(t, api+"/sagas", "", c.saga("/done"))
	c.fire("SkaldKafkaBehind", "SkaldWebhookDisabled")
	c.call("PUT", api+"/participants/card", `{"base_url": "http://`+c.host+`/card"}`, nil)
	post(t, api+"/participants/card/hold", "", `{"reason": "maintenance"}`)
	c.fire("SkaldParticipantHeld", "SkaldParticipantSecretUnreadable")

	// A run that no worker takes, and a missing table.
	post(t, api+"/job-definitions", "",
		`{"name": "greet", "type": "manual", "command_name": "greet", "queue": "lonely"}`)
	post(t, api+"/job-definitions/greet/runs", "", `{"args": {}}`)
	c.fire("SkaldRunsWait")
	c.silence(api)
	c.fire("SkaldWorkersSilent")
	post(t, api+"/job-queues/lonely/hold", "", `{"reason": "maintenance"}`)
	post(t, api+"/job-definitions/greet/runs", "", `{"args": {}}`)
	c.fire("SkaldJobQueueHeld")
	c.sql(`ALTER TABLE jobs.backfills RENAME TO elsewhere`)
	c.fire("SkaldSweepFails")

	// A saga that nothing would ever continue, and sagas whose calls hang.
	c.sql(`UPDATE saga.saga_states SET next_run_at = NULL WHERE id = (SELECT id FROM saga.saga_states
		WHERE lease_owner IS NULL AND next_run_at IS NOT NULL LIMIT 1)`)
	for range 8 {
		post(t, api+"/sagas", "", c.saga("/hangs"))
	}
	c.fire("SkaldSagasStuck", "SkaldNodeFull")
	post(t, api+"/job-definitions/system.invariants/runs", "", `{"args": {}}`)
	c.fire("SkaldInvariantBroken")
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

	c.another(second)

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
