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
		w := worker(1)
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

func TestWhichWorkersAreGivenRuns(t *testing.T) {
	t.Parallel()
	for _, state := range []jobrun.WorkerState{jobrun.WorkerActive, jobrun.WorkerDraining, jobrun.WorkerLost,
		jobrun.WorkerDetached} {
		for silence, fresh := range map[time.Duration]bool{0: true, 14 * time.Second: true, 15 * time.Second: false,
			time.Hour: false} {
			w := worker(1)
			w.State, w.HeartbeatAt = state, noon.Add(-silence)
			if got := w.MayClaim(settings, noon); got != (fresh && state == jobrun.WorkerActive) {
				t.Errorf("%s, silent for %s: %v", state, silence, got)
			}
		}
	}
}

func TestHowManyRunsAWorkerIsGiven(t *testing.T) {
	t.Parallel()
	few := jobrun.NewSettings(1, map[string]float64{jobrun.MaxRunsPerWorker: 3})
	for _, tt := range []struct {
		asks, may, holds int
		settings         jobrun.Settings
		want             int
	}{
		{5, 10, 0, settings, 5},
		{5, 10, 7, settings, 3},
		{5, 2, 0, settings, 2},
		{5, 2, 2, settings, 0},
		{5, 2, 3, settings, -1},
		{0, 2, 0, settings, 0},
		{5, 10, 0, few, 3},
		{5, 10, 2, few, 1},
		{10_000, 10_000, 0, jobrun.NewSettings(1, map[string]float64{jobrun.MaxRunsPerWorker: 10_000}), jobrun.MaxClaim},
	} {
		w := jobrun.WorkerProcess{MaxRuns: tt.may}
		if got := w.Room(tt.asks, tt.holds, tt.settings); got != tt.want {
			t.Errorf("asks for %d, may hold %d, holds %d: %d, want %d", tt.asks, tt.may, tt.holds, got, tt.want)
		}
	}
}
