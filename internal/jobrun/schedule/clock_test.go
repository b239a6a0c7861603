package schedule_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

// The code must behave as the rows of docs/schedules.md describe, on the given day, in UTC.
func TestTheTableOfClockChangesIsTrue(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/schedules.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| (\\w+/\\w+) \\| `(.+)`(.*?) \\| (\\d{4}-\\d\\d-\\d\\d) \\| (\\S.*?) \\| .*\\|$")
	rows := row.FindAllStringSubmatch(string(page), -1)
	if len(rows) != 14 {
		t.Errorf("%d rows found; the pattern wants mending", len(rows))
	}
	for _, m := range rows {
		spec := schedule.Spec{Type: schedule.Cron, Value: m[2], Timezone: m[1]}
		switch {
		case strings.HasSuffix(m[3], "skip"):
			spec.DSTGap = schedule.Skip
		case strings.HasSuffix(m[3], "both"):
			spec.DSTOverlap = schedule.Both
		}
		s, err := spec.Compile()
		if err != nil {
			t.Fatal(err)
		}
		day, err := time.Parse(time.DateOnly, m[4])
		if err != nil {
			t.Fatal(err)
		}
		begin, end := day, day.AddDate(0, 0, 1)
		if strings.Contains(m[3], "from 04:00 to 07:00") {
			begin, end = day.Add(4*time.Hour), day.Add(7*time.Hour)
		}
		var due []string
		for _, tick := range s.Ticks(begin.Add(-1), end.Add(-1), 100) {
			due = append(due, tick.At.Format(time.TimeOnly))
		}
		if got, want := strings.Join(due, " "), strings.Trim(m[5], "–"); got != want {
			t.Errorf("%s: due at %q; the page says %q", m[0], got, want)
		}
	}
}

type row struct{ At, LocalTime, Note string }

func rowsOf(ticks []schedule.Tick) []row {
	var rows []row
	for _, tick := range ticks {
		rows = append(rows, row{tick.At.Format(time.RFC3339), tick.LocalTime, string(tick.Note)})
	}
	return rows
}

