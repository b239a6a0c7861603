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
	ready, ended := make(chan demo.Place, 1), make(chan error, 1)
	go func() {
		ended <- demo.Keep(ctx, demo.KeepConfig{
			Skald: cfg, Scale: 0.1, Dir: t.TempDir(), Out: &out, Log: slog.New(slog.DiscardHandler),
			Ready: func(p demo.Place) { ready <- p },
		})
	}()
	var place demo.Place
	select {
	case place = <-ready:
	case err := <-ended:
		t.Fatalf("Keep = %v", err)
	}
	// SKIPPED and ORPHANED runs come later, when a slot and a lease have passed.
	for path, values := range map[string]string{
		"/sagas?definition_id=order@":                    "1 2",
		"/job-runs?definition=nightly-settlement&state=": "SUCCEEDED RUNNING SKIPPED",
		"/dlq/messages?topic=refunds&status=":            "PENDING",
		"/timeline?correlation_id=":                      "4711",
		"/participants?state=":                           "OPEN HELD",
		"/sagas?state=":                                  "running completed compensating compensated failed cancelled timed_out",
		"/job-runs?state=":                               "PENDING RUNNING SUCCEEDED FAILED TIMED_OUT CANCELED",
		"/dlq/messages?status=":                          "PENDING DEAD RESOLVED",
		"/dlq/redrives?state=":                           "AWAITING_APPROVAL RUNNING PAUSED HALTED COMPLETED",
		"/dlq/groups?state=":                             "NEW ACKNOWLEDGED REGRESSED",
	} {
		for _, v := range strings.Fields(values) {
			isFilled(t, place, path+url.QueryEscape(v)+"&page_size=1")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Keep = %v after the end of its context", err)
	}
	for _, want := range []string{
		place.SignIn, "signed in there as kim, an operator", "SKALD_API_KEY=" + place.Key, "nightly-settlement", "refunds", "parcel",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, &out)
		}
	}
}

// isFilled waits until a list is not empty: runs are claimed and lost while the demo already stands.
func isFilled(t *testing.T, p demo.Place, list string) {
	t.Helper()
	patience.Until(t, list+" is not empty", func() bool {
		req, err := http.NewRequest(http.MethodGet, p.URL+"/api/v1"+list, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-Key", p.Key)
		res, err := http.DefaultClient.Do(req)
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
