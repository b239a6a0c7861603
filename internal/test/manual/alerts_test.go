package manual

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// alert is a rule in deploy/prometheus/rules.yml.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal([]byte(content(t, root(t), "deploy/prometheus/rules.yml")), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 25 {
		t.Fatalf("only %d alerts: the file has changed its form", len(all))
	}
	return all
}

// TestEachAlertIsTriedAndExplained: each alert is correct PromQL, fires in its condition but not in
// a similar one, and has a section in the manual with the same expression.
func TestEachAlertIsTriedAndExplained(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(root(t), "deploy", "prometheus")
	for _, args := range [][]string{{"check", "rules", "rules.yml"}, {"test", "rules", "rules_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	folded := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	page, tests := content(t, root(t), "docs/alerts.md"), content(t, dir, "rules_test.yml")
	sections := map[string]string{}
	for _, s := range strings.Split(page, "\n### ")[1:] {
		name, text, _ := strings.Cut(s, "\n")
		sections[name], _, _ = strings.Cut(text, "\n## ")
	}
	for _, a := range alerts(t) {
		m := regexp.MustCompile("(?s)```promql\n(.*?)```\n\n(Critical|Warning)(?:, after (\\w+))?\\. (.+)").
			FindStringSubmatch(sections[a.Alert])
		delete(sections, a.Alert)
		switch {
		case m == nil:
			t.Errorf("docs/alerts.md has no section %s with an expression, a severity and what to do", a.Alert)
		case folded(m[1]) != folded(a.Expr) || strings.ToLower(m[2]) != a.Labels["severity"] || m[3] != a.For:
			t.Errorf("docs/alerts.md says of %s\n%s%s %s\nbut the rule is\n%s %s %s",
				a.Alert, m[1], m[2], m[3], a.Expr, a.Labels["severity"], a.For)
		}
		if !strings.HasSuffix(a.Annotations["runbook_url"], "/docs/alerts.md#"+strings.ToLower(a.Alert)) {
			t.Errorf("%s: its runbook_url is %q", a.Alert, a.Annotations["runbook_url"])
		}
		if a.Annotations["summary"] == "" {
			t.Errorf("%s has no summary", a.Alert)
		}
		for _, way := range []string{" fires\n", " is quiet\n"} {
			if !strings.Contains(tests, "name: "+a.Alert+way) {
				t.Errorf("rules_test.yml has no test %s%s", a.Alert, way)
			}
		}
	}
	for name := range sections {
		t.Errorf("docs/alerts.md explains %s, which is not an alert", name)
	}
}

// optional lists the series that a fresh node doesn't have, with the reason.
var optional = map[string]string{
	"skald_postgres_oldest_snapshot":                        "measured every five minutes",
	"skald_database_login_failed_total":                     "only with a login that can change",
	"skald_database_login_renewed_total":                    "the same",
	"skald_database_login_last_success_timestamp_seconds":   "the same",
	"skald_database_login_valid_until_timestamp_seconds":    "the same",
	"skald_table_bytes":                                     "for each table, measured every five minutes",
	"skald_table_tuples":                                    "the same",
	"skald_dlq_ingest_topic":                                "for each topic that is read",
	"skald_participant_secret_read_failures_total":          "for each participant that has secrets",
	"skald_participant_secret_echoes_total":                 "the same",
	`skald_loop_last_success_timestamp_seconds{dlq_upkeep}`: "a loop of nodes without a worker",
}

// get returns the body of a response, which must be 200.
func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", url, res.Status, err, text)
	}
	return string(text)
}

// expectSeries checks that a node's metrics contain a series for everything that an alert's
// expression selects, and for every label value that it names.
func expectSeries(t *testing.T, a *alert, shown string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(skald_\w+)(?:\{(\w+)(=~|!~|=|!=)"([^"]*)"\})?`).FindAllStringSubmatch(a.Expr, -1) {
		name, label, op, values := m[1], m[2], m[3], strings.Split(m[4], "|")
		if strings.HasPrefix(op, "!") || label == "" {
			label, values = "", []string{""}
		}
		for _, v := range values {
			if optional[name] != "" || optional[name+"{"+v+"}"] != "" {
				continue
			}
			series := "(?m)^" + name + `[ {]`
			if label != "" {
				series = "(?m)^" + name + `\{(|.*,)` + label + `="` + v + `"`
			}
			if !regexp.MustCompile(series).MatchString(shown) {
				t.Errorf("%s: a fresh node has no series %s{%s=%q}", a.Alert, name, label, v)
			}
		}
	}
}

