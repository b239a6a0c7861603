package player

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/webhooks"
	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testnet"
)

func codes(r certification.Report) (all []string) {
	for _, f := range r.Findings {
		all = append(all, f.Code)
	}
	return all
}

func TestEachBrokenRuleIsFoundAndNoOther(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		way  broken
		want string
	}{
		{right, ""},
		{errorOnly, ""},
		{forgetsAtRestart, "done_again_after_restart"},
		{forgetsInARace, "done_again_at_once"},
		{noTombstone, "late_do_accepted"},
		{tombstoneInMemory, "late_do_accepted_after_restart"},
		{answersEarly, "answered_before_commit"},
		{effectsTwice, "done_twice_behind_equal_answers"},
		{ignoresFences, "fence_ignored"},
		{errorAppliesAgain, "done_again_after_an_error"},
		{newAnswer, "answer_changed"},
		{undoFailsLater, "repeated_undo_fails"},
		{doneAfterUndo, "done_again_after_undo"},
		{refusesApplied, "refused_although_applied"},
		{waitsForRunning, ""},
		{waiterFrees, "done_again_after_a_lost_answer"},
		{outlivesUndo, "late_do_accepted_after_a_lost_answer"},
		{stoppedAndForgot, "late_do_accepted_after_a_lost_answer"},
	} {
		t.Run(string(tt.way), func(t *testing.T) {
			t.Parallel()
			p := newParticipant(tt.way)
			report, err := Run(patience.Context(t), p.serve(t))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(codes(report), " "); got != tt.want {
				t.Errorf("found %q; want %q\n%s", got, tt.want, report.Text())
			}
			if report.Certified != (tt.want == "") || len(report.Untried) > 0 {
				t.Errorf("certified %t, %d not tried\n%s", report.Certified, len(report.Untried), report.Text())
			}
			for _, f := range report.Findings {
				if f.Vector == "" || f.Seen == "" || len(f.Curl) == 0 || f.Why == "" {
					t.Errorf("the finding does not show what was found: %+v", f)
				}
			}
			if p.marked == 0 || p.marked != p.calls {
				t.Errorf("%d of %d calls were marked", p.marked, p.calls)
			}
		})
	}
}

// A participant with a separate URL for each step need not serve the other steps; that is not a
// finding.
func TestStepsThatAreNotServedAreNotTried(t *testing.T) {
	t.Parallel()
	p := newParticipant(right)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if step := r.Header.Get("X-Saga-Step"); r.Method == http.MethodPost && step != "reserve" {
			http.NotFound(w, r)
			return
		}
		p.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	cfg := p.serve(t)
	cfg.URL, cfg.Step = server.URL, "reserve"
	report, err := Run(patience.Context(t), cfg)
	if err != nil || len(report.Findings) > 0 || !report.Certified || len(report.Untried) == 0 {
		t.Errorf("%v\n%s", err, report.Text())
	}
}

// Breaches that the answers alone show must be found without counting effects.
func TestWithoutEffectsTheAnswersAreJudged(t *testing.T) {
	t.Parallel()
	for way, want := range map[broken]string{
		right: "", noTombstone: "late_do_accepted", ignoresFences: "fence_ignored", newAnswer: "done_again",
		undoFailsLater: "repeated_undo_fails", effectsTwice: "",
	} {
		cfg := newParticipant(way).serve(t)
		cfg.Effects, cfg.Restart = "", nil
		report, err := Run(patience.Context(t), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(codes(report), " "); got != want || report.Certified || len(report.Untried) == 0 {
			t.Errorf("%s: found %q; want %q, and not certified, as not all was tried\n%s", way, got, want, report.Text())
		}
	}
}

func TestRacesAreRepeatedUnderLoad(t *testing.T) {
	t.Parallel()
	for way, want := range map[broken]string{right: "", forgetsInARace: "done_again_at_once"} {
		cfg := newParticipant(way).serve(t)
		cfg.RaceFor = 200 * time.Millisecond
		report, err := Run(patience.Context(t), cfg)
		if got := strings.Join(codes(report), " "); err != nil || report.Repeated == 0 || got != want {
			t.Errorf("%s: %d races, found %q, %v; want %q", way, report.Repeated, got, err, want)
		}
	}
}

func TestWhatCannotBeExaminedIsAnError(t *testing.T) {
	t.Parallel()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":"no such amount"}`, http.StatusUnprocessableEntity)
	}))
	gone := httptest.NewServer(nil)
	gone.Close()
	t.Cleanup(refusing.Close)
	for name, cfg := range map[string]Config{
		"nothing listens": {URL: gone.URL},
		"it is refused":   {URL: refusing.URL},
		"no effects":      {URL: newParticipant(right).serve(t).URL, Effects: refusing.URL},
		"no restart": {URL: newParticipant(right).serve(t).URL, Restart: func(context.Context) error {
			return errors.New("no such unit")
		}},
	} {
		if report, err := Run(patience.Context(t), cfg); !errors.Is(err, ErrUntried) || len(report.Findings) > 0 {
			t.Errorf("%s: %v, %v", name, err, codes(report))
		}
	}
	for _, cfg := range []Config{{URL: "order"}, {URL: refusing.URL, Secret: "secret"}, {URL: "ftp://127.0.0.1/"}} {
		if _, err := Run(patience.Context(t), cfg); err == nil {
			t.Errorf("%+v is examined", cfg)
		}
	}
}

