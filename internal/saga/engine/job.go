package engine

import (
	"log/slog"

	"github.com/skald-saga/skald/internal/saga"
)

// checkJobRun checks the job run in flight. It returns false if the state of the run cannot be
// determined; the saga is then released and checked again soon.
func (d *drive) checkJobRun() (saga.Event, bool) {
	s := d.s
	call := d.run.JobCall(s.e.cfg.Now())
	if s.e.cfg.CheckJobRun == nil {
		s.e.cfg.Log.Error(
			"a saga is waiting for a job run, but this server has no job runs",
			slog.String("saga_id", d.run.ID.String()),
		)
		return saga.JobRunChecked{}, true
	}
	o, err := s.e.cfg.CheckJobRun(s.calls, call)
	switch {
	case err != nil:
		if s.calls.Err() == nil {
			s.e.cfg.Log.Warn("cannot check a job run; retrying later",
				slog.String("saga_id", d.run.ID.String()), slog.Any("error", err))
			s.e.sleep(s.calls, s.e.cfg.Poll)
			s.handOver(refs(d.run.Ref()))
		}
		return nil, false
	case o != nil:
		return saga.Answered{Outcome: *o}, true
	}
	return saga.JobRunChecked{Stopping: call.Stop}, true
}
