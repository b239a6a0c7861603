package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/skald-saga/skald/examples/order/ledger"
	"github.com/skald-saga/skald/examples/order/shop"
	"github.com/skald-saga/skald/internal/saga/certification/player"
	"github.com/skald-saga/skald/internal/test/patience"
)

// start runs the program on a free port until stop is called. stop returns the result of run.
func start(t *testing.T, path string) (base string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	logs, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"-listen", "127.0.0.1:0", "-ledger", path, "-v"}, w)
		_ = w.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(logs)
	if !lines.Scan() {
		t.Fatalf("the program ended: %v", <-ended)
	}
	m := regexp.MustCompile(`msg="participants ready" url=(\S+)`).FindStringSubmatch(lines.Text())
	if m == nil {
		t.Fatalf("first line %q does not say where it listens", lines.Text())
	}
	go func() {
		for lines.Scan() { // drain the pipe
		}
	}()
	return m[1], func() error { cancel(); return <-ended }
}

// call sends a call as Skald does and returns the status of the answer.
func call(t *testing.T, url, step, action string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"payload":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Idempotency-Key": "s1/" + step + "/" + action, "X-Saga-Id": "s1",
		"X-Saga-Step": step, "X-Saga-Action": action, "X-Saga-Attempt": "1", "X-Saga-Fence": "1"} {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func TestTheProgramServesAndRemembersOverARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	want := []ledger.Effect{ledger.Applied, ledger.Dup}
	for range want {
		base, stop := start(t, path)
		if got := call(t, base+"/charges", "pay", "execute"); got != http.StatusOK {
			t.Errorf("answered %d, want 200", got)
		}
		if err := stop(); err != nil {
			t.Fatalf("stopped with %v", err)
		}
	}
	entries, err := ledger.Read(path)
	if err != nil || len(entries) != len(want) {
		t.Fatalf("ledger has %d entries, %v; want %d", len(entries), err, len(want))
	}
	for i, e := range entries {
		if e.Effect != want[i] {
			t.Errorf("entry %d is %s, want %s", i, e.Effect, want[i])
		}
	}
}

func TestTheProgramDoesNotStartWrongly(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	good := filepath.Join(t.TempDir(), "ledger.jsonl")
	for name, args := range map[string][]string{
		"unknown flag":      {"-legder", good},
		"stray argument":    {"-ledger", good, "now"},
		"no such directory": {"-ledger", filepath.Join(good, "x", "ledger.jsonl")},
		"address in use":    {"-ledger", good, "-listen", busy.Addr().String()},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%s: run returned nil, want an error", name)
		}
	}
}

// workflow is the part of workflow.yaml that concerns a participant. An unknown field fails the
// test, as it would fail the registration.
type workflow struct {
	Name      string
	TimeoutMS int `yaml:"timeout_ms"`
	Retry     retry
	Steps     []struct {
		Name                 string
		Action, Compensation target
		TimeoutMS            int `yaml:"timeout_ms"`
		Retry                retry
	}
}

type retry struct {
	MaxAttempts       int `yaml:"max_attempts"`
	InitialIntervalMS int `yaml:"initial_interval_ms"`
	MaxIntervalMS     int `yaml:"max_interval_ms"`
	Multiplier        float64
	Jitter            float64
}

type target struct {
	HTTP struct{ Method, URL string }
}

func TestEachStepOfTheWorkflowFindsItsParticipant(t *testing.T) {
	file, err := os.Open("workflow.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var w workflow
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	if err := decoder.Decode(&w); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	base, stop := start(t, path)
	end := ledger.SagaEnd{Outcome: ledger.Compensated}
	for _, s := range w.Steps {
		end.Steps = append(end.Steps, s.Name)
		if got := call(t, moved(t, s.Action, base), s.Name, "execute"); got != http.StatusOK {
			t.Errorf("%s answered %d, want 200", s.Name, got)
		}
	}
	for i := range w.Steps {
		s := w.Steps[len(w.Steps)-1-i]
		if got := call(t, moved(t, s.Compensation, base), s.Name, "compensate"); got != http.StatusOK {
			t.Errorf("undo of %s answered %d, want 200", s.Name, got)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	entries, err := ledger.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range ledger.Check(entries, map[string]ledger.SagaEnd{"s1": end}) {
		t.Error(v)
	}
	const want = "order [reserve-stock charge-payment confirm-order]"
	if got := fmt.Sprint(w.Name, " ", end.Steps); got != want {
		t.Errorf("workflow is %s, want %s", got, want)
	}
}

// moved returns the URL of to on the server at base, after checking that to names the default
// address of this program.
func moved(t *testing.T, to target, base string) string {
	t.Helper()
	u, err := url.Parse(to.HTTP.URL)
	if err != nil {
		t.Fatal(err)
	}
	if u.Host != "127.0.0.1:9001" || to.HTTP.Method != http.MethodPost {
		t.Errorf("%s %s is not a POST to 127.0.0.1:9001", to.HTTP.Method, to.HTTP.URL)
	}
	return base + u.Path
}

// Each step of the workflow, and a step of any other name, is a correct participant. Its effect is
// what the ledger records as applied under a key.
func TestEachStepIsCertified(t *testing.T) {
	for _, tt := range []struct{ do, undo, step string }{
		{"/reservations", "/reservations/cancel", "reserve-stock"},
		{"/charges", "/charges/refund", "charge-payment"},
		{"/orders/confirm", "/orders/cancel", "confirm-order"},
		{"/steps/{step}", "/steps/{step}/undo", "pack"},
	} {
		t.Run(tt.step, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ledger.jsonl")
			var running atomic.Pointer[shop.Shop]
			restart := func(context.Context) error {
				if old := running.Load(); old != nil {
					if err := old.Close(); err != nil {
						return err
					}
				}
				s, err := shop.Open(shop.Config{Ledger: path})
				running.Store(s)
				return err
			}
			if err := restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			mux := http.NewServeMux()
			mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { running.Load().ServeHTTP(w, r) })
			mux.HandleFunc("GET /effects", func(w http.ResponseWriter, r *http.Request) { count(w, path, r.FormValue("key")) })
			server := httptest.NewServer(mux)
			defer server.Close()
			report, err := player.Run(patience.Context(t), player.Config{
				URL: server.URL + tt.do, Compensation: server.URL + tt.undo, Step: tt.step,
				Effects: server.URL + "/effects", Payload: json.RawMessage(`{"quantity":1,"amount":5}`),
				Restart: restart, Robust: tt.step == "pack", // one test with large bodies is enough
			})
			if err != nil || !report.Certified || len(report.Findings) > 0 || len(report.Warnings) > 0 {
				t.Errorf("certified %t, %v\n%s", report.Certified, err, report.Text())
			}
			if last := running.Load(); last != nil {
				if err := last.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// count returns how often an effect was applied, or undone, under a key.
func count(w http.ResponseWriter, path, key string) {
	entries, err := ledger.Read(path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	n := 0
	for _, e := range entries {
		if e.Key == key && e.Effect == ledger.Applied {
			n++
		}
	}
	fmt.Fprintf(w, `{"effects":%d}`, n)
}
