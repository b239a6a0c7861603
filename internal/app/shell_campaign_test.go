package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// An operator attacks the command shell: every way to create a run, combined with every form of
// its arguments. Only what the administrator's definition says may be executed.

// campaign is a node that runs programs, an administrator's and an operator's key.
type campaign struct {
	*node
	t               *testing.T
	admin, operator string
	mark            string // a file that no definition creates
	docs            []string
	wanted          map[string]int // runs of each trigger
	turns           map[string]int // ways of each trigger that were tried
}

// says is the script of the definitions: it prints its working directory and its environment
// except the variables with data.
const says = `echo fixed; pwd; env | grep -v -e ^SKALD_ -e ^_= | sort`

func newCampaign(t *testing.T) *campaign {
	t.Helper()
	c := &campaign{t: t, admin: newToken(t), mark: filepath.Join(t.TempDir(), "escaped")}
	c.wanted, c.turns = map[string]int{}, map[string]int{}
	c.node = start(t, testdb.DSN(t), "campaign", bootstrapped(c.admin), func(cfg *config.Config) {
		cfg.Jobs.WorkerQueues, cfg.Jobs.WorkerConcurrency = []string{"system", "shellq"}, 8
		cfg.Jobs.WorkerShell, cfg.Jobs.WorkerShellAllow, cfg.Jobs.WorkerShellEnvAllow = true, []string{
			"/bin/sh",
			"/usr/bin/env",
		}, []string{
			"X",
		}
		cfg.DLQ.MaxRedriveRate = 10_000
		cfg.DLQ.AutoRetry = false // or a letter may be on its way before the operator retries it
	})
	c.operator = fmt.Sprint(c.must(c.admin, "POST", "/api/v1/api-keys", `{"name":"op","role":"operator"}`, 201)["key"])
	define := func(name, more string) {
		t.Helper()
		body := fmt.Sprintf(
			`{"name":%q,"queue":"shellq","command_name":"shell","default_args":{"script":%q,"env":{"X":"y"},"dir":"/"},%s}`,
			name,
			says,
			more,
		)
		c.must(c.admin, "POST", "/api/v1/job-definitions", body, 201)
	}
	define("fixed", `"type":"manual"`)
	define("heard", `"type":"event","event":{"event_type":"heard"}`)
	define("heard.payload", `"type":"event","event":{"event_type":"heard","args_from":"payload"}`)
	c.must(
		c.admin,
		"POST",
		"/api/v1/job-definitions",
		fmt.Sprintf(`{"name":"failing","queue":"shellq","command_name":"shell","type":"manual","dead_letter":true,
		"default_args":{"script":%q,"env":{"X":"y"},"dir":"/"},"retry":{"max_attempts":2,"initial_interval_ms":1}}`, says+"; exit 1"),
		201,
	)
	c.must(
		c.admin,
		"POST",
		"/api/v1/job-definitions",
		`{"name":"outside","queue":"outside","command_name":"outside","type":"manual"}`,
		201,
	)
	c.docs = c.arguments()
	return c
}

// arguments lists arguments that an attacker might try.
func (c *campaign) arguments() []string {
	touch := "touch " + c.mark + "; echo ESCAPED"
	word := func(v any) string {
		doc, err := json.Marshal(v)
		if err != nil {
			c.t.Fatal(err)
		}
		return string(doc)
	}
	var docs []string
	argv := []string{"/bin/sh", "-c", touch}
	for n, name := range []string{
		"script", "Script", "SCRIPT", "argv", "args", "{args}", "command", "command_name", "cmd", "program", "shell", "stdin",
		"input", "dir", "cwd", "env", "user", "uid", "unknown",
		"definition", "default_args", "spec", "$0", "-c", "0", "",
	} {
		values := []any{touch, argv, map[string]any{"script": touch, "argv": argv, "dir": "/tmp"}}
		docs = append(docs, word(map[string]any{name: values[n%len(values)]}))
	}
	docs = append(
		docs,
		word(map[string]any{"script": touch, "dir": "/tmp", "env": map[string]string{"X": "z"}}),
		word(map[string]any{"argv": argv}),
		word(map[string]any{"dir": "/tmp"}),
		word(argv),
		word(touch),
		"7",
		"-1",
	)
	for _, name := range []string{
		"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "LD_DEBUG", "BASH_ENV", "ENV", "PATH", "HOME", "IFS", "PS4", "SHELLOPTS",
		"BASH_FUNC_echo%%", "PYTHONPATH", "PYTHONSTARTUP", "PERL5OPT",
		"PERL5LIB", "RUBYOPT", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "GCONV_PATH", "GIT_SSH_COMMAND", "TZ", "LANG",
		"SKALD_RUN_ID", "SKALD_ARG_X", "X", "X=1\nY",
	} {
		value := "$(" + touch + ")"
		if strings.HasPrefix(name, "LD_") {
			value = "/no/such.so"
		}
		docs = append(docs, word(map[string]any{"env": map[string]string{name: value}, name: value}))
	}
	return docs
}

// try makes a request with a key and returns the response.
func (c *campaign) try(key, method, path, body string) (int, map[string]any) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-API-Key", key)
	return answer(c.t, req)
}

