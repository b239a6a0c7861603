package schedule_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

func compiled(t *testing.T, spec schedule.Spec) *schedule.Schedule {
	t.Helper()
	s, err := spec.Compile()
	if err != nil {
		t.Fatalf("%+v: %v", spec, err)
	}
	return s
}

func TestIntervalsAreCountedInRealTime(t *testing.T) {
	t.Parallel()
	start := at("2026-11-01T05:00:00.25Z")
	for _, tt := range []struct {
		name  string
		spec  schedule.Spec
		after string
		want  []row
	}{
		{"from the epoch", spec(schedule.Interval, "7m"), "1970-01-01T00:00:00Z", []row{{"1970-01-01T00:07:00Z", "1970-01-01T00:07:00", ""}, {"1970-01-01T00:14:00Z", "1970-01-01T00:14:00", ""}}},
		{"before the epoch", spec(schedule.Interval, "7m"), "1969-12-31T23:50:00Z", []row{{"1969-12-31T23:53:00Z", "1969-12-31T23:53:00", ""}, {"1970-01-01T00:00:00Z", "1970-01-01T00:00:00", ""}}},
		{"from the start, at whole seconds", schedule.Spec{Type: schedule.Interval, Value: "1h", StartAt: start}, "2000-01-01T00:00:00Z", []row{{"2026-11-01T05:00:01Z", "2026-11-01T05:00:01", ""}, {"2026-11-01T06:00:01Z", "2026-11-01T06:00:01", ""}}},
		{"later than the start", schedule.Spec{Type: schedule.Interval, Value: "1h", StartAt: start}, "2026-11-01T07:00:01Z", []row{{"2026-11-01T08:00:01Z", "2026-11-01T08:00:01", ""}}},
		{"through an overlap", schedule.Spec{Type: schedule.Interval, Value: "1h30m", StartAt: start, Timezone: "America/New_York", DSTOverlap: schedule.First}, "2026-11-01T05:00:01Z", []row{{"2026-11-01T06:30:01Z", "2026-11-01T01:30:01", ""}, {"2026-11-01T08:00:01Z", "2026-11-01T03:00:01", ""}}},
		{"minutes that do not divide the hour", spec(schedule.EveryNMinutes, "45"), "2026-01-01T00:00:00Z", []row{{"2026-01-01T00:45:00Z", "2026-01-01T00:45:00", ""}, {"2026-01-01T01:30:00Z", "2026-01-01T01:30:00", ""}, {"2026-01-01T02:15:00Z", "2026-01-01T02:15:00", ""}}},
		{"half hours in a zone of quarters", schedule.Spec{Type: schedule.EveryNMinutes, Value: "30", Timezone: "Asia/Kathmandu"}, "2026-01-01T00:00:00Z", []row{{"2026-01-01T00:30:00Z", "2026-01-01T06:15:00", ""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := compiled(t, tt.spec)
			if diff := cmp.Diff(tt.want,
				rowsOf(s.Ticks(*at(tt.after), at(tt.after).AddDate(50, 0, 0), len(tt.want)))); diff != "" {
				t.Errorf("ticks (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, rowsOf(s.Preview(*at(tt.after), len(tt.want)))); diff != "" {
				t.Errorf("preview (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoTickIsBeforeTheStartNorAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, start, end string
		want             []string
	}{
		{"at the start, not at the end", "2026-01-01T09:00:00Z", "2026-01-03T09:00:00Z", []string{"2026-01-01T09:00:00Z", "2026-01-02T09:00:00Z"}},
		{"a moment after and before", "2026-01-01T09:00:00.000001Z", "2026-01-03T09:00:00.000001Z", []string{"2026-01-02T09:00:00Z", "2026-01-03T09:00:00Z"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, kind := range []schedule.Spec{spec(schedule.DailyAt, "09:00"), cronSpec("0 9 * * *")} {
				kind.StartAt, kind.EndAt = at(tt.start), at(tt.end)
				s := compiled(t, kind)
				var got []string
				for _, tick := range s.Ticks(time.Time{}, *at("2030-01-01T00:00:00Z"), 10) {
					got = append(got, tick.At.Format(time.RFC3339))
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("ticks (-want +got):\n%s", diff)
				}
				if tick, ok := s.Next(at(tt.end).Add(-time.Microsecond)); ok {
					t.Errorf("%v is due at or after the end", tick)
				}
			}
		})
	}
}

func TestTicksAreInTheRangeAndNoMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	s := compiled(t, spec(schedule.EveryNMinutes, "1"))
	from, until := *at("2026-01-01T00:00:00Z"), *at("2026-01-01T00:10:00Z")
	for _, tt := range []struct{ limit, want int }{{-1, 0}, {0, 0}, {1, 1}, {9, 9}, {10, 10}, {11, 10}} {
		got := s.Ticks(from, until, tt.limit)
		if len(got) != tt.want || tt.want > 0 && !got[0].At.Equal(from.Add(time.Minute)) {
			t.Errorf("limit %d: %d ticks %v; want %d, the first a minute after the beginning", tt.limit, len(got), got, tt.want)
		}
	}
	if got := s.Ticks(until, from, 5); len(got) != 0 {
		t.Errorf("ticks in a range that ends before it begins: %v", got)
	}
	if got := s.Preview(from, 0); len(got) != 0 {
		t.Errorf("a preview of nothing: %v", got)
	}
	if got := s.Ticks(from.Add(time.Nanosecond), from.Add(time.Minute), 5); len(got) != 1 {
		t.Errorf("between a fraction and the tick: %v", got)
	}
}

// For any time, there is an answer in finite time.
func TestTheEndsOfTime(t *testing.T) {
	t.Parallel()
	for _, kind := range []schedule.Spec{
		cronSpec("0 0 29 2 *"), cronSpec("* * * * *"), cronSpec("0 0 * 2 1#5"), spec(schedule.Interval, "1s"),
		spec(schedule.WeeklyAt, "SUN 00:00"),
	} {
		for _, zone := range []string{"UTC", "Pacific/Apia", "America/New_York", "Asia/Tokyo", "Africa/Casablanca"} {
			kind.Timezone = zone
			s := compiled(t, kind)
			for _, after := range []time.Time{time.Unix(-1<<62, 0), {}, *at("1883-11-18T00:00:00Z"), time.Unix(0, 0)} {
				if tick, ok := s.Next(after); !ok || !tick.At.After(after) {
					t.Errorf("%s in %s: Next(%s) = %v, %v", kind.Value, zone, after, tick, ok)
				}
			}
			for _, after := range []time.Time{*at("9999-12-31T23:59:59Z"), time.Unix(1<<62, 0)} {
				if tick, ok := s.Next(after); ok {
					t.Errorf("%s in %s: Next(%s) = %v: a time without a form in JSON", kind.Value, zone, after, tick)
				}
			}
		}
	}
}

// These are spellings that users of cron expect to work.
func TestCronSpellings(t *testing.T) {
	t.Parallel()
	for same, as := range map[string]string{
		"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@DAILY": "0 0 * * *", "@hourly": "0 * * * *",
		"@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *",
		"@annually": "0 0 1 1 *", "@5minutes": "*/5 * * * *", "@30minutes": "*/30 * * * *",
		"  0\t9  * *   mon-fri ": "0 9 * * 1-5", "0 9 * jan,Dec 7": "0 0 9 * 1,12 0", "0 9 ? * ?": "0 9 * * *",
		"5-7/1 08 * * *": "5,6,7 8 * * *", "0 0 * * 6-7": "0 0 * * 0,6", "0 0 * * 7L": "0 0 * * 0L",
	} {
		from, until := *at("2026-01-01T00:00:00Z"), *at("2028-01-01T00:00:00Z")
		want := compiled(t, cronSpec(as)).Ticks(from, until, 100_000)
		if diff := cmp.Diff(rowsOf(want), rowsOf(compiled(t, cronSpec(same)).Ticks(from, until, 100_000))); diff != "" ||
			len(want) == 0 {
			t.Errorf("%q is not %q (%d ticks, -want +got):\n%s", same, as, len(want), diff)
		}
	}
}

func TestSpecsAreStoredAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	text := `{"type":"daily_at","value":"09:00","timezone":"Europe/Berlin","dst_gap":"skip","dst_overlap":"both","start_at":"2026-01-01T00:00:00Z","end_at":"2027-01-01T00:00:00Z"}`
	var spec schedule.Spec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	compiled(t, spec)
	got, err := json.Marshal(spec)
	if err != nil || string(got) != text {
		t.Errorf("%s, %v; want %s", got, err, text)
	}
	if got, _ := json.Marshal(schedule.Spec{Type: schedule.Cron, Value: "@daily"}); string(got) != `{"type":"cron","value":"@daily"}` {
		t.Errorf("what is not said stands in %s", got)
	}
}
