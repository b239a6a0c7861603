package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skald-saga/skald/internal/test/testdb"
)

// If no database is named, the user must not believe that the command reached one.
func TestNoCommandCreatesADatabaseInsteadOfTheOneThatIsMeant(t *testing.T) {
	for _, args := range [][]string{
		{"migrate", "up"}, {"migrate", "down", "1"}, {"migrate", "status"},
		{"migrate", "extras"}, {"migrate", "extras", "up"}, {"migrate", "extras", "down"},
		{"key", "create", "--name", "ops", "--role", "admin"}, {"key", "list"},
		{"key", "revoke", "0192f0c1-0000-7000-8000-000000000001", "--reason", "gone"}, {"audit", "verify"},
	} {
		dir := filepath.Join(t.TempDir(), "private")
		out, code := run(t, []string{"SKALD_DATABASE_EMBEDDED_DIR=" + dir}, args...)
		if code != 1 || !strings.Contains(out, "no database is configured") || !strings.Contains(out, "SKALD_DATABASE_URL") {
			t.Errorf("%v without a database: exit %d, %s", args, code, out)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%v created %s", args, dir)
		}
	}
}

func TestMigratePrivateUsesThePrivateDatabase(t *testing.T) {
	env := []string{"SKALD_DATABASE_EMBEDDED_DIR=" + filepath.Join(t.TempDir(), "private")}
	for _, step := range []struct{ args, want string }{
		{"migrate --private up", "migrations applied"},
		{"migrate up --private", "0 migrations applied"},
		{"key list", "ROLE"}, // now that it exists
	} {
		if out, code := run(t, env, strings.Fields(step.args)...); code != 0 || !strings.Contains(out, step.want) {
			t.Errorf("skald %s: exit %d, %s", step.args, code, out)
		}
	}
	// A configured database is used in any case.
	configured := []string{"SKALD_DATABASE_URL=" + testdb.Empty(t)}
	out, code := run(t, configured, "migrate", "--private", "status")
	if code != 1 || !strings.Contains(out, "not applied") {
		t.Errorf("with a configured database: exit %d, %s", code, out)
	}
}

func TestTheCommandLineExplainsItself(t *testing.T) {
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"", 0, "Commands:"},
		{"help", 0, "Commands:"},
		{"help migrate up", 0, "Apply all pending migrations."},
		{"help nothing", 1, "unexpected argument nothing"},
		{"--help", 0, "Commands:"},
		{"--version", 0, "skald 0."},
		{"-v", 0, "skald 0."},
		{"version", 0, "skald 0."},
		{"serve --prot 1", 80, "unknown flag --prot"},
		{"migrate upp", 80, "unexpected argument upp"},
		{"migrate", 80, `expected one of "up", "down", "status", "extras"`},
		{"sevre", 80, "unexpected argument sevre"},
	} {
		out, code := run(t, nil, strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(out, tt.want) {
			t.Errorf("skald %s: exit %d, %s; want exit %d and %q", tt.args, code, out, tt.code, tt.want)
		}
		if lines := strings.Count(out, "\n"); code != 0 && lines > 5 {
			t.Errorf("skald %s: the mistake is told in %d lines:\n%s", tt.args, lines, out)
		}
	}
}

func TestReadyAsksTheServerOnThisMachine(t *testing.T) {
	var status atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(int(status.Load()))
	}))
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "0.0.0.0", ""} {
		for is, want := range map[int]int{http.StatusOK: 0, http.StatusServiceUnavailable: 1} {
			status.Store(int64(is))
			if out, code := run(t, []string{"SKALD_LISTEN_ADDR=" + host + ":" + port}, "ready"); code != want {
				t.Errorf("%q, which answers %d: exit %d, %s", host, is, code, out)
			}
		}
	}
	server.Close()
	if out, code := run(t, []string{"SKALD_LISTEN_ADDR=127.0.0.1:" + port}, "ready"); code != 1 {
		t.Errorf("without a server: exit %d, %s", code, out)
	}
}

func TestParticipantCertifySaysByItsStatusWhatItFound(t *testing.T) {
	var calls atomic.Int64
	forgetful := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"call":%d}`, calls.Add(1))
	}))
	refusing := httptest.NewServer(http.NotFoundHandler())
	var stored, credential string
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		stored, credential = r.URL.Path+" "+string(body), r.Header.Get("Authorization")
		w.WriteHeader(http.StatusCreated)
	}))
	defer pages.Close()
	defer forgetful.Close()
	defer refusing.Close()
	file := filepath.Join(t.TempDir(), "report.xml")
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{forgetful.URL, 1, "BREACH done_again (rule 1)"},
		{forgetful.URL + " --format json", 1, `"code": "done_again"`},
		{forgetful.URL + " --format junit --output " + file, 1, "see the findings (3)"},
		{forgetful.URL + " --report-to " + pages.URL + "/", 1, "BREACH done_again"},
		{forgetful.URL + " --report-to " + refusing.URL, 1, "the report was not stored at " + refusing.URL + ": 404"},
		{forgetful.URL + " --later", 2, "for a call with X-Saga-Callback, got 200"},
		{forgetful.URL + " --later --race", 80, "can't be used together"},
		{forgetful.URL + " --payload {", 2, "the payload must be JSON"},
		{forgetful.URL + " --restart-command false", 2, "restart the participant: "},
		{refusing.URL, 2, "choose another with --payload"},
		{refusing.URL, 2, "to test a step that answers later, use --later"},
		{"http://192.0.2.1/charges", 2, "pass --yes to call it"},
	} {
		args := append([]string{"participant", "certify"}, strings.Fields(tt.args)...)
		out, code := run(t, []string{"SKALD_API_KEY=sk_1"}, args...)
		if code != tt.code || !strings.Contains(out, tt.want) {
			t.Errorf("%s: exit %d, %s; want exit %d and %q", tt.args, code, out, tt.code, tt.want)
		}
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `<testsuite name="skald participant certify`) {
		t.Errorf("the report: %v, %s", err, text)
	}
	if !strings.HasPrefix(stored, `/api/v1/participants/certifications {"report":{"url":"`+forgetful.URL) ||
		!strings.Contains(stored, "done_again") || credential != "Bearer sk_1" {
		t.Errorf("the server got %s with %q", stored, credential)
	}
}
