package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// serve runs a real server and returns its URL.
func serve(t *testing.T) string {
	t.Helper()
	cfg := config.Default(config.Test)
	cfg.Database.URL = config.Secret(testdb.DSN(t))
	cfg.Server.ListenAddr = "127.0.0.1:0"
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- app.Run(ctx, cfg, app.Options{Log: slog.New(slog.DiscardHandler), Ready: func(url string) { ready <- url }})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the server stopped with %v", err)
		}
	})
	select {
	case url := <-ready:
		return url
	case err := <-ended:
		ended <- err
		t.Fatalf("the server did not start: %v", err)
	case <-patience.Context(t).Done():
		t.Fatal("the server did not become ready")
	}
	return ""
}

func send(t *testing.T, method, url, body string) (doc map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode/100 != 2 || json.Unmarshal(text, &doc) != nil {
		t.Fatalf("%s %s: %d %s", method, url, res.StatusCode, text)
	}
	return doc
}

// shouted requests a run and waits for its result.
func shouted(t *testing.T, url, line string) string {
	t.Helper()
	id := send(t, "POST", url+"/api/v1/job-definitions/shout/runs", `{"args":{"line":"`+line+`"}}`)["id"].(string)
	var doc map[string]any
	patience.Until(t, "the run succeeds", func() bool {
		doc = send(t, "GET", url+"/api/v1/job-runs/"+id, "")
		return doc["state"] == "SUCCEEDED"
	})
	return doc["result"].(map[string]any)["shouted"].(string)
}

// work starts a program and stops it with SIGTERM at the end; the program must exit successfully.
func work(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, out.String())
		}
		if t.Failed() {
			t.Log(out.String())
		}
	})
}

func TestTheWorkerInGo(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "worker")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	url := serve(t)
	send(t, "POST", url+"/api/v1/job-definitions", `{"name":"shout","type":"manual","command_name":"shout"}`)
	work(t, exec.Command(bin, "-url", url, "-pause", "1ms"))
	if got := shouted(t, url, "hello"); got != "HELLO" {
		t.Errorf("%q", got)
	}
}

func TestTheWorkerInBash(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatal(err) // with a missing tool, this would prove nothing
		}
	}
	url := serve(t)
	send(t, "POST", url+"/api/v1/job-definitions", `{"name":"shout","type":"manual","command_name":"shout"}`)
	cmd := exec.Command("bash", "worker.sh")
	cmd.Env = append(os.Environ(), "SKALD_URL="+url, "MAX_RUNS=2")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{"hello": "HELLO", "good bye": "GOOD BYE"} {
		if got := shouted(t, url, line); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := cmd.Wait(); err != nil { // it stops after two runs
		t.Errorf("%v\n%s", err, out.String())
	}
	workers := send(t, "GET", url+"/api/v1/workers?state=DRAINING", "")["workers"].([]any)
	if len(workers) != 1 {
		t.Errorf("workers that drain: %v\n%s", workers, out.String())
	}
}
