package main

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/testdb"
)

// program is the built binary.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "skald-cmd-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "skald")
	code := 1
	if out, err := exec.Command("go", "build", "-ldflags=-s", "-o", program, ".").CombinedOutput(); err != nil {
		os.Stderr.Write(out)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// run runs the program with a clean environment in an empty directory.
func run(t *testing.T, env []string, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	text, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

func TestWorkflowValidateListsEveryMistake(t *testing.T) {
	good, err := filepath.Abs("../../examples/order/workflow.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if out, code := run(t, nil, "workflow", "validate", good); code != 0 ||
		!strings.Contains(out, "3 steps: reserve-stock, charge-payment, confirm-order") {
		t.Errorf("the example: exit %d, %s", code, out)
	}
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("name: x\nsteps:\n  - {name: a, action: {http: {url: nowhere}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code := run(t, nil, "workflow", "validate", bad)
	for _, want := range []string{"/steps/0/action/http/url", "WORKFLOW_INVALID_URL", "/steps/0/compensation", "WORKFLOW_MISSING_COMPENSATION"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("a bad definition: exit %d, output lacks %s:\n%s", code, want, out)
		}
	}
}

func TestWorkflowSimulateSaysWhatIsSentAndHowItEnds(t *testing.T) {
	order, err := filepath.Abs("../../examples/order/workflow.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		want string
		code int
	}{
		{"", "ended as completed after 3 calls", 0},
		{"--answer charge-payment=402 --expect compensated", "undo reserve-stock  POST", 0},
		{"--answer charge-payment=402 --expect completed", "expected completed", 1},
		{`--payload {"n":1.50} --requests`, `"payload":{"n":1.50}`, 0},
		{"--cancel-at charge-payment --answer reserve-stock=timeout --answer reserve-stock=200", "ended as cancelled", 0},
		{"--payload {", "--payload: ", 1},
		{"--answer charge=200", "/answers/charge: is neither a step", 1},
		{"--answer charge-payment=99", "is not a status", 1},
		{"--answer charge-payment=200:{", "the body is invalid", 1},
		{"--answer charge-payment=FAILED", "run_state is not allowed", 1},
		{"--expect done", "there is no state done", 1},
	} {
		args := append([]string{"workflow", "simulate", order}, strings.Fields(tt.args)...)
		if out, code := run(t, nil, args...); code != tt.code || !strings.Contains(out, tt.want) {
			t.Errorf("%s: exit %d, %s; want exit %d and %q", tt.args, code, out, tt.code, tt.want)
		}
	}
}

// Without a server, no participant is registered: each name is accepted, with the base URL given
// for it.
func TestWorkflowSimulateTakesParticipantsByName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "named.yaml")
	const named = "name: n\nsteps: [{name: s, action: {http: {participant: stock, path: /a}}, compensation: none}]\n"
	if err := os.WriteFile(file, []byte(named), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"validate", file}, "", 0},
		{[]string{"simulate", file}, "POST participant://stock/a  200", 0},
		{[]string{"simulate", file, "--requests"}, "POST /a HTTP/1.1\nHost: participant.invalid\n", 0},
		{[]string{"simulate", file, "--participant", "stock=http://stock.example/v1/"}, "POST http://stock.example/v1/a  200", 0},
		{[]string{"simulate", file, "--participant", "stock"}, "must be NAME=URL", 1},
		{[]string{"simulate", file, "--participant", "stock=ftp://h"}, "/base_url: must begin with http", 1},
	} {
		out, code := run(t, nil, append([]string{"workflow"}, tt.args...)...)
		if code != tt.code || !strings.Contains(out, tt.want) {
			t.Errorf("%v: exit %d, %s; want exit %d and %q", tt.args, code, out, tt.code, tt.want)
		}
	}
}

// The report after an answer that comes later is written like a further answer.
func TestWorkflowSimulatePlaysReports(t *testing.T) {
	file := filepath.Join(t.TempDir(), "later.yaml")
	const definition = `name: l
retry: {max_attempts: 1}
steps:
- name: s
  action: {http: {url: "http://s.example"}}
  answer: {later: "status == 202", later_ms: 60000, output: "${body.id}"}
  compensation: {http: {url: "http://s.example/undo"}}
`
	if err := os.WriteFile(file, []byte(definition), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		answers []string
		want    []string
		code    int
	}{
		{[]string{"s=202", "s=report heartbeat after 50s", `s=report done after 50s:{"id": 7}`}, []string{
			"0s     s  POST http://s.example  202  later\n", "0s        wait 50s for the report\n",
			"50s    s  report heartbeat", "1m40s  s  report done  7  done\nended as completed after 1 call\n",
		}, 0},
		{[]string{"s=202", `s=report refused:{"message": "full"}`}, []string{"s  report refused", `step "s": full`}, 0},
		{[]string{"s=202", `s=report done after 61s:{"id": 7}`}, []string{
			"s       no report", "later_expired  unknown", "1m1s  s       report done", "too late",
		}, 0},
		{[]string{"s=report done"}, []string{"a report must follow an answer to its step"}, 1},
		{[]string{"s=202", "s=report done after soon"}, []string{`"soon" is not a duration`}, 1},
		{[]string{"s=202", "s=report failed"}, []string{"/answers/s/0/reports/0/result: must be one of"}, 1},
		{[]string{"s=202", "s=report done:{"}, []string{"the body is invalid"}, 1},
		{[]string{"s=reports done"}, []string{"a report, one of"}, 1},
	} {
		args := []string{"workflow", "simulate", file}
		for _, a := range tt.answers {
			args = append(args, "--answer", a)
		}
		out, code := run(t, nil, args...)
		for _, want := range tt.want {
			if code != tt.code || !strings.Contains(out, want) {
				t.Errorf("%q: exit %d, want exit %d and %q:\n%s", tt.answers, code, tt.code, want, out)
			}
		}
	}
}

