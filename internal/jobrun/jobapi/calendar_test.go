package jobapi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

// calendar returns the result of GetJobCalendar for one definition at noon of 27 March 2027.
func calendar(t *testing.T, d *jobrun.Definition, runs []jobrun.SlotRun, from, to string) ([]string, bool) {
	t.Helper()
	s := &Handlers{Kit: &httpkit.Kit{Clock: func() time.Time { return stamp(t, "2027-03-27T12:00:00Z") }}}
	slots, listed := s.calendarOf(d, runs, stamp(t, from), stamp(t, to))
	var said []string
	for _, slot := range slots {
		line := slot.At.UTC().Format("02T15:04")
		if slot.Note != nil {
			line += " " + string(*slot.Note) + " " + slot.LocalTime
		}
		if slot.State != nil {
			line += " " + string(*slot.State)
		}
		if slot.Reason != nil {
			line += " " + *slot.Reason
		}
		if slot.Paused != nil {
			line += " paused"
		}
		said = append(said, line)
	}
	return said, listed
}

func stamp(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func nightly(cron, zone string) *jobrun.Definition {
	return &jobrun.Definition{
		ID: uuid.UUID{1}, Name: "nightly", Enabled: true,
		Spec: jobrun.Spec{Type: jobrun.OnTime, Schedule: &schedule.Spec{Type: schedule.Cron, Value: cron, Timezone: zone}},
	}
}

func TestCalendarSaysWhatHappenedAndWhatIsToCome(t *testing.T) {
	ran := func(at string, state jobrun.State, reason string) jobrun.SlotRun {
		return jobrun.SlotRun{DefinitionID: uuid.UUID{1}, RunID: uuid.New(), At: stamp(t, at), State: state, Reason: reason}
	}
	taken := func(at string) jobrun.SlotRun {
		r := ran(at, jobrun.Skipped, "moved")
		r.Withdrawn = true
		return r
	}
	paused := nightly("0 0,6,18 * * *", "UTC")
	paused.PausedAt, paused.PausedUntil = new(stamp(t, "2027-03-27T01:00:00Z")), new(stamp(t, "2027-03-28T00:00:00Z"))
	disabled := nightly("0 0,6,18 * * *", "UTC")
	disabled.Enabled = false
	for name, tt := range map[string]struct {
		of       *jobrun.Definition
		runs     []jobrun.SlotRun
		from, to string
		want     []string
	}{
		"past slots by their runs, others only if they are to come": {
			nightly("0 0,6,18 * * *", "UTC"),
			[]jobrun.SlotRun{
				ran("2027-03-27T00:00:00Z", jobrun.Succeeded, ""), ran("2027-03-26T18:00:00Z", jobrun.Skipped, "overlap"),
			},
			"2027-03-26T12:00:00Z", "2027-03-28T06:00:00Z",
			[]string{"26T18:00 SKIPPED overlap", "27T00:00 SUCCEEDED", "27T18:00", "28T00:00"},
		},
		"a slot that was taken away, one that came back, and one that came back too late": {
			nightly("0 0,6,18 * * *", "UTC"),
			[]jobrun.SlotRun{
				taken("2027-03-27T06:00:00Z"), taken("2027-03-27T18:00:00Z"), taken("2027-03-27T19:00:00Z"),
			},
			"2027-03-27T01:00:00Z", "2027-03-28T00:00:00Z",
			[]string{"27T06:00 SKIPPED moved", "27T18:00", "27T19:00 SKIPPED moved"},
		},
		"the end is not part of it, the beginning is": {
			nightly("0 0,6,18 * * *", "UTC"), nil, "2027-03-27T18:00:00Z", "2027-03-28T00:00:00Z", []string{"27T18:00"},
		},
		"paused until midnight": {
			paused, nil, "2027-03-27T12:00:00Z", "2027-03-28T07:00:00Z",
			[]string{"27T18:00 paused", "28T00:00", "28T06:00"},
		},
		"disabled, but it has run": {
			disabled, []jobrun.SlotRun{ran("2027-03-27T06:00:00Z", jobrun.Failed, "")}, "2027-03-27T00:00:00Z",
			"2027-03-29T00:00:00Z", []string{"27T06:00 FAILED"},
		},
		"a run of an earlier schedule": {
			nightly("0 18 * * *", "UTC"), []jobrun.SlotRun{ran("2027-03-27T07:30:00Z", jobrun.Succeeded, "")},
			"2027-03-27T00:00:00Z", "2027-03-28T00:00:00Z", []string{"27T18:00", "27T07:30 SUCCEEDED"},
		},
		"a time that the clock skips is moved": {
			nightly("30 2 * * *", "Europe/Berlin"), nil, "2027-03-27T12:00:00Z", "2027-03-30T00:00:00Z",
			[]string{"28T01:00 moved_gap 2027-03-28T02:30:00", "29T00:30"},
		},
		"a zone that is gone": {
			nightly("30 2 * * *", "Atlantis/Capital"), nil, "2027-03-27T12:00:00Z", "2027-03-30T00:00:00Z", nil,
		},
		"no schedule": {&jobrun.Definition{Enabled: true}, nil, "2027-03-27T12:00:00Z", "2027-03-30T00:00:00Z", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, listed := calendar(t, tt.of, tt.runs, tt.from, tt.to)
			if diff := cmp.Diff(tt.want, got); diff != "" || !listed {
				t.Errorf("listed: %v (-want +got):\n%s", listed, diff)
			}
		})
	}
}

func TestCalendarNamesJobsThatAreDueTooOften(t *testing.T) {
	for name, tt := range map[string]struct {
		cron, to string
		listed   bool
		slots    int
	}{
		"every quarter of an hour for a week": {"*/15 * * * *", "2027-04-03T12:00:00Z", true, 672},
		"every minute for a day":              {"* * * * *", "2027-03-28T12:00:00Z", false, 0},
		"every minute for an hour":            {"* * * * *", "2027-03-27T13:00:00Z", true, 60},
	} {
		got, listed := calendar(t, nightly(tt.cron, "UTC"), nil, "2027-03-27T12:00:00Z", tt.to)
		if listed != tt.listed || listed && len(got) != tt.slots {
			t.Errorf("%s: %d slots, listed: %v", name, len(got), listed)
		}
	}
	// There are too many runs of an earlier schedule.
	runs := make([]jobrun.SlotRun, calendarEach+1)
	_, listed := calendar(t, nightly("0 0 * * *", "UTC"), runs, "2027-03-27T00:00:00Z", "2027-03-28T00:00:00Z")
	if listed {
		t.Error("a job with too many past slots is listed")
	}
}
