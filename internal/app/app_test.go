package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// node is a Skald node that runs in this process.
type node struct {
	url  string
	logs *syncBuffer
	stop func() error
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// start runs a node on dsn until stop or the end of the test; change modifies its configuration
// first.
func start(t *testing.T, dsn, name string, change ...func(*config.Config)) *node {
	t.Helper()
	return startWith(t, dsn, name, func(*app.Options) {}, change...)
}

// startWith is start with additional options.
func startWith(
	t *testing.T, dsn, name string, options func(*app.Options), change ...func(*config.Config),
) *node {
	t.Helper()
	cfg := config.Default(config.Test)
	cfg.Database.URL = config.Secret(dsn)
	cfg.Server.ListenAddr = "127.0.0.1:0"
	cfg.Engine.NodeID = name
	cfg.Engine.LeaseTTL = 2 * time.Second
	// Letters stay as they are; tests of automatic retries switch them on.
	cfg.DLQ.AutoRetry = false
	cfg.Server.MaxWait, cfg.Server.WriteTimeout = 10*time.Minute, 20*time.Minute // longer than any test waits
	for _, f := range change {
		f(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{logs: &syncBuffer{}}
	ready, ended := make(chan string, 1), make(chan error, 1)
	opt := app.Options{
		EUID: 1000, // tests may run as root, which may not run programs; cmd/skald tests that
		Log:  slog.New(slog.NewJSONHandler(n.logs, nil)), Ready: func(url string) { ready <- url },
	}
	options(&opt)
	go func() { ended <- app.Run(ctx, cfg, opt) }()
	n.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := n.stop(); err != nil {
			t.Errorf("node %s ended with %v", name, err)
		}
	})
	select {
	case n.url = <-ready:
	case err := <-ended:
		ended <- err // for stop
		t.Fatalf("node %s did not start: %v\n%s", name, err, n.logs)
	case <-patience.Context(t).Done():
		t.Fatalf("node %s did not become ready:\n%s", name, n.logs)
	}
	return n
}

// call makes a request and decodes the JSON response.
func call(t *testing.T, method, url, body string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return answer(t, req)
}

// do makes a request with a credential and decodes the JSON response.
func do(t *testing.T, req *http.Request, credential string) map[string]any {
	t.Helper()
	req.Header.Set("X-API-Key", credential)
	_, doc := answer(t, req)
	return doc
}

func answer(t *testing.T, req *http.Request) (int, map[string]any) {
	t.Helper()
	res, doc, err := answerOf(req)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, doc
}

// answerOf makes a request and decodes the JSON response.
func answerOf(req *http.Request) (*http.Response, map[string]any, error) {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	var doc map[string]any
	text, err := io.ReadAll(res.Body)
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %d %s: %w", req.Method, req.URL, res.StatusCode, text, err)
	}
	return res, doc, err
}

const twoSteps = `{"name": "pair", "steps": [
	{"name": "one", "action": {"http": {"url": "URL/one"}}, "compensation": {"http": {"url": "URL/one/undo"}}},
	{"name": "two", "action": {"http": {"url": "URL/two"}}, "compensation": "none"}]}`

