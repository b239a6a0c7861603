package engine

import (
	"slices"
	"sync"

	"github.com/skald-saga/skald/internal/saga"
)

// Watch returns a channel that receives once, when the saga ends on this node: the saga and
// its step logs as they were committed, in the order of saga.Store.StepLogs, or nil if the
// node has not seen all of them, so that they must be read. stop must be called.
func (e *Engine) Watch(ref saga.Ref) (ended <-chan *saga.Loaded, stop func()) {
	return e.ends.watch(ref)
}

// watchers are the callers that wait for sagas to end.
type watchers struct {
	mu sync.Mutex
	by map[saga.Ref]map[chan *saga.Loaded]bool // guarded by mu
}

func (w *watchers) watch(ref saga.Ref) (<-chan *saga.Loaded, func()) {
	ch := make(chan *saga.Loaded, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[saga.Ref]map[chan *saga.Loaded]bool{}
	}
	if w.by[ref] == nil {
		w.by[ref] = map[chan *saga.Loaded]bool{}
	}
	w.by[ref][ch] = true
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.by[ref], ch); len(w.by[ref]) == 0 {
			delete(w.by, ref)
		}
	}
}

// ended sends what has been committed to all watchers; nil: they must read it.
func (w *watchers) ended(ref saga.Ref, committed *saga.Loaded) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.by[ref] {
		ch <- committed
	}
	delete(w.by, ref)
}

// witness keeps the step logs that a drive has committed, so that whoever waits for the
// saga is told of its end without a read. A saga in flight holds the outputs of its steps
// anyway; its logs share them.
type witness struct {
	logs []saga.StepLog
	all  bool // there is no log of the saga that is not in logs
}

// saw adds what was committed.
func (w *witness) saw(c *saga.Change) {
	timed := c.StartsCompensation && c.After.CompensationTimeoutMS != nil // the store sets the deadline
	if timed || c.Letter != nil || c.Run != nil || c.Steer != nil {       // and what it has made of these
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

// lose forgets the logs: something was committed that w has not seen.
func (w *witness) lose() { *w = witness{} }

// loaded returns an ended saga with all its logs, nil if some were not seen.
func (w *witness) loaded(s *saga.Saga) *saga.Loaded {
	if !w.all {
		return nil
	}
	return &saga.Loaded{Saga: *s, Logs: saga.InOrder(w.logs)}
}
