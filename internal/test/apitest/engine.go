package apitest

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/longpoll"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/engine"
	"github.com/skald-saga/skald/internal/saga/memstore"
	gates "github.com/skald-saga/skald/internal/saga/participantgate"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/test/patience"
)

// node is the engine as an edge sees it. It checks the edge's duty to the engine: each slot that
// Admit grants is either used or returned, exactly once.
type node struct {
	*engine.Engine
	t     *testing.T
	store *memstore.Store
	// Script answers calls; nil: every call succeeds. Set it before creating the sagas that it
	// applies to.
	Script func(saga.Call) saga.Outcome
	// Full: Admit finds no free slot, and the engine doesn't learn of the saga. Set it before
	// creating the first one.
	Full bool
	// Silent: the end of a saga isn't announced. Set it before the first waiting request.
	Silent bool
	// Ends is the board of requests that wait for a saga to end.
	Ends *longpoll.Board

	mu      sync.Mutex
	rooms   int           // guarded by mu: slots granted and neither used nor returned yet
	changed chan struct{} // capacity 1: a call was answered, or a saga has ended
}

// startNode runs an engine on a store until the test ends. The engine starts no work of its own:
// its lease is long, and it looks for work only when it is woken.
func startNode(t *testing.T, store *memstore.Store, now func() time.Time,
	commit func(context.Context, *saga.Change) error) *node {
	t.Helper()
	n := &node{t: t, store: store, Ends: longpoll.New(longpoll.Config{}), changed: make(chan struct{}, 1)}
	looked, log := make(chan struct{}, 1), &syncBuffer{}
	known := gates.NewKnown(store.Participants)
	n.Engine = engine.New(engine.Config{
		Store: store.Sagas, Ownership: store.Sagas, Commit: commit,
		Definition: func(ctx context.Context, tenant uuid.UUID, name string, version int) (*workflow.Definition, error) {
			r, err := store.Workflows.Get(ctx, tenant, name, version)
			return r.Definition, err
		},
		Call: func(_ context.Context, c saga.Call) saga.Outcome { return n.call(c, now) },
		Address: func(ctx context.Context, c *saga.Call) (bool, error) {
			if err := known.Refresh(ctx); err != nil { // this edge has no gate loop that would refresh it
				return false, err
			}
			return known.Address(ctx, c)
		},
		Ended: func(ref saga.Ref, committed *saga.Loaded) {
			if !n.Silent {
				n.Ends.Ended(longpoll.Key{Kind: longpoll.Saga, Tenant: ref.Tenant, ID: ref.ID}, longpoll.Committed(committed))
			}
		},
		Node: "edge", Now: now, NewID: uuid.New,
		Log:      slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError})),
		LeaseTTL: time.Hour, Poll: time.Hour, SlowAfter: time.Hour,
		Observer: engine.Observer{
			Claimed:  func(int) { tell(looked) },
			CallDone: func(saga.Action, *saga.Outcome) { tell(n.changed) },
			Ended:    func(*saga.Saga) { tell(n.changed) },
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ran; err != nil || log.String() != "" {
			t.Errorf("the engine ended with %v and logged %q", err, log.String())
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.rooms != 0 {
			t.Errorf("%d slots of the engine were neither used nor returned", n.rooms)
		}
	})
	select {
	case <-looked: // its first look at the store is over; until then it would claim the sagas that a full node stores
	case err := <-ran:
		t.Fatalf("the engine did not start: %v", err)
	}
	return n
}

// tell sends on c unless it is full.
func tell(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (n *node) Admit(ctx context.Context) (*int64, func(*saga.Instance)) {
	n.mu.Lock()
	n.rooms++
	n.mu.Unlock()
	owner, use := (*int64)(nil), func(*saga.Instance) {}
	if !n.Full {
		owner, use = n.Engine.Admit(ctx)
	}
	var once sync.Once
	return owner, func(run *saga.Instance) {
		called := false
		once.Do(func() { called = true })
		if !called {
			n.t.Error("done was called twice")
		}
		n.mu.Lock()
		n.rooms--
		n.mu.Unlock()
		use(run)
	}
}

// Rest returns once no saga is being driven.
func (n *node) Rest() {
	n.t.Helper()
	patience.Until(n.t, "no saga is driven", func() bool {
		running, waiting := n.Load()
		return running+waiting == 0
	})
}

// Instance reads one saga of the default tenant.
func (n *node) Instance(id uuid.UUID) saga.Instance {
	n.t.Helper()
	loaded, err := n.store.Sagas.Load(n.t.Context(), []saga.Ref{{Tenant: Tenant.ID, ID: id}})
	if err != nil || len(loaded) != 1 {
		n.t.Fatalf("load %s: %d sagas, %v", id, len(loaded), err)
	}
	s := loaded[0].Saga
	w, err := n.store.Workflows.Get(n.t.Context(), s.Tenant.ID, s.WorkflowName, s.WorkflowVersion)
	if err != nil {
		n.t.Fatal(err)
	}
	return saga.Rebuild(s, w.Definition, loaded[0].Logs)
}

func (n *node) call(c saga.Call, now func() time.Time) saga.Outcome {
	began := now()
	o := Done(`{"ok":true}`)
	if n.Script != nil {
		o = n.Script(c)
	}
	o.Request, o.StartedAt, o.EndedAt = c.Body, began, now()
	return o
}

// Done is the outcome of a successful call.
func Done(output string) saga.Outcome {
	return saga.Outcome{Verdict: saga.Done, Code: "http_200", Output: json.RawMessage(output)}
}

// Refused is the outcome of a refused call.
func Refused() saga.Outcome {
	return saga.Outcome{Verdict: saga.Refused, Class: retry.Refused, Code: "http_409", Message: "the participant refused"}
}

// Refuse makes a script that refuses one step's calls of one action.
func Refuse(step string, action saga.Action) func(saga.Call) saga.Outcome {
	return func(c saga.Call) saga.Outcome {
		if c.Step == step && c.Action == action {
			return Refused()
		}
		return Done(`{"ok":true}`)
	}
}

// gate is a script that holds every call until it is opened.
type gate struct {
	Reached chan struct{} // one message per call that waits
	Open    chan struct{}
	then    func(saga.Call) saga.Outcome
}

func NewGate(then func(saga.Call) saga.Outcome) *gate {
	return &gate{Reached: make(chan struct{}, 100), Open: make(chan struct{}), then: then}
}

func (g *gate) Script(c saga.Call) saga.Outcome {
	g.Reached <- struct{}{}
	<-g.Open
	if g.then == nil {
		return Done(`{"ok":true}`)
	}
	return g.then(c)
}
