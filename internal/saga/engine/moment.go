package engine

import (
	"time"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
)

// moment returns the inputs of a decision that are not part of the saga.
func (e *Engine) moment() saga.Moment {
	return saga.Moment{
		Now:                 e.cfg.Now(),
		NewID:               e.cfg.NewID,
		Jitter:              e.cfg.Jitter(),
		CompensationTimeout: e.cfg.CompensationTimeout,
		Budget:              e.cfg.Budget,
	}
}

// finished reports that a saga has ended, durably. committed is the saga with its logs, or nil if
// they must be read.
func (e *Engine) finished(s *saga.Saga, committed *saga.Loaded) {
	e.cfg.Observer.Ended(s)
	e.cfg.Ended(s.Ref(), committed)
}

// stale reports whether a commit failed only because the row had changed.
func stale(err error) bool { return fault.IsCode(err, saga.CodeStale) }

func refs(ref saga.Ref) []saga.Ref { return []saga.Ref{ref} }

// hit triggers the failpoint for the call's direction.
func hit(a saga.Action, step, comp failpoint.Name) {
	if a == saga.Compensate {
		_ = failpoint.Hit(comp)
		return
	}
	_ = failpoint.Hit(step)
}

// farLook is the delay after which a saga at a gate checks again even though nothing has let it
// through. It is between 30 and 60 minutes, spread at random, so that a million waiting sagas cost
// almost nothing. It exceeds Config.Hold, so that the saga is released.
func farLook(chance float64) time.Duration {
	return 30*time.Minute + time.Duration(chance*float64(30*time.Minute))
}