func TestMigrateGoesUpAndDownAndSaysWhereItIs(t *testing.T) {
	migrations, err := filepath.Glob("../../db/migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	later := 0
	for _, name := range migrations {
		if filepath.Base(name)[:4] > "0301" {
			later++
		}
	}
	after0301 := strconv.Itoa(later - 2) // two were reverted before
	env := []string{"SKALD_DATABASE_URL=" + testdb.Empty(t)}
	for _, step := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"migrate", "status"}, "0001_schema.sql                not applied", 1},
		{[]string{"migrate", "up"}, "migrations applied", 0},
		{[]string{"migrate", "up"}, "0 migrations applied", 0},
		{[]string{"migrate", "extras"}, "idx_event_type                       not created; saga_events", 0},
		{[]string{"migrate", "extras", "up", "idx_event_type"}, "created idx_event_type\n1 extra index created", 0},
		{[]string{"migrate", "extras", "up", "idx_event_type"}, "0 extra indexes created", 0},
		{[]string{"migrate", "extras", "up", "idx_evnet_type"}, "there is no extra index idx_evnet_type", 1},
		{[]string{"migrate", "status"}, "extra index                    idx_event_type", 0},
		{[]string{"migrate", "extras", "down"}, "dropped idx_event_type", 0},
		{[]string{"migrate", "down", "2"}, "2 migrations reverted", 0},
		{[]string{"migrate", "status"}, ", 2 pending", 1},
		{[]string{"migrate", "down", "--to", "0301"}, after0301 + " migrations reverted", 0},
		{[]string{"migrate", "down", "--to", "0301"}, "0 migrations reverted", 0},
		{[]string{"migrate", "down", "--to", "0330"}, "migration 0330 is not applied", 1},
		{[]string{"migrate", "down", "--to", "0301", "1"}, "at least 1, or the migration", 1},
		{[]string{"migrate", "down", "0"}, "at least 1", 1},
		{[]string{"migrate", "roles"}, "GRANT saga_app_role, saga_engine_role, saga_readonly_role TO ", 0},
		{[]string{"migrate", "roles", "skald_owner", `odd"name`}, `TO "odd""name";`, 0},
	} {
		if out, code := run(t, env, step.args...); code != step.code || !strings.Contains(out, step.want) {
			t.Errorf("%v: exit %d, %s; want exit %d and %q", step.args, code, out, step.code, step.want)
		}
	}
}

func TestATypoInASettingIsRefused(t *testing.T) {
	out, code := run(t, []string{"SKALD_LISTEN_ADRR=127.0.0.1:0"}, "serve")
	if code != 1 || !strings.Contains(out, "SKALD_LISTEN_ADRR") || !strings.Contains(out, "SKALD_LISTEN_ADDR") {
		t.Errorf("exit %d, %s; want exit 1 and the right name", code, out)
	}
}

func TestAuditVerifySaysWhatItFound(t *testing.T) {
	dsn := testdb.DSN(t)
	env := []string{"SKALD_DATABASE_URL=" + dsn}
	if out, code := run(t, env, "audit", "verify"); code != 0 ||
		!strings.Contains(out, "events: checked 0 seals and 0 rows") {
		t.Errorf("an empty trail: exit %d, %s", code, out)
	}
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const tenant = "0192f0c1-0000-7000-8000-000000000001"
	if _, err := db.ExecContext(t.Context(), `INSERT INTO saga.audit_events (saga_id, tenant_id, event_type, digest)
		VALUES ('0192f0c1-0000-7000-8000-000000000002', $1, 'saga.started', 'forged')`, tenant); err != nil {
		t.Fatal(err)
	}
	if out, code := run(t, env, "audit", "verify", "--tenant", tenant); code != 1 ||
		!strings.Contains(
			out,
			"digest_mismatch: seal 0, event 1, saga 0192f0c1-0000-7000-8000-000000000002",
		) || !strings.Contains(out, "tampered with") {
		t.Errorf("a forged event: exit %d, %s", code, out)
	}
	for _, args := range [][]string{{"--tenant", "me"}, {"--from-seq", "0"}} {
		if out, code := run(t, env, append([]string{"audit", "verify"}, args...)...); code != 1 {
			t.Errorf("%v: exit %d, %s", args, code, out)
		}
	}
}
