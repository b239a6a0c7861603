package postgres_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/jobrun"
)

// TestWhatWasToBeCanceledIsNotGivenToAnother takes runs from their workers that
// somebody wanted to stop before: they end, for no worker would ever get them.
func TestWhatWasToBeCanceledIsNotGivenToAnother(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	d := j.define(t, nil)
	w := j.worker(t)
	for name, lost := range map[string]bool{"RUNNING": false, "ORPHANED": true} {
		r := j.running(t, w, d)
		if asked, err := j.Cancel(t.Context(), j.tenant, r.ID, false, j.action(r)); err != nil || asked.State != jobrun.Running || asked.CancelRequestedAt == nil {
			t.Fatalf("%s: ask to cancel: %s %v", name, asked.State, err)
		}
		if lost {
			execute(t, j.db.SQL(), `UPDATE jobs.job_runs SET state = 'ORPHANED', version = version + 1, available_at = now() + interval '1 hour', admitted_at = NULL WHERE id = $1`, r.ID)
		}
		taken, err := j.Reassign(t.Context(), j.tenant, r.ID, true, j.action(r))
		if err != nil || taken.State != jobrun.Canceled {
			t.Errorf("%s: taken away it is %s: %v", name, taken.State, err)
		}
		if stored := j.get(t, r.ID); stored.State != jobrun.Canceled || stored.FinishedAt == nil {
			t.Errorf("%s: it is stored as %s", name, stored.State)
		}
	}
}