// metricsOf returns the names of all metrics in the code.
func metricsOf(t *testing.T) (names []string) {
	t.Helper()
	dir := filepath.Join(root(t), "internal", "ops", "metrics")
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			names = append(names, regexp.MustCompile(`skald_[a-z_]+`).FindAllString(content(t, file), -1)...)
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) < 80 {
		t.Fatalf("only %d metrics were found", len(names))
	}
	return names
}

// firing asks Prometheus which alerts are firing.
func firing(t *testing.T, prometheus string) (names []string) {
	t.Helper()
	var answer struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
	}
	if err := json.Unmarshal([]byte(get(t, "http://"+prometheus+"/api/v1/alerts")), &answer); err != nil {
		t.Fatal(err)
	}
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			names = append(names, a.Labels["alertname"])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// refusing starts a participant that accepts calls to /done and refuses all others.
func refusing(t *testing.T) (host string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/done" {
			w.WriteHeader(http.StatusConflict)
		}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// TestAlertsFireInARealPrometheus: Prometheus scrapes a server from its start, and the
// alerts that fire are exactly those whose conditions the test creates.
func TestAlertsFireInARealPrometheus(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	host := refusing(t)
	addr := Serve(t, "SKALD_DATABASE_URL="+dsn, "SKALD_DLQ_AUTO_RETRY=false", "SKALD_EGRESS_ALLOW="+host)
	shown := get(t, "http://"+addr+"/metrics")
	all := alerts(t)
	for i := range all {
		expectSeries(t, &all[i], shown)
	}
	for _, name := range metricsOf(t) {
		if !regexp.MustCompile("(?m)^"+name+"(_count)?[ {]").MatchString(shown) && optional[name] == "" {
			t.Errorf("a fresh node has no series %s", name)
		}
	}

	prometheus, dir := testnet.FreeAddress(t), t.TempDir()
	config := fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs: [{job_name: skald, static_configs: [{targets: [%q]}]}]
`, filepath.Join(root(t), "deploy/prometheus/rules.yml"), addr)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	Background(t, "prometheus", []string{"--config.file=" + filepath.Join(dir, "prometheus.yml"), "--log.level=warn",
		"--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + prometheus})
	scraped := func() bool {
		return strings.Contains(get(t, "http://"+prometheus+"/api/v1/query?query=skald_engine_running"), addr)
	}
	patience.Until(t, "Prometheus is there", func() bool {
		return ready(t.Context(), http.DefaultClient, "http://"+prometheus+"/-/ready")
	})
	patience.Until(t, "Prometheus scrapes", scraped)
	// SkaldDatabaseRisk fires because test servers run without fsync.
	patience.Until(t, "the rules are evaluated", func() bool { return len(firing(t, prometheus)) > 0 })
	if fire := firing(t, prometheus); !slices.Equal(fire, []string{"SkaldDatabaseRisk"}) {
		t.Errorf("after an ordinary start %v fire", fire)
	}

	api := "http://" + addr + "/api/v1"
	post(t, api+"/sagas", "", `{"workflow_name": "unlucky", "payload": {}, "steps": [
		{"name": "first", "action": {"http": {"url": "http://`+host+`/done"}},
			"compensation": {"http": {"url": "http://`+host+`/refused"}}},
		{"name": "second", "action": {"http": {"url": "http://`+host+`/refused"}}, "compensation": "none"}]}`)
	letters := strings.Repeat(`,{"original_topic": "orders", "error_message": "no", "payload": {}}`, 101)
	post(t, api+"/dlq/messages/batch", "", `{"messages": [`+letters[1:]+`]}`)
	breaks := exec.CommandContext(t.Context(), "psql", "-q", "-d", dsn, "-c", "ALTER TABLE jobs.backfills RENAME TO elsewhere")
	if out, err := breaks.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := []string{"SkaldDatabaseRisk", "SkaldDeadLettersPileUp", "SkaldSagaFailed", "SkaldSweepFails"}
	patience.Until(t, "what was brought about fires", func() bool { return slices.Equal(firing(t, prometheus), want) })
}
