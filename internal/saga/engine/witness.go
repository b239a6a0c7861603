package engine

import (
	"slices"

	"github.com/skald-saga/skald/internal/saga"
)

// witness keeps the step logs that a drive has committed, so that a client waiting for the saga can
// be answered without a read. This costs little memory: a saga in flight keeps the outputs of its
// steps anyway, and the logs share them.
type witness struct {
	logs []saga.StepLog
	all  bool // logs contains all logs of the saga
}

// mostRead is the maximum number of logs that are kept when a saga is read. A saga with more has
// been retried so often that its client has already waited long, and another read is cheaper than
// the memory.
const mostRead = 100

// witnessOf returns the witness of a saga that was just read with all of its logs.
func witnessOf(l *saga.Loaded) witness {
	unreadable := slices.ContainsFunc(l.Logs, func(l saga.StepLog) bool { return l.ContentUnreadable })
	if len(l.Logs) > mostRead || unreadable || l.Saga.ContentUnreadable {
		return witness{}
	}
	return witness{logs: l.Logs, all: true}
}

// saw adds the logs of a committed change.
func (w *witness) saw(c *saga.Change) {
	if c.Letter != nil || c.Run != nil || c.Steer != nil { // only the store knows the stored form
		w.lose()
	}
	if !w.all {
		return
	}
	for _, l := range c.Logs {
		i := slices.IndexFunc(w.logs, func(kept saga.StepLog) bool {
			return l.Completes && kept.StepIndex == l.StepIndex && kept.Action == l.Action && kept.Attempt == l.Attempt
		})
		if i < 0 {
			w.logs = append(w.logs, l)
			continue
		}
		l.ID, l.StartedAt = w.logs[i].ID, w.logs[i].StartedAt // as the store keeps them
		w.logs[i] = l
	}
}

// lose drops the logs, because something was committed that w has not seen.
func (w *witness) lose() { *w = witness{} }

// loaded returns an ended saga with all of its logs, or nil if some were not seen.
func (w *witness) loaded(s *saga.Saga) *saga.Loaded {
	if !w.all {
		return nil
	}
	return &saga.Loaded{Saga: *s, Logs: saga.InOrder(w.logs)}
}