// must makes a request with a known status; otherwise the test fails, and continues.
func (c *campaign) must(key, method, path, body string, want int) map[string]any {
	c.t.Helper()
	got, doc := c.try(key, method, path, body)
	if got != want {
		c.t.Errorf("%s %s %.300s: %d %v", method, path, body, got, doc)
	}
	return doc
}

// ended waits until n runs of a definition have ended, and returns them.
func (c *campaign) ended(definition string, n int) []map[string]any {
	c.t.Helper()
	var runs []map[string]any
	patience.Until(c.t, fmt.Sprintf("%d runs of %s end", n, definition), func() bool {
		runs = runs[:0]
		over := 0
		for cursor := ""; ; {
			page := c.must(c.operator, "GET", "/api/v1/job-runs?page_size=200&definition="+definition+cursor, "", 200)
			for _, r := range page["job_runs"].([]any) {
				runs = append(runs, r.(map[string]any))
				if runs[len(runs)-1]["finished_at"] != nil {
					over++
				}
			}
			next, _ := page["pagination"].(map[string]any)["next_cursor"].(string)
			if next == "" {
				return over >= n
			}
			cursor = "&cursor=" + next
		}
	})
	return runs
}

func (c *campaign) log(run string) string {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.url+"/api/v1/job-runs/"+run+"/logs", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("X-API-Key", c.operator)
	req.Header.Set("Accept", "text/plain")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		c.t.Fatalf("the log of %s: %d %s %v", run, res.StatusCode, text, err)
	}
	return string(text)
}

// each makes a call for every document, a few at a time, and returns the number of calls.
// Arguments are parsed in one place for all triggers: the first way of each trigger gets every
// document, and the others a third of them each in turn.
func (c *campaign) each(trigger string, call func(doc string)) int {
	docs := c.docs
	if c.turns[trigger] > 0 {
		docs = nil
		for i := c.turns[trigger] % 3; i < len(c.docs); i += 3 {
			docs = append(docs, c.docs[i])
		}
	}
	c.turns[trigger]++
	c.eachOf(docs, trigger, call)
	return len(docs)
}

func (c *campaign) eachOf(docs []string, trigger string, call func(doc string)) {
	var all sync.WaitGroup
	work := make(chan string)
	for range 4 {
		all.Go(func() {
			for doc := range work {
				call(doc)
			}
		})
	}
	for _, doc := range docs {
		work <- doc
	}
	close(work)
	all.Wait()
	c.wanted[trigger] += len(docs)
}

func TestOperatorsCannotChooseWhichProgramRuns(t *testing.T) {
	t.Parallel()
	c := newCampaign(t)
	first := c.must(c.operator, "POST", "/api/v1/job-definitions/fixed/runs", ``, 201)["id"].(string)
	c.ended("fixed", 1)
	fixed := c.log(first)
	if !strings.HasPrefix(fixed, "fixed\n/\n") || !strings.Contains(fixed, "X=y\n") || strings.Contains(fixed, c.admin) {
		t.Fatalf("the program says %q", fixed)
	}
	c.wanted["MANUAL"]++
	c.byHand(first)
	c.byLetters()
	c.bySagas()
	c.byEvents()
	c.byWorkers()
	c.byClock(fixed)
	c.failing(fixed)
	// The operator cannot change the definition with any method or body.
	for _, doc := range []string{`{"default_args":{"script":"id"}}`, `{"command_name":"system.dlq.redrive"}`, `{"event":{"event_type":"x"},"type":"event"}`, `{"args_schema":{}}`} {
		for _, call := range [][2]string{{"PATCH", "/fixed"}, {"PUT", "/fixed"}, {"POST", ""}, {"DELETE", "/fixed"},
			{"POST", "/fixed/backfills"}} {
			if got, _ := c.try(c.operator, call[0], "/api/v1/job-definitions"+call[1], doc); got != 403 && got != 405 {
				t.Errorf("%s %s %s of an operator: %d", call[0], call[1], doc, got)
			}
		}
	}
	total := 0
	for _, n := range c.wanted {
		total += n
	}
	got := map[string]int{}
	heard := 2 * len(c.docs) // published, and emitted
	runs := slices.Concat(c.ended("fixed", total-2*heard), c.ended("heard", heard), c.ended("heard.payload", heard))
	for _, r := range runs {
		got[r["trigger"].(string)]++
		if text := c.log(r["id"].(string)); r["state"] != "SUCCEEDED" || text != fixed {
			full := c.must(c.operator, "GET", "/api/v1/job-runs/"+r["id"].(string), "", 200)
			t.Errorf("a run by %s with %v is %v (%v) and says %q", r["trigger"], full["args"], r["state"], full["error"], text)
		}
	}
	if !maps.Equal(got, c.wanted) {
		t.Errorf("runs by trigger: %v, want %v", got, c.wanted)
	}
	if _, err := os.Stat(c.mark); !os.IsNotExist(err) {
		t.Error("something ran that no definition says")
	}
	t.Logf("%d runs of %d documents: %v", len(runs), len(c.docs), got)
}
