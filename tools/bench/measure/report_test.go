package measure

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJudge(t *testing.T) {
	level := func(workflow string, mode Mode, clients int, rate float64) Level {
		return Level{
			Workflow:  workflow,
			Mode:      mode,
			Clients:   clients,
			PerSecond: rate,
			EndToEnd:  Latency{P50: 6},
			PeakRSS:   150e6,
		}
	}
	for _, tt := range []struct {
		name   string
		report Report
		want   []Target
	}{
		{"nothing measured is nothing judged", Report{}, nil},
		{
			"a rate must be reached",
			Report{Levels: []Level{level("bench-ok", Submit, 64, 3000)}},
			[]Target{{"sagas/s, 64 clients submitting", 3000, 3000, true}},
		},
		{
			"a latency must not be passed",
			Report{Levels: []Level{level("bench-ok", Wait, 1, 9)}},
			[]Target{{"end-to-end p50 ms, 1 client waiting", 5, 6, false}},
		},
		{
			"memory counts at 256 clients",
			Report{Levels: []Level{level("bench-ok", Submit, 256, 9)}},
			[]Target{{"peak RSS MB, up to 256 clients, submit", 200, 150, true}},
		},
		{
			"compensated sagas are compared with successful ones of the same level",
			Report{Levels: []Level{
				level("bench-ok", Wait, 16, 9), level("bench-ok", Submit, 16, 1000), level("bench-undo", Submit, 16, 500),
			}},
			[]Target{{"compensated / successful rate, 16 clients, submit", 0.6, 0.5, false}},
		},
		{
			"compensated sagas alone are not compared",
			Report{Levels: []Level{level("bench-ok", Submit, 16, 1000), level("bench-undo", Submit, 64, 500)}},
			nil,
		},
		{
			"only starts on an existing database are judged",
			Report{Ready: Ready{EmptyDatabase: 5000, ExistingDatabase: 900, AfterLoad: 1100}},
			[]Target{
				{"ready ms, existing database", 1000, 900, true},
				{"ready ms, after the load", 1000, 1100, false},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, judge(&tt.report)); diff != "" {
				t.Errorf("judge (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTable(t *testing.T) {
	postgres := 0.52
	var out bytes.Buffer
	printTableHead(&out)
	printRow(&out, Level{
		Workflow: "bench-ok", Mode: Submit, Clients: 64, Sagas: 18234, PerSecond: 3412.4,
		Submit: &Latency{P50: 7.126, P99: 20}, EndToEnd: Latency{P50: 35.5, P99: 1234.5},
		Cores:      Cores{Skald: 0.9, Postgres: &postgres, Participant: 0.31, Load: 0.2, Other: 0.01},
		CPUPerSaga: 0.57, RSS: 63e6, PeakRSS: 71e6, WALPerSaga: 2512, HOTRatio: 0.934,
	})
	printRow(&out, Level{Workflow: "bench-undo", Mode: Wait, Errors: 2, FirstError: "status 503"})
	want := `
workflow   mode   clients   sagas  sagas/s subm p50     p99  e2e p50     p99  skald postgres partic  load cpu/saga other   RSS  peak WAL/saga   HOT errors
bench-ok   submit      64   18234     3412     7.13   20.00    35.50 1234.50   0.90     0.52   0.31  0.20     0.57  0.01    63    71     2512   93%      0
bench-undo wait         0       0        0        -       -     0.00    0.00   0.00        -   0.00  0.00     0.00  0.00     0     0        0    0%      2
  errors: 2, the first: status 503
`
	_, got, _ := strings.Cut(out.String(), "\n") // the legend
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestSummary(t *testing.T) {
	show := func(r Report) string {
		var out bytes.Buffer
		printSummary(&out, &r)
		return out.String()
	}
	got := show(Report{
		Ready:   Ready{EmptyDatabase: 412.3, ExistingDatabase: 88},
		Levels:  []Level{{Cores: Cores{Other: 0.02}}},
		Targets: []Target{{"rate", 3000, 3100.5, true}, {"latency", 5, 7, false}},
	})
	want := `
ready after 412 ms with migrations, 88 ms on an existing database, (not measured) after the load
met     rate                                                3100.50  (target 3000)
MISSED  latency                                                7.00  (target 5)
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	got = show(Report{Machine: Machine{Cores: 2}, Levels: []Level{{Cores: Cores{Other: 0.7}}, {}}})
	if !strings.Contains(got, "used up to 0.70 of the machine's 2 cores") {
		t.Errorf("summary of a disturbed run = %q; want a warning", got)
	}
}

func TestServerLogIsShownFromItsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "skald.log")
	show := func() string {
		var out bytes.Buffer
		printServerLog(&out, path)
		return out.String()
	}
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := show(); got != "" {
		t.Errorf("a log that is not there shows %q; want nothing", got)
	}
	write("")
	if got := show(); got != "" {
		t.Errorf("an empty log shows %q; want nothing", got)
	}
	write("first\n" + strings.Repeat("later\n", 20))
	if got := show(); strings.Contains(got, "first") || !strings.Contains(got, "(21, of which these are the last 20)") ||
		strings.Count(got, "later") != 20 {
		t.Errorf("a long log shows %q; want its last 20 of 21 lines", got)
	}
}

func TestValidateNamesEveryMistake(t *testing.T) {
	here, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	good := Config{Skald: here, Clients: []int{1}, Modes: []Mode{Submit}, Duration: 1, Drain: 1}
	if err := good.Validate(); err != nil {
		t.Errorf("Validate of a good config = %v", err)
	}
	bad := Config{Skald: filepath.Join(t.TempDir(), "none"), Clients: []int{0}, Compensated: -1, Mixed: -1, Modes: []Mode{"both"}}
	err = bad.Validate()
	for _, want := range []string{"clients must be at least 1", "compensated and mixed must be at least 0", `not "both"`, "duration", "no server binary"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v; want %q in it", err, want)
		}
	}
	if err := (Config{Skald: here, Duration: 1, Drain: 1}).Validate(); err == nil ||
		!strings.Contains(err.Error(), "no level") {
		t.Errorf("Validate without levels = %v; want an error about it", err)
	}
}
