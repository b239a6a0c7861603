package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// serve starts the program on a database, waits until it is ready, and returns its URL and the path
// of its log. The program ends with the test and must shut down cleanly.
func serve(t *testing.T, dsn string, env []string, flags ...string) (url, logged string) {
	t.Helper()
	cmd, url, logged := launch(t, dsn, env, flags...)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		hurry := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		if err := cmd.Wait(); err != nil || t.Failed() {
			text, _ := os.ReadFile(logged)
			t.Errorf("%v %v ended with %v, and logged at last:\n%s", env, flags, err, text[max(0, len(text)-20_000):])
		}
		hurry.Stop()
	})
	ready(t, url)
	return url, logged
}

// launch starts the program on a database. The caller must end it.
func launch(t *testing.T, dsn string, env []string, flags ...string) (cmd *exec.Cmd, url, logged string) {
	t.Helper()
	addr := testnet.FreeAddress(t)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(program, append([]string{"serve"}, flags...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), log, log
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "SKALD_ENV=test",
		"SKALD_NODE_ID=" + addr, "SKALD_LISTEN_ADDR=" + addr, "SKALD_DATABASE_URL=" + dsn}, env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, "http://" + addr, log.Name()
}

// ready waits until a node is ready.
func ready(t *testing.T, url string) {
	t.Helper()
	patience.Until(t, "the node at "+url+" is ready", func() bool {
		res, err := http.Get(url + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// ask makes a request and decodes its JSON answer.
func ask(t *testing.T, method, url, body string) (int, map[string]any) {
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
	var doc map[string]any
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil {
		t.Fatalf("%s %s: %d, %v", method, url, res.StatusCode, err)
	}
	return res.StatusCode, doc
}

func must(t *testing.T, method, url, body string) map[string]any {
	t.Helper()
	status, doc := ask(t, method, url, body)
	if status/100 != 2 {
		t.Fatalf("%s %s: %d %v", method, url, status, doc)
	}
	return doc
}

// awaitDoc waits until a member of a resource has the expected value.
func awaitDoc(t *testing.T, url, member, want string) map[string]any {
	t.Helper()
	var doc map[string]any
	patience.Until(t, url+" has "+member+" "+want, func() bool {
		doc = must(t, "GET", url, "")
		return doc[member] == want
	})
	return doc
}

// Two live processes under one name would fence each other off in turns. Instead, the second one
// exits, says why, and does not fill its log meanwhile.
func TestASecondNodeOfTheSameNameEndsAndSaysWhy(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	twin := []string{"SKALD_NODE_ID=twin", "SKALD_ENGINE_LEASE_TTL=3s"}
	serve(t, dsn, twin)
	cmd, _, logged := launch(t, dsn, twin)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it ended as if nothing was wrong")
		}
	case <-patience.Context(t).Done():
		_ = cmd.Process.Kill()
		t.Error("it goes on")
	}
	text, err := os.ReadFile(logged)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "give each node its own name (engine.node_id)") || strings.Count(string(text), "\n") > 40 {
		t.Errorf("it says:\n%s", text)
	}
	if !strings.Contains(string(text), `skald: node "twin"`) {
		t.Errorf("its last words are not its reason:\n%s", text)
	}
}
