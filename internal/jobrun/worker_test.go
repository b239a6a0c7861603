package jobrun_test

import (
	"slices"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

func TestHowAnOperatorMovesAWorker(t *testing.T) {
	t.Parallel()
	const active, draining, lost, detached = jobrun.WorkerActive, jobrun.WorkerDraining, jobrun.WorkerLost,
		jobrun.WorkerDetached
	for _, tt := range []struct {
		from    jobrun.WorkerState
		drains  bool // when it returns
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
		was, later := w, noon.Add(time.Minute)
		changed, err := w.Moved(tt.to, later)
		if w.State != tt.want || changed != tt.changed || (err != nil) != tt.refused {
			t.Errorf("%s (drains %v) to %s: %s, changed %v, %v", tt.from, tt.drains, tt.to, w.State, changed, err)
		}
		if f := fault.As(err); tt.refused && (f.Code != jobrun.CodeConflict || !slices.Equal(f.Allowed, allowed)) {
			t.Errorf("%s to %s: %+v", tt.from, tt.to, f)
		}
		if tt.to == active && !tt.refused && w.DrainAt != nil {
			t.Errorf("%s to %s: it still is to drain", tt.from, tt.to)
		}
		moved := w.State != was.State
		if is := w.LostAt != nil && w.LostAt.Equal(later); is != (moved && w.State == lost) {
			t.Errorf("%s to %s: lost at %v", tt.from, tt.to, w.LostAt)
		}
		if is := w.DetachedAt != nil && w.DetachedAt.Equal(later); is != (moved && w.State == detached) {
			t.Errorf("%s to %s: detached at %v", tt.from, tt.to, w.DetachedAt)
		}
		if is := w.DrainAt != nil && w.DrainAt.Equal(later); is != (changed && tt.to == draining && !tt.drains) {
			t.Errorf("%s to %s (drains %v): drains from %v", tt.from, tt.to, tt.drains, w.DrainAt)
		}
	}
}