func TestASagaRunsFromTheRequestToItsEnd(t *testing.T) {
	t.Parallel()
	var calls syncBuffer
	participant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(&calls, r.URL.Path+" ")
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/two" && bytes.Contains(body, []byte(`"refuse":true`)):
			w.WriteHeader(http.StatusConflict)
			return
		case r.URL.Path == "/two" && bytes.Contains(body, []byte(`"slow":true`)):
			time.Sleep(700 * time.Millisecond) // it is recorded as running meanwhile
		case bytes.Contains(body, []byte(`"silent":true`)):
			w.WriteHeader(http.StatusNoContent)
			return
		case bytes.Contains(body, []byte(`"busy":true`)) && calls.String() == "/one ":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		io.WriteString(w, `{"ok":true,"n":12345678901234567890}`)
	}))
	defer participant.Close()
	n := start(t, testdb.DSN(t), "a")
	if status, doc := call(t, "POST", n.url+"/api/v1/workflows",
		strings.ReplaceAll(twoSteps, "URL", participant.URL)); status != 201 {
		t.Fatalf("register: %d %v", status, doc)
	}
	for _, tt := range []struct{ payload, status, calls string }{
		{`{}`, "COMPLETED", "/one /two "},
		{`{"refuse": true}`, "FAILED", "/one /two /one/undo "},
		{`{"slow": true}`, "COMPLETED", "/one /two "},
		{`{"silent": true}`, "COMPLETED", "/one /two "},
		{`{"busy": true}`, "COMPLETED", "/one /one /two "},
	} {
		calls = syncBuffer{}
		_, doc := call(t, "POST", n.url+"/api/v1/sagas?wait=4m", `{"workflow_name": "pair", "payload": `+tt.payload+`}`)
		if doc["status"] != tt.status || doc["clean"] != true || calls.String() != tt.calls {
			t.Errorf(
				"payload %s: %v, clean %v, calls %q; want %s, clean, %q",
				tt.payload,
				doc["status"],
				doc["clean"],
				calls.String(),
				tt.status,
				tt.calls,
			)
		}
		// A waiting request is answered by the node that drove the saga, without reading the
		// database.
		_, stored := call(t, "GET", n.url+"/api/v1/sagas/"+doc["saga_id"].(string), "")
		if !reflect.DeepEqual(doc, stored) {
			t.Errorf("payload %s: the answer of the wait is\n%v\nand the store has\n%v", tt.payload, doc, stored)
		}
	}
	res, err := http.Get(n.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	metrics, _ := io.ReadAll(res.Body)
	for _, want := range []string{`skald_sagas_ended_total{state="completed"} 4`, `skald_sagas_ended_total{state="compensated"} 1`, "skald_sagas_created_total 5"} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

func TestNodesThatStartTogetherOnAnEmptyDatabaseAllComeUp(t *testing.T) {
	t.Parallel()
	dsn := testdb.Empty(t)
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		all.Go(func() {
			n := start(t, dsn, name)
			if status, doc := call(t, "GET", n.url+"/readyz", ""); status != 200 {
				t.Errorf("node %s: %d %v", name, status, doc)
			}
		})
	}
	all.Wait()
}

func TestAStopHandsOverAndAnotherNodeFinishes(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	participant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/one" {
			<-release // the stop begins while this call is in flight
		}
		io.WriteString(w, `{}`)
	}))
	defer participant.Close()
	dsn := testdb.DSN(t)
	a := start(t, dsn, "a")
	call(t, "POST", a.url+"/api/v1/workflows", strings.ReplaceAll(twoSteps, "URL", participant.URL))
	_, doc := call(t, "POST", a.url+"/api/v1/sagas", `{"workflow_name": "pair"}`)
	id := doc["saga_id"].(string)
	stopped := make(chan error)
	go func() { stopped <- a.stop() }()
	// Only the log shows it from outside.
	patience.Until(t, "the node stops", func() bool { return strings.Contains(a.logs.String(), `"stopping"`) })
	close(release)
	if err := <-stopped; err != nil {
		t.Fatalf("stop: %v", err)
	}
	b := start(t, dsn, "b")
	_, doc = call(t, "GET", b.url+"/api/v1/sagas/"+id+"?wait=4m", "")
	logs := doc["step_logs"].([]any)
	if doc["status"] != "COMPLETED" || len(logs) != 2 {
		t.Errorf("after the stop: %v with %d step logs, want COMPLETED with 2", doc["status"], len(logs))
	}
	for _, l := range logs {
		if l := l.(map[string]any); l["attempt"] != 1.0 || l["status"] != "SUCCESS" {
			t.Errorf("a stop must cost no attempt: %v", l)
		}
	}
}

func TestAWrongSettingEndsTheStartWithAReason(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		set  func(*config.Config)
		want string
	}{
		{"an unusable egress entry", func(c *config.Config) { c.Egress.Allow = []string{"10.0.0.0/99"} }, "10.0.0.0/99"},
		{"failpoints in a binary without them", func(c *config.Config) { c.Failpoints = "claim.before=kill" }, "failpoints"},
		{"a Vault that is not there", func(c *config.Config) {
			c.Vault.Address, c.Vault.Token, c.Vault.StaticPath = "http://127.0.0.1:1", "canary", "secret/data/x"
		}, "read the database login: vault: look up the token"},
		{"a password file that has gone", func(c *config.Config) { c.Database.PasswordFile = "/nonexistent" }, "read the database login: cannot be read"},
		{"a place for logs that cannot be", func(c *config.Config) { c.Jobs.LogOffloadURL = "file:///dev/null/logs" }, "jobs.log_offload_url"},
		{"a Redis that cannot be", func(c *config.Config) { c.Jobs.RedisURL = "redis://h/x" }, "jobs.redis_url"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config.Default(config.Test)
			cfg.Server.ListenAddr = "127.0.0.1:0"
			cfg.Database.URL = config.Secret(testdb.DSN(t))
			tt.set(&cfg)
			err := app.Run(t.Context(), cfg, app.Options{Log: slog.New(slog.DiscardHandler)})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Run = %v, want an error with %q", err, tt.want)
			}
		})
	}
}
