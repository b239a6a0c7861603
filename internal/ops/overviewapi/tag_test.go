package overviewapi

import (
	"testing"
	"time"

	"github.com/skald-saga/skald/api"
)

// TestMinutesInWhichNothingHappenedAreNoChange: otherwise an idle server would have a new overview
// every minute.
func TestMinutesInWhichNothingHappenedAreNoChange(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	tag := func(from time.Time, quiet bool) string {
		tag, err := tagOf(api.Overview{CheckedAt: from, Minutes: []api.OverviewMinute{{From: from}}}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		return tag
	}
	if tag(noon, true) != tag(noon.Add(time.Minute), true) {
		t.Error("the overview of a quiet hour changes with the time")
	}
	if tag(noon, false) == tag(noon.Add(time.Minute), false) {
		t.Error("the minutes of a busy hour go on, and the overview is the same")
	}
}
