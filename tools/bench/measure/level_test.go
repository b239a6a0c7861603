package measure

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// moment is the time at which the levels in these tests begin.
var moment = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestNewLevelTurnsTotalsIntoRates(t *testing.T) {
	load := LoadResult{
		StartedAt: moment,
		Accepted:  make([]string, 1000),
		Answers:   Latency{Count: 1000, P50: 2, P99: 8, Max: 9},
		Errors:    3, FirstError: "busy",
		CPU: time.Second,
	}
	out := outcome{lastEnd: moment.Add(4 * time.Second), endToEnd: []time.Duration{time.Second}}
	before := snapshot{
		at: moment, skald: time.Second, postgres: 2 * time.Second, participant: 3 * time.Second, machine: 10 * time.Second,
		database: counters{wal: 5000, updates: 100, hot: 10},
	}
	after := snapshot{
		at:          moment.Add(5 * time.Second),
		skald:       5 * time.Second,
		postgres:    4 * time.Second,
		participant: 4 * time.Second,
		machine:     19 * time.Second,
		database:    counters{wal: 2_505_000, updates: 4100, hot: 3610},
	}
	postgres := 0.4
	want := Level{
		Workflow: "bench-ok", Mode: Submit, Clients: 64,
		Sagas: 1000, PerSecond: 250, // until the last saga ended, not until that was noticed
		Submit:     &load.Answers,
		EndToEnd:   Latency{Count: 1, P50: 1000, P95: 1000, P99: 1000, Max: 1000},
		Cores:      Cores{Skald: 0.8, Postgres: &postgres, Participant: 0.2, Load: 0.2, Other: 0.2},
		CPUPerSaga: 8, // (4 + 2 + 1 + 1) s for 1000 sagas
		RSS:        7, PeakRSS: 8, WALPerSaga: 2500, HOTRatio: 0.9,
		Errors: 3, FirstError: "busy",
	}
	spec := levelSpec{workflows("127.0.0.1:1")[0], Submit, 64, 0}
	near := cmpopts.EquateApprox(0, 1e-9)
	if diff := cmp.Diff(want, newLevel(spec, load, out, before, after, memory{7, 8}), near); diff != "" {
		t.Errorf("newLevel (-want +got):\n%s", diff)
	}

	t.Run("what waiting clients saw is the end-to-end time", func(t *testing.T) {
		spec.mode = Wait
		got := newLevel(spec, load, out, before, after, memory{7, 8})
		if got.Submit != nil || got.EndToEnd != load.Answers {
			t.Errorf("submit %v, end to end %v; want none and %v", got.Submit, got.EndToEnd, load.Answers)
		}
	})
	t.Run("a database elsewhere has no cores, and theirs are not ours to subtract", func(t *testing.T) {
		before, after := before, after
		before.postgres, after.postgres = 0, 0
		got := newLevel(spec, load, out, before, after, memory{7, 8}).Cores
		if got.Postgres != nil || got.Other < 0.59 || got.Other > 0.61 {
			t.Errorf("postgres %v, other %.2f; want none and 0.60", got.Postgres, got.Other)
		}
	})
	t.Run("rounded ticks never make other processes negative", func(t *testing.T) {
		after := after
		after.machine = before.machine + time.Second
		if got := newLevel(spec, load, out, before, after, memory{7, 8}).Cores.Other; got != 0 {
			t.Errorf("other = %f; want 0", got)
		}
	})
}

func TestOutcomeCheck(t *testing.T) {
	flows := workflows("127.0.0.1:1")
	ok, undo, mixed := flows[0], flows[1], flows[2]
	for _, tt := range []struct {
		name string
		flow workflow
		out  outcome
		want string // in the error; "" for none
	}{
		{"all completed with three steps each", ok, outcome{states: map[int]int{3: 10}, executed: 30}, ""},
		{"all undone with two steps each way", undo, outcome{states: map[int]int{5: 10}, executed: 20, compensated: 20}, ""},
		{"one is not in the database", ok, outcome{states: map[int]int{3: 9}, executed: 27}, "LOST: of 10 accepted sagas, only 9"},
		{"one ended otherwise", ok, outcome{states: map[int]int{3: 9, 5: 1}, executed: 30}, "map[3:9 5:1]"},
		{"one has not ended", undo, outcome{states: map[int]int{5: 9, 4: 1}, executed: 20, compensated: 19}, "LOST"},
		{"a step was never logged", ok, outcome{states: map[int]int{3: 10}, executed: 29}, "WRONG: 10 sagas logged 29 executed"},
		{"a compensation was never logged", undo, outcome{states: map[int]int{5: 10}, executed: 20, compensated: 19}, "19 compensated"},
		{"a third undone", mixed, outcome{states: map[int]int{3: 7, 5: 3}, executed: 27, compensated: 6}, ""},
		{"none undone where a third must be", mixed, outcome{states: map[int]int{3: 10}, executed: 30}, "0 of 10 sagas were compensated"},
		{"a third undone and one lost", mixed, outcome{states: map[int]int{3: 6, 5: 3}, executed: 24, compensated: 6}, "LOST"},
		{"a third undone without a log", mixed, outcome{states: map[int]int{3: 7, 5: 3}, executed: 27, compensated: 5}, "WRONG"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.out.check(tt.flow, 10)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("check = %v; want an error with %q", err, tt.want)
			}
		})
	}
}
