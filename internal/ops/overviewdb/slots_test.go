package overviewdb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestTheNextSlotOfAJobIsTheSameEverywhere: the runs of the next minute exist before they are due, and the overview
// named the slot after them.
func TestTheNextSlotOfAJobIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	s := trouble{t, uitest.Start(t), ""}
	s.made("POST", "/job-definitions", object{
		"name": "often", "type": "time", "command_name": "report", "schedule": object{"type": "interval", "value": "20s"},
	})
	patience.Until(t, "a run exists before it is due", func() bool {
		job := s.made("GET", "/job-definitions/often?include=next_run_at", nil)
		return job["next_run_at"] != job["next_due_at"]
	})
	patience.Until(t, "the overview names the slot that the job names", func() bool {
		job := s.made("GET", "/job-definitions/often?include=next_run_at", nil)
		slots, _ := s.made("GET", "/overview", nil)["next_runs"].([]any)
		for _, slot := range slots {
			if slot := slot.(object); slot["definition"] == "often" {
				return slot["due_at"] == job["next_run_at"]
			}
		}
		return false
	})
}
