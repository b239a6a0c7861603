package jobdb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// TestARunThatWasToBeCanceledIsNotReassigned takes runs from workers that were asked to stop them.
// The runs end, because no worker may get them.
func TestARunThatWasToBeCanceledIsNotReassigned(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	d := j.Define(t, nil)
	w := j.NewWorker(t)
	for name, lost := range map[string]bool{"RUNNING": false, "ORPHANED": true} {
		r := j.Running(t, w, d)
		if asked, err := j.Cancel(t.Context(), j.Tenant, r.ID, false, j.Action(r)); err != nil ||
			asked.State != jobrun.Running || asked.CancelRequestedAt == nil {
			t.Fatalf("%s: ask to cancel: %s %v", name, asked.State, err)
		}
		if lost {
			pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET state = 'ORPHANED', version = version + 1, available_at = now() + interval '1 hour', admitted_at = NULL WHERE id = $1`, r.ID)
		}
		taken, err := j.Reassign(t.Context(), j.Tenant, r.ID, true, j.Action(r))
		if err != nil || taken.State != jobrun.Canceled {
			t.Errorf("%s: taken away it is %s: %v", name, taken.State, err)
		}
		if stored := j.GetRun(t, r.ID); stored.State != jobrun.Canceled || stored.FinishedAt == nil {
			t.Errorf("%s: it is stored as %s", name, stored.State)
		}
	}
}