// ids match what differs between two test runs.
var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|127\.0\.0\.1:\d+|"calls":\d+`)

func TestTheReportIsAsPrinted(t *testing.T) {
	t.Parallel()
	cfg := newParticipant(noTombstone).serve(t)
	cfg.Restart = nil
	report, err := Run(patience.Context(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range report.Findings { // depends on which comes first
		report.Findings[i].Vectors = slices.DeleteFunc(f.Vectors, func(v string) bool { return v == "undo-and-do-at-once" })
	}
	report.Warnings = append(report.Warnings, certification.Warning{Code: "http_1_0", Text: "A call over HTTP/1.0 got 505; expected 2xx."})
	got := ids.ReplaceAllString(report.Text(), "…")
	golden := filepath.Join("testdata", "report.txt")
	if os.Getenv("GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || got != string(want) {
		t.Errorf("%v: the report is\n%s", err, got)
	}
}

// A user may start the participant and certify it in one command line.
func TestAParticipantThatWasJustStartedIsWaitedFor(t *testing.T) {
	t.Parallel()
	at := testnet.FreeAddress(t)
	p := newParticipant(right)
	listening := make(chan *http.Server, 1)
	time.AfterFunc(100*time.Millisecond, func() {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Error(err)
		}
		s := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
		listening <- s
		s.Serve(l) //nolint:errcheck // Serve ends when the server is closed
	})
	cfg := p.serve(t)
	cfg.URL = "http://" + at + "/"
	report, err := Run(patience.Context(t), cfg)
	if (<-listening).Close(); err != nil || !report.Certified {
		t.Errorf("%v\n%s", err, report.Text())
	}
}

// Keys begin with the tenant, as those of its steps do, unless the tenant is the default one.
func TestCallsAreThoseOfTheTenant(t *testing.T) {
	t.Parallel()
	for tenant, want := range map[string]string{"": defaultTenant, "019ab2c0-5a3e-7c31-9d5e-2f1b7a4c8d90": ""} {
		if want == "" {
			want = tenant
		}
		p, own := newParticipant(right), atomic.Int64{}
		cfg := p.serve(t)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			of, key := r.Header.Get("X-Saga-Tenant"), r.Header.Get("Idempotency-Key")
			if r.Method == http.MethodPost && strings.HasPrefix(key, of+"/") != (of != defaultTenant) {
				t.Errorf("a call for %s has the key %s", of, key)
			}
			if of == want {
				own.Add(1)
			}
			p.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		cfg.URL, cfg.Tenant = server.URL, tenant
		if report, err := Run(patience.Context(t), cfg); err != nil || !report.Certified || own.Load() == 0 {
			t.Errorf("for %q: %v, %d calls of its own\n%s", tenant, err, own.Load(), report.Text())
		}
	}
}

// Every call is signed with every secret, however it is sent, so a participant needs to have only
// one of them.
func TestCallsAreSigned(t *testing.T) {
	t.Parallel()
	const first, second = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	rotated, err := webhooks.ParseSecret(second)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		cfg      Config
		knows    string
		examined bool
	}{
		"the secret":       {Config{Secret: first}, first, true},
		"one of two":       {Config{Secret: first, Keys: [][]byte{rotated}}, second, true},
		"the wrong secret": {Config{Secret: first}, second, false},
		"none":             {Config{}, first, false},
	} {
		p := newParticipant(right)
		cfg := p.serve(t)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err == nil && r.Method == http.MethodPost {
				err = webhooks.VerifyCall([]string{tt.knows}, r.Header, body, time.Now())
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusUnauthorized)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			p.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		cfg.URL, cfg.Secret, cfg.Keys, cfg.Robust = server.URL, tt.cfg.Secret, tt.cfg.Keys, true
		report, err := Run(patience.Context(t), cfg)
		if (err == nil) != tt.examined || tt.examined && (!report.Certified || len(report.Warnings) > 0) {
			t.Errorf("%s: %v\n%s", name, err, report.Text())
		}
	}
}

func TestRobustnessLeadsToWarnings(t *testing.T) {
	t.Parallel()
	narrow := newParticipant(right)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMinor == 0 || r.ContentLength > 1<<20 {
			http.Error(w, "", http.StatusBadRequest)
			return
		}
		narrow.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	for want, cfg := range map[string]Config{
		"": newParticipant(right).serve(t), "large_body http_1_0": {URL: server.URL},
	} {
		cfg.Robust = true
		report, err := Run(patience.Context(t), cfg)
		var got []string
		for _, w := range report.Warnings {
			got = append(got, w.Code)
		}
		if err != nil || strings.Join(got, " ") != want || len(report.Findings) > 0 {
			t.Errorf("warnings %v, %v; want %q\n%s", got, err, want, report.Text())
		}
	}
}
