package jobrun_test

import (
	"slices"
	"testing"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

func TestHowAnOperatorMovesAWorker(t *testing.T) {
	t.Parallel()
	const active, draining, lost, detached = jobrun.WorkerActive, jobrun.WorkerDraining, jobrun.WorkerLost,
		jobrun.WorkerDetached
	for _, tt := range []struct {
		from    jobrun.WorkerState
		drains  bool // when it comes back
		to      jobrun.WorkerState
		want    jobrun.WorkerState
		changed bool
		refused bool
	}{
		{active, false, active, active, false, false},
		{active, false, draining, draining, true, false},
		{active, false, detached, detached, true, false},
		{draining, true, active, active, true, false},
		{draining, true, draining, draining, false, false},
		{draining, true, detached, detached, true, false},
		{lost, false, active, lost, false, false},
		{lost, true, active, lost, true, false},
		{lost, false, draining, lost, true, false},
		{lost, true, draining, lost, false, false},
		{lost, false, detached, detached, true, false},
		{detached, false, active, detached, false, true},
		{detached, false, draining, detached, false, true},
		{detached, false, detached, detached, false, false},
		{detached, false, lost, lost, true, false},
		{detached, true, lost, lost, true, false},
		{lost, true, lost, lost, false, false},
		{active, false, lost, active, false, false},
		{draining, true, lost, draining, false, false},
	} {
		w := jobrun.WorkerProcess{HeartbeatAt: noon}
		if w.State = tt.from; tt.drains {
			w.DrainAt = &noon
		}
		allowed := w.Actions()
		changed, err := w.Moved(tt.to)
		if w.State != tt.want || changed != tt.changed || (err != nil) != tt.refused {
			t.Errorf("%s (drains %v) to %s: %s, changed %v, %v", tt.from, tt.drains, tt.to, w.State, changed, err)
		}
		if f := fault.As(err); tt.refused && (f.Code != jobrun.CodeConflict || !slices.Equal(f.Allowed, allowed)) {
			t.Errorf("%s to %s: %+v", tt.from, tt.to, f)
		}
		if tt.to == active && !tt.refused && w.DrainAt != nil {
			t.Errorf("%s to %s: it still is to drain", tt.from, tt.to)
		}
	}
}
