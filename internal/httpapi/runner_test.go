package httpapi_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/memstore"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
)

// runner is httpapi.Engine for tests: it drives each saga in a goroutine of
// its own, asks script instead of participants, and waits for nothing.
type runner struct {
	t     *testing.T
	store *memstore.Store
	now   func() time.Time
	// script answers calls; nil: every call is done. Set before the first saga.
	script func(saga.Call) saga.Outcome
	// full makes Admit find no room. Set before the first saga.
	full bool
	// deaf makes Watch never tell. Set before the first waiting request.
	deaf bool
	// mayFail: an outcome may come too late for its saga.
	mayFail atomic.Bool

	mu       sync.Mutex
	admitted int               // rooms taken and not given back or used
	driving  map[saga.Ref]bool // true: it was woken meanwhile
	watchers map[saga.Ref]chan struct{}
	work     sync.WaitGroup
}

func newRunner(t *testing.T, store *memstore.Store, now func() time.Time) *runner {
	r := &runner{t: t, store: store, now: now, driving: map[saga.Ref]bool{}, watchers: map[saga.Ref]chan struct{}{}}
	t.Cleanup(func() {
		r.work.Wait()
		if r.admitted != 0 {
			t.Errorf("%d rooms of the engine were neither used nor given back", r.admitted)
		}
	})
	return r
}

func (r *runner) Admit(context.Context) (*int64, func(*saga.Instance)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.admitted++
	var once sync.Once
	done := func(run *saga.Instance) {
		called := false
		once.Do(func() { called = true })
		if !called {
			r.t.Error("done was called twice")
		}
		r.mu.Lock()
		r.admitted--
		r.mu.Unlock()
		if run != nil {
			r.drive(*run)
		}
	}
	if r.full {
		return nil, done
	}
	owner := int64(1)
	return &owner, done
}

func (r *runner) Wake(ref saga.Ref) {
	if run, ok := r.load(ref); ok && !run.State.Terminal() {
		r.drive(run)
	}
}

func (r *runner) Watch(ref saga.Ref) (<-chan struct{}, func()) {
	if r.deaf {
		return nil, func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watchers[ref] == nil {
		r.watchers[ref] = make(chan struct{})
	}
	return r.watchers[ref], func() {}
}

// drive runs a saga to its end. Whoever does already looks at it once more: it may
// have ended, and been retried, before that one has noticed.
func (r *runner) drive(run saga.Instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, is := r.driving[run.Ref()]; is {
		r.driving[run.Ref()] = true
		return
	}
	r.driving[run.Ref()] = false
	r.work.Go(func() {
		r.run(run)
		for r.again(run.Ref()) {
			if now, ok := r.load(run.Ref()); ok {
				r.run(now)
			}
		}
	})
}

// again tells whether a saga was woken while it was driven; else its watchers hear
// that it rests.
func (r *runner) again(ref saga.Ref) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.driving[ref] {
		r.driving[ref] = false
		return true
	}
	delete(r.driving, ref)
	if ended := r.watchers[ref]; ended != nil {
		close(ended)
		delete(r.watchers, ref)
	}
	return false
}

func (r *runner) run(run saga.Instance) {
	for run.Next(r.now()) != saga.Rest {
		var e saga.Event = saga.Turned{}
		if run.SuspendedAt != nil && run.Next(r.now()) == saga.Wait {
			break
		}
		if run.Next(r.now()) != saga.Turn {
			if run.Attempt == 0 {
				run.Attempt = 1 // as a claim does
			}
			e = saga.Answered{Outcome: r.call(&run)}
		}
		if !r.decide(&run, e) {
			break
		}
	}
}

// decide applies an event and commits it, as often as a flag is set meanwhile.
func (r *runner) decide(run *saga.Instance, e saga.Event) bool {
	for {
		change, err := saga.Apply(*run, e, saga.Moment{Now: r.now(), NewID: uuid.New, CompensationTimeout: time.Hour})
		if err != nil {
			if !r.mayFail.Load() {
				r.t.Errorf("apply %T: %v", e, err)
			}
			return false
		}
		results, err := r.store.Sagas.Commit(context.Background(), []saga.Change{change})
		switch {
		case err != nil:
			r.t.Errorf("commit: %v", err)
			return false
		case results[0] == nil:
			*run = change.After
			return true
		case !fault.IsCode(results[0], saga.CodeStale):
			r.t.Errorf("commit: %v", results[0])
			return false
		}
		*run, _ = r.load(run.Ref())
	}
}

func (r *runner) load(ref saga.Ref) (saga.Instance, bool) {
	loaded, err := r.store.Sagas.Load(context.Background(), []saga.Ref{ref})
	if err != nil || len(loaded) == 0 {
		return saga.Instance{}, false
	}
	s := loaded[0].Saga
	w, err := r.store.Workflows.Get(context.Background(), s.Tenant.ID, s.WorkflowName, s.WorkflowVersion)
	if err != nil {
		r.t.Errorf("definition of %s: %v", ref.ID, err)
		return saga.Instance{}, false
	}
	return saga.Rebuild(s, w.Definition, loaded[0].Logs), true
}

func (r *runner) call(run *saga.Instance) saga.Outcome {
	c := run.Call(saga.Defaults{StepTimeout: time.Second})
	began := r.now()
	o := done(`{"ok":true}`)
	if r.script != nil {
		o = r.script(c)
	}
	o.Request, o.StartedAt, o.EndedAt = c.Body, began, r.now()
	return o
}

func done(output string) saga.Outcome {
	return saga.Outcome{Verdict: saga.Done, Code: "http_200", Output: json.RawMessage(output)}
}

func refused() saga.Outcome {
	return saga.Outcome{Verdict: saga.Refused, Class: retry.Refused, Code: "http_409", Message: "the participant refused"}
}

// refuse makes a script that refuses one step's calls of one action.
func refuse(step string, action saga.Action) func(saga.Call) saga.Outcome {
	return func(c saga.Call) saga.Outcome {
		if c.Step == step && c.Action == action {
			return refused()
		}
		return done(`{"ok":true}`)
	}
}

// gate is a script that holds every call until it is opened.
type gate struct {
	reached chan struct{} // one message per call that waits
	open    chan struct{}
	then    func(saga.Call) saga.Outcome
}

func newGate(then func(saga.Call) saga.Outcome) *gate {
	return &gate{reached: make(chan struct{}, 100), open: make(chan struct{}), then: then}
}

func (g *gate) script(c saga.Call) saga.Outcome {
	g.reached <- struct{}{}
	<-g.open
	if g.then == nil {
		return done(`{"ok":true}`)
	}
	return g.then(c)
}
