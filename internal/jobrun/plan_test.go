package jobrun_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// timed is a definition with a schedule at a given time.
func timed(t *rapid.T, spec schedule.Spec, upTo time.Time) (*jobrun.Definition, *schedule.Schedule) {
	s, err := spec.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return &jobrun.Definition{
		ID: uuid.New(), Name: "job", Version: 3, SpecVersion: 1, Enabled: true, LastMaterializedAt: upTo,
		Spec: jobrun.Spec{Type: jobrun.OnTime, Schedule: &spec},
	}, s
}

func everyMinute() schedule.Spec { return schedule.Spec{Type: schedule.EveryNMinutes, Value: "1"} }

func at(now time.Time) jobrun.Moment { return jobrun.Moment{Now: now, NewID: uuid.New} }

// plain runs f once as a rapid test, for helpers that require one.
func plain(t *testing.T, f func(*rapid.T)) {
	t.Helper()
	rapid.Check(t, f)
}

// J8: whenever the leader swept, and whichever node led, the slots are those of the schedule, with
// none repeated and none missing.
func TestSlotsAreThoseOfTheScheduleHoweverTheTicksFall(t *testing.T) {
	t.Parallel()
	plain(t, func(t *rapid.T) {
		spec := rapid.SampledFrom([]schedule.Spec{
			everyMinute(), {Type: schedule.Interval, Value: "7s"}, {Type: schedule.Cron, Value: "*/10 2,3 * * *",
				Timezone: "Europe/Berlin"},
			{Type: schedule.DailyAt, Value: "02:30", Timezone: "America/New_York"}, {Type: schedule.Cron, Value: "0 0 29 2 *"},
		}).Draw(t, "schedule")
		start := time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC)
		d, s := timed(t, spec, start)
		set := jobrun.NewSettings(1, nil)
		now := start
		var got []time.Time
		for range rapid.IntRange(1, 60).Draw(t, "ticks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 290_000).Draw(t, "pause")) * time.Millisecond) // within the grace
			for {
				slots, a := jobrun.PlanSlots(d, s, now.Add(set.Seconds(jobrun.AssignAhead)), set, at(now))
				for _, slot := range slots {
					if slot.Run.State != jobrun.Pending || slot.Reason != "" {
						t.Fatalf("%s is %s: %s", slot.Run.ScheduledFor, slot.Run.State, slot.Reason)
					}
					got = append(got, slot.Run.ScheduledFor)
				}
				if a.Until.Before(d.LastMaterializedAt) || a.Version != d.Version {
					t.Fatalf("%+v", a)
				}
				d.LastMaterializedAt = a.Until
				if a.NextDueAt == nil || a.NextDueAt.After(now.Add(time.Minute)) {
					break
				}
			}
		}
		var want []time.Time
		for _, tick := range s.Ticks(start, now.Add(time.Minute), 1_000_000) {
			want = append(want, tick.At)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestMissedSlotsDoAsTheMisfirePolicySays(t *testing.T) {
	t.Parallel()
	type row struct {
		at   string
		runs bool
	}
	for _, tt := range []struct {
		name   string
		policy jobrun.Misfire
		away   time.Duration
		want   []row // of the late slots
		gap    bool  // some slots are not recorded
	}{
		{"skip records them", jobrun.SkipLate, 8 * time.Minute, []row{{"11:53", false}, {"11:54", false}}, false},
		{"skip records the newest", jobrun.SkipLate, 8 * time.Hour, []row{{"11:52", false}, {"11:53", false}, {"11:54", false}}, true},
		{"once", jobrun.FireOnce, 8 * time.Minute, []row{{"11:53", false}, {"11:54", true}}, false},
		{"once of many", jobrun.FireOnce, 8 * time.Hour, []row{{"11:52", false}, {"11:53", false}, {"11:54", true}}, true},
		{"catch up", jobrun.CatchUp, 8 * time.Minute, []row{{"11:53", true}, {"11:54", true}}, false},
		{"catch up with one more than the limit", jobrun.CatchUp, 10 * time.Minute, []row{{"11:51", false}, {"11:52", true}, {"11:53", true}, {"11:54", true}}, false},
		{"catch up with the newest", jobrun.CatchUp, 365 * 24 * time.Hour, []row{{"11:51", false}, {"11:52", true}, {"11:53", true}, {"11:54", true}}, true},
		{"nothing was missed", jobrun.SkipLate, 4 * time.Minute, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec := everyMinute()
			s, err := spec.Compile()
			if err != nil {
				t.Fatal(err)
			}
			now := noon
			d := &jobrun.Definition{ID: uuid.New(), LastMaterializedAt: now.Add(-tt.away),
				Spec: jobrun.Spec{Schedule: &spec, Misfire: tt.policy, CatchUpLimit: 3}}
			set := jobrun.NewSettings(1, nil)
			slots, a := jobrun.PlanSlots(d, s, now.Add(time.Minute), set, at(now))
			var got []row
			for _, slot := range slots {
				if !slot.Run.ScheduledFor.Before(now.Add(-5 * time.Minute)) {
					if slot.Run.State != jobrun.Pending {
						t.Errorf("%s is not late, and %s", slot.Run.ScheduledFor, slot.Run.State)
					}
					continue
				}
				runs := slot.Run.State == jobrun.Pending
				if runs == (slot.Reason != "") || runs == (slot.Run.FinishedAt != nil) || runs == (slot.Run.AdmittedAt == nil) {
					t.Errorf("%+v", slot)
				}
				got = append(got, row{slot.Run.ScheduledFor.Format("15:04"), runs})
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(row{})); diff != "" {
				t.Error(diff)
			}
			if gap := strings.Contains(slots[0].Reason, "not recorded"); gap != tt.gap {
				t.Errorf("reason %q", slots[0].Reason)
			}
			if !a.Until.Equal(now.Add(time.Minute)) || a.NextDueAt == nil || !a.NextDueAt.Equal(noon.Add(2*time.Minute)) {
				t.Errorf("%+v", a)
			}
		})
	}
}

// A pause affects its own slots and no others, as they pass. It ends automatically.
func TestSlotsOfAPauseAreSkippedAsTheyPass(t *testing.T) {
	t.Parallel()
	spec := everyMinute()
	s, err := spec.Compile()
	if err != nil {
		t.Fatal(err)
	}
	paused, until := noon.Add(90*time.Second), noon.Add(4*time.Minute)
	d := &jobrun.Definition{ID: uuid.New(), LastMaterializedAt: noon, PausedAt: &paused, PausedUntil: &until,
		PauseReason: "audit", Spec: jobrun.Spec{Schedule: &spec}}
	got := map[string]string{}
	for now := noon; now.Before(noon.Add(6 * time.Minute)); now = now.Add(10 * time.Second) {
		slots, a := jobrun.PlanSlots(d, s, now.Add(time.Minute), jobrun.NewSettings(1, nil), at(now))
		for _, slot := range slots {
			if slot.Run.State == jobrun.Skipped && slot.Run.ScheduledFor.After(now) {
				t.Errorf("%s was skipped at %s already", slot.Run.ScheduledFor, now)
			}
			got[slot.Run.ScheduledFor.Format("15:04")] = slot.Reason
		}
		d.LastMaterializedAt = a.Until
	}
	want := map[string]string{"12:01": "", "12:02": "paused: audit", "12:03": "paused: audit", "12:04": "",
		"12:05": "", "12:06": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	d.PausedUntil, d.LastMaterializedAt = nil, noon.Add(2*time.Minute)
	slots, a := jobrun.PlanSlots(d, s, noon.Add(4*time.Minute), jobrun.NewSettings(1, nil), at(noon.Add(150*time.Second)))
	if len(slots) != 0 || !a.Until.Equal(noon.Add(150*time.Second)) || !a.NextDueAt.Equal(noon.Add(3*time.Minute)) {
		t.Errorf("%v, %+v", slots, a)
	}
}

func TestJitterDelaysARunAndIsAlwaysTheSame(t *testing.T) {
	t.Parallel()
	spec := everyMinute()
	s, err := spec.Compile()
	if err != nil {
		t.Fatal(err)
	}
	d := &jobrun.Definition{ID: uuid.New(), LastMaterializedAt: noon, Spec: jobrun.Spec{Schedule: &spec, JitterMS: 60_000}}
	delays := func() (all []time.Duration) {
		slots, _ := jobrun.PlanSlots(d, s, noon.Add(50*time.Minute), jobrun.NewSettings(1, nil), at(noon))
		for _, slot := range slots {
			all = append(all, slot.Run.AvailableAt.Sub(slot.Run.ScheduledFor))
		}
		return all
	}
	first := delays()
	if diff := cmp.Diff(first, delays()); diff != "" {
		t.Error(diff)
	}
	low, high := first[0], first[0]
	for _, d := range first {
		low, high = min(low, d), max(high, d)
	}
	if low < 0 || high > time.Minute || low > 15*time.Second || high < 45*time.Second {
		t.Errorf("from %s to %s", low, high)
	}
}
