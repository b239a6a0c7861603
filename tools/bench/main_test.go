package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/tools/bench/measure"
)

// The test binary plays every process of a run: without one of these words it
// runs the tests.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "dtm" {
		serveFakeDTM()
		return
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "serve":
			serveFake()
			return
		case "participant", "load", "with-loopback":
			main()
			return
		}
	}
	os.Exit(m.Run())
}

// runShort makes a short run of the fake server in its given mood and returns
// its table, report and error.
func runShort(t *testing.T, mood string, extra ...string) (string, measure.Report, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report.json")
	args := append([]string{
		"-skald", self, "-server-env", "FAKE_MOOD=" + mood, "-json", file,
		"-clients", "2", "-compensated", "2", "-mixed", "2", "-duration", "50ms", "-warmup", "20ms", "-drain", "1s",
	}, extra...)
	var out bytes.Buffer
	runErr := run(context.Background(), args, &out)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("no report: %v; the run: %v\n%s", err, runErr, &out)
	}
	var report measure.Report
	if err := json.Unmarshal(raw, &report); err != nil {
		t.Fatal(err)
	}
	return out.String(), report, runErr
}

func TestAWholeRun(t *testing.T) {
	table, report, err := runShort(t, "good")
	if err != nil {
		t.Fatalf("run = %v\n%s", err, table)
	}
	type key struct {
		workflow string
		mode     measure.Mode
		clients  int
	}
	var got []key
	for _, l := range report.Levels {
		got = append(got, key{l.Workflow, l.Mode, l.Clients})
		for what, holds := range map[string]bool{
			"sagas": l.Sagas != 0, "a rate": l.PerSecond > 0, "no errors": l.Errors <= 0,
			"the time of each saga": l.EndToEnd.Count == l.Sagas, "what PostgreSQL used": l.Cores.Postgres != nil,
			"CPU": l.CPUPerSaga > 0, "memory": l.RSS != 0, "WAL": l.WALPerSaga != 0, "times of requests": (l.Submit != nil) == (l.Mode == measure.Submit),
		} {
			if !holds {
				t.Errorf("level without %s: %+v", what, l)
			}
		}
	}
	want := []key{
		{"bench-ok", measure.Submit, 2}, {"bench-ok", measure.Wait, 2},
		{"bench-undo", measure.Submit, 2}, {"bench-undo", measure.Wait, 2},
		{"bench-mixed", measure.Submit, 2}, {"bench-mixed", measure.Wait, 2},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(key{})); diff != "" {
		t.Errorf("levels (-want +got):\n%s", diff)
	}
	if r := report.Ready; r.EmptyDatabase <= 0 || r.ExistingDatabase <= 0 || r.AfterLoad <= 0 {
		t.Errorf("ready = %+v; want three times", r)
	}
	for _, text := range []string{"fsync=on", "bench-undo wait", "compensated / successful rate, 2 clients, submit"} {
		if !strings.Contains(table, text) {
			t.Errorf("no %q in the table:\n%s", text, table)
		}
	}
}

func TestARunFailsLoudly(t *testing.T) {
	server, err := devpg.Start(t.Context(), devpg.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for _, tt := range []struct {
		name, mood, want string
	}{
		{"when an accepted saga is not in the database", "forgetful", "LOST"},
		{"when a saga never ends", "stuck", "have not ended in time"},
		{"when a saga ends otherwise", "wrong", "LOST"},
		{"when steps were not made", "lazy", "WRONG"},
		{"when nothing is accepted", "busy", "no saga was accepted"},
		{"when the server dies", "dying", "skald ended unexpectedly"},
		{"when the server does not start", "broken", "skald ended unexpectedly"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table, _, err := runShort(t, tt.mood, "-database-url", server.DSN(devpg.Database))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("run = %v; want %q in it\n%s", err, tt.want, table)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o, err := parseOptions([]string{"-skald", self})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{1, 16, 64, 256}, o.Clients); diff != "" {
		t.Errorf("default clients (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]measure.Mode{measure.Submit, measure.Wait}, o.Modes); diff != "" {
		t.Errorf("default modes (-want +got):\n%s", diff)
	}
	if o, err := parseOptions([]string{"-skald", self, "-clients", "", "-modes", "wait"}); err != nil ||
		len(o.Clients) != 0 {
		t.Errorf("no clients, only compensated: %v, %v; want none and no error", o.Clients, err)
	}
	for _, args := range [][]string{
		{"-clients", "1,many"}, {"-clients", "0"}, {"-modes", "both"}, {"-server-env", "GOGC"}, {"-duration", "0s"}, {"extra"}, {"-unknown"},
	} {
		if _, err := parseOptions(append([]string{"-skald", self}, args...)); err == nil {
			t.Errorf("parseOptions(%q) gave no error", args)
		}
	}
}
