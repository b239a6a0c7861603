package demo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/app/demo"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestADemoThatStaysHasSomethingInEveryStateToLookAt(t *testing.T) {
	cfg := config.Default(config.Dev)
	cfg.Database.URL = config.Secret(testdb.DSN(t))
	cfg.Server.ListenAddr = "127.0.0.1:0"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- demo.Keep(ctx, demo.KeepConfig{
			Skald: cfg, Scale: 0.1, Dir: t.TempDir(), Out: &out, Log: slog.New(slog.DiscardHandler),
			Ready: func(url, _ string) { ready <- url },
		})
	}()
	var server string
	select {
	case server = <-ready:
	case err := <-ended:
		t.Fatalf("Keep = %v", err)
	}
	// SKIPPED and ORPHANED runs come later, when a slot and a lease have passed.
	for path, values := range map[string]string{
		"/sagas?state=":         "running completed compensating compensated failed cancelled timed_out",
		"/job-runs?state=":      "PENDING RUNNING SUCCEEDED FAILED TIMED_OUT CANCELED",
		"/dlq/messages?status=": "PENDING DEAD RESOLVED",
		"/dlq/redrives?state=":  "AWAITING_APPROVAL RUNNING PAUSED HALTED COMPLETED",
		"/dlq/groups?state=":    "NEW ACKNOWLEDGED REGRESSED",
	} {
		for _, v := range strings.Fields(values) {
			isFilled(t, server+"/api/v1"+path+url.QueryEscape(v)+"&page_size=1")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Keep = %v after the end of its context", err)
	}
	if !strings.Contains(out.String(), server+"/ui/") {
		t.Errorf("the output does not say where the server is:\n%s", &out)
	}
}

// isFilled waits until a list is not empty: runs are claimed and lost while the demo already stands.
func isFilled(t *testing.T, list string) {
	t.Helper()
	patience.Until(t, list+" is not empty", func() bool {
		res, err := http.Get(list)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%s: %s %s (%v)", list, res.Status, text, err)
		}
		var page map[string]json.RawMessage
		if err := json.Unmarshal(text, &page); err != nil {
			t.Fatal(err)
		}
		for _, v := range page {
			if strings.HasPrefix(string(v), "[{") {
				return true
			}
		}
		return false
	})
}