// These are pitfalls that were measured in other libraries, and the behavior here in each case.
func TestClockChanges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, cron, zone, after string
		want                    []row
	}{
		{"a time in the spring gap fires once", "30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", []row{
			{"2026-03-08T07:00:00Z", "2026-03-08T02:30:00", "moved_gap"}, {"2026-03-09T06:30:00Z", "2026-03-09T02:30:00", ""},
		}},
		{"a time in the autumn overlap fires once", "30 1 * * *", "America/New_York", "2026-11-01T04:00:00Z", []row{
			{"2026-11-01T05:30:00Z", "2026-11-01T01:30:00", "repetition_left_out"}, {"2026-11-02T06:30:00Z", "2026-11-02T01:30:00", ""},
		}},
		{"not again for who asks between the two", "30 1 * * *", "America/New_York", "2026-11-01T06:10:00Z", []row{
			{"2026-11-02T06:30:00Z", "2026-11-02T01:30:00", ""},
		}},
		{"midnight that does not exist", "0 0 * * *", "Asia/Beirut", "2026-03-28T12:00:00Z", []row{
			{"2026-03-28T22:00:00Z", "2026-03-29T00:00:00", "moved_gap"}, {"2026-03-29T21:00:00Z", "2026-03-30T00:00:00", ""},
		}},
		{"a gap of half an hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", []row{
			{"2026-10-03T15:30:00Z", "2026-10-04T02:15:00", "moved_gap"}, {"2026-10-04T15:15:00Z", "2026-10-05T02:15:00", ""},
		}},
		{"half hours run through the overlap", "*/30 * * * *", "America/New_York", "2026-11-01T05:00:00Z", []row{
			{"2026-11-01T05:30:00Z", "2026-11-01T01:30:00", ""}, {"2026-11-01T06:00:00Z", "2026-11-01T01:00:00", "repeated"},
			{"2026-11-01T06:30:00Z", "2026-11-01T01:30:00", "repeated"}, {"2026-11-01T07:00:00Z", "2026-11-01T02:00:00", ""},
		}},
		{"the 13th or a Friday", "0 0 13 * 5", "UTC", "2026-11-01T00:00:00Z", []row{
			{"2026-11-06T00:00:00Z", "2026-11-06T00:00:00", ""}, {"2026-11-13T00:00:00Z", "2026-11-13T00:00:00", ""},
			{"2026-11-20T00:00:00Z", "2026-11-20T00:00:00", ""}, {"2026-11-27T00:00:00Z", "2026-11-27T00:00:00", ""},
			{"2026-12-04T00:00:00Z", "2026-12-04T00:00:00", ""}, {"2026-12-11T00:00:00Z", "2026-12-11T00:00:00", ""},
			{"2026-12-13T00:00:00Z", "2026-12-13T00:00:00", ""},
		}},
		{"the last day", "0 0 L * *", "UTC", "2028-02-01T00:00:00Z", []row{
			{"2028-02-29T00:00:00Z", "2028-02-29T00:00:00", ""}, {"2028-03-31T00:00:00Z", "2028-03-31T00:00:00", ""},
		}},
		{"the second Monday", "0 0 * * 1#2", "UTC", "2026-11-01T00:00:00Z", []row{
			{"2026-11-09T00:00:00Z", "2026-11-09T00:00:00", ""}, {"2026-12-14T00:00:00Z", "2026-12-14T00:00:00", ""},
		}},
		{"no leap day in 2100", "0 0 29 2 *", "UTC", "2095-01-01T00:00:00Z", []row{
			{"2096-02-29T00:00:00Z", "2096-02-29T00:00:00", ""}, {"2104-02-29T00:00:00Z", "2104-02-29T00:00:00", ""},
		}},
		{"five Mondays in February", "0 0 * 2 1#5", "UTC", "2073-01-01T00:00:00Z", []row{
			{"2112-02-29T00:00:00Z", "2112-02-29T00:00:00", ""}, {"2140-02-29T00:00:00Z", "2140-02-29T00:00:00", ""},
		}},
		{"the last day of a leap year under a rule", "0 9 * * *", "Europe/Berlin", "2040-12-30T08:00:00Z", []row{
			{"2040-12-31T08:00:00Z", "2040-12-31T09:00:00", ""}, {"2041-01-01T08:00:00Z", "2041-01-01T09:00:00", ""},
		}},
		{"two times make one tick at the end of the gap", "0,59 2,3 * * *", "America/New_York", "2026-03-08T06:00:00Z", []row{
			{"2026-03-08T07:00:00Z", "2026-03-08T03:00:00", ""}, {"2026-03-08T07:59:00Z", "2026-03-08T03:59:00", ""},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := cronSpec(tt.cron)
			spec.Timezone = tt.zone
			s, err := spec.Compile()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want,
				rowsOf(s.Ticks(*at(tt.after), at(tt.after).AddDate(100, 0, 0), len(tt.want)))); diff != "" {
				t.Errorf("ticks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPreviewsTellWhatGapsCost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spec  schedule.Spec
		count int
		want  []row
	}{
		{"skipped times stand among the ticks", schedule.Spec{Type: schedule.DailyAt, Value: "01:30,02:10,02:20,04:00", DSTGap: schedule.Skip}, 3, []row{
			{"2026-03-08T06:30:00Z", "2026-03-08T01:30:00", ""},
			{"2026-03-08T07:00:00Z", "2026-03-08T02:10:00", "skipped_gap"}, {"2026-03-08T07:00:00Z", "2026-03-08T02:20:00", "skipped_gap"},
			{"2026-03-08T08:00:00Z", "2026-03-08T04:00:00", ""}, {"2026-03-09T05:30:00Z", "2026-03-09T01:30:00", ""},
		}},
		{"no more than were asked for, which what is skipped is not of", schedule.Spec{Type: schedule.DailyAt, Value: "01:30,02:10,02:20", DSTGap: schedule.Skip}, 2, []row{
			{"2026-03-08T06:30:00Z", "2026-03-08T01:30:00", ""}, {"2026-03-08T07:00:00Z", "2026-03-08T02:10:00", "skipped_gap"},
			{"2026-03-08T07:00:00Z", "2026-03-08T02:20:00", "skipped_gap"}, {"2026-03-09T05:30:00Z", "2026-03-09T01:30:00", ""},
		}},
		{"times that fire afterwards are not skipped", schedule.Spec{Type: schedule.DailyAt, Value: "02:10"}, 2, []row{
			{"2026-03-08T07:00:00Z", "2026-03-08T02:10:00", "moved_gap"}, {"2026-03-09T06:10:00Z", "2026-03-09T02:10:00", ""},
		}},
		{"an hour that real time does not have", cronSpec("*/30 2 * * *"), 1, []row{
			{"2026-03-08T07:00:00Z", "2026-03-08T02:00:00", "skipped_gap"}, {"2026-03-08T07:00:00Z", "2026-03-08T02:30:00", "skipped_gap"},
			{"2026-03-09T06:00:00Z", "2026-03-09T02:00:00", ""},
		}},
		{"real time loses nothing", cronSpec("*/30 * * * *"), 3, []row{
			{"2026-03-08T06:30:00Z", "2026-03-08T01:30:00", ""}, {"2026-03-08T07:00:00Z", "2026-03-08T03:00:00", ""}, {"2026-03-08T07:30:00Z", "2026-03-08T03:30:00", ""},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.spec.Timezone = "America/New_York"
			s, err := tt.spec.Compile()
			if err != nil {
				t.Fatal(err)
			}
			after := *at("2026-03-08T06:00:00Z")
			if diff := cmp.Diff(tt.want, rowsOf(s.Preview(after, tt.count))); diff != "" {
				t.Errorf("preview (-want +got):\n%s", diff)
			}
			for _, tick := range s.Ticks(after, after.AddDate(0, 0, 2), 100) {
				if tick.Note == schedule.SkippedGap {
					t.Errorf("%v is not a tick", tick)
				}
			}
		})
	}
}
