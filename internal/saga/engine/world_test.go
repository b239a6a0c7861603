package engine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/groupcommit"
	"github.com/skald-saga/skald/internal/longpoll"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/engine"
	"github.com/skald-saga/skald/internal/saga/memstore"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/tenant"
)

// world is everything around the engines of one test: the database, the participants, the API and
// the nodes. It lives in a synctest bubble, in which time advances only while every goroutine is
// blocked, so nothing here may need a socket.
type world struct {
	t            testing.TB
	store        *memstore.Store
	participants *participants
	api          *connection // the database as seen by the API
	log          *slog.Logger
	lines        logged

	mu        sync.Mutex // held for one transaction and its bookkeeping; guards the fields below
	nodes     []*node
	ids       uint64
	owned     map[uuid.UUID]bool // as committed
	takeovers map[uuid.UUID]int
	resumes   map[uuid.UUID]int
	ends      map[uuid.UUID]saga.State // the first end, or the first after a resume
	watched   map[uuid.UUID][]<-chan any
	told      int // watchers that received an end with all its logs
}

var home = tenant.Tenant{ID: uuid.UUID{15: 7}}

// inBubble runs f in its own world, and stops its nodes afterwards.
func inBubble(t *testing.T, f func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		t.Cleanup(w.close)
		f(t, w)
	})
}

func newWorld(t testing.TB) *world {
	w := &world{
		t: t, store: memstore.New(now), owned: map[uuid.UUID]bool{}, takeovers: map[uuid.UUID]int{},
		resumes: map[uuid.UUID]int{}, ends: map[uuid.UUID]saga.State{}, watched: map[uuid.UUID][]<-chan any{},
	}
	w.log = slog.New(slog.NewTextHandler(&w.lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.participants = &participants{
		w:       w,
		ledger:  map[uuid.UUID][]*entry{},
		effects: map[effectID]*effect{},
		nth:     map[string]int{},
	}
	w.api = &connection{Sagas: w.store.Sagas, w: w}
	return w
}

// close stops every node that the test has not stopped, and prints the log of a failed
// test.
func (w *world) close() {
	for _, n := range w.nodes {
		n.stop()
	}
	if w.t.Failed() {
		w.t.Logf("what the nodes logged:\n%s", w.lines.String())
	}
}

// now is the clock of the nodes and the database.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func (w *world) newID() uuid.UUID {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[8:], w.ids)
	return id
}

// node is one process of Skald.
type node struct {
	w          *world
	name       string
	connection *connection
	engine     *engine.Engine
	ends       *longpoll.Board
	creates    *groupcommit.Committer[saga.NewSaga, saga.CreateResult]
	changes    *groupcommit.Committer[saga.Change, changed]
	cancel     context.CancelFunc
	ran        chan struct{} // closed when Run has returned err; nil if Run was never called
	err        error
}

// start runs a node and returns once it has registered. tweak may change its configuration, which
// has the engine's defaults otherwise.
func (w *world) start(name string, tweak ...func(*engine.Config)) *node {
	n := w.prepare(name, tweak...)
	n.run()
	synctest.Wait()
	return n
}

// run starts the engine of a prepared node.
func (n *node) run() {
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel, n.ran = cancel, make(chan struct{})
	go func() {
		n.err = n.engine.Run(ctx)
		close(n.ran)
	}()
}

// prepare returns a node that is not running yet.
func (w *world) prepare(name string, tweak ...func(*engine.Config)) *node {
	n := &node{w: w, name: name, connection: &connection{Sagas: w.store.Sagas, w: w}, cancel: func() {},
		ends: longpoll.New(longpoll.Config{Max: math.MaxInt})}
	n.creates = groupcommit.New(groupcommit.Config[saga.NewSaga, saga.CreateResult]{
		Flush: n.connection.Create, Key: func(s saga.NewSaga) any { return s.ID },
	})
	n.changes = groupcommit.New(groupcommit.Config[saga.Change, changed]{
		Flush: n.connection.flush, Key: func(c saga.Change) any { return c.After.ID },
	})
	cfg := engine.Config{
		Store: n.connection, Ownership: n.connection, Definition: w.definition,
		Commit: func(ctx context.Context, c *saga.Change) error {
			stored, err := n.changes.Do(ctx, *c)
			if err = errors.Join(stored.refused, err); err == nil {
				*c = stored.Change
			}
			return err
		},
		Call: func(ctx context.Context, c saga.Call) saga.Outcome { return w.participants.call(ctx, n, c) },
		// A process that was killed is known to be gone, unless a test says otherwise.
		Node:    name,
		Process: w.newID().String(),
		Gone:    func(string) bool { return true },
		Now:     now,
		Ended: func(ref saga.Ref, committed *saga.Loaded) {
			n.ends.Ended(longpoll.Key{Kind: longpoll.Saga, Tenant: ref.Tenant, ID: ref.ID}, longpoll.Committed(committed))
		},
		NewID:      w.newID,
		Checkpoint: 20 * time.Millisecond,
		Log:        w.log.With(slog.String("on", name)),
	}
	for _, f := range tweak {
		f(&cfg)
	}
	n.engine = engine.New(cfg)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes = append(w.nodes, n)
	return n
}

func (w *world) definition(
	ctx context.Context,
	home uuid.UUID,
	name string,
	version int,
) (*workflow.Definition, error) {
	r, err := w.store.Workflows.Get(ctx, home, name, version)
	return r.Definition, err
}

// stop ends a node gracefully and waits for it. A second call does nothing.
func (n *node) stop() {
	n.cancel()
	if n.ran != nil {
		<-n.ran
	}
	n.creates.Close()
	n.changes.Close()
}

// kill ends a node as kill -9 does: from then on it cannot reach the database or a participant. Its
// goroutines end without effect.
func (n *node) kill() {
	n.connection.die()
	n.cancel()
}

// submit is POST /sagas on this node. An error means that the client does not
// know whether the saga is stored.
func (n *node) submit(spec saga.Spec, d *workflow.Definition) error {
	ctx := context.Background()
	n.watch(spec.ID)
	owner, done := n.engine.Admit(ctx)
	var run *saga.Instance
	defer func() { done(run) }()
	r, err := n.creates.Do(ctx, saga.NewSaga{Saga: saga.New(spec, d, 1, owner, now(), 0)})
	switch {
	case err != nil:
		return err
	case r.Created == saga.Stored && owner != nil:
		run = new(saga.NewInstance(r.Saga, d))
	case r.Created != saga.Stored && r.Created != saga.IDTaken: // IDTaken: an earlier attempt was stored
		return fmt.Errorf("the store returned %d", r.Created)
	}
	return nil
}

// create submits a saga until a node accepts it, and returns its id.
func (n *node) create(d *workflow.Definition) uuid.UUID {
	n.w.t.Helper()
	spec := saga.Spec{ID: n.w.newID(), Tenant: home, Payload: []byte(`{"order":1.50}`)}
	n.w.register(d)
	for range 10 {
		if n.submit(spec, d) == nil {
			return spec.ID
		}
	}
	n.w.t.Fatalf("node %s does not accept a saga", n.name)
	return spec.ID
}

// createUnowned stores a saga that no node is driving yet.
func (w *world) createUnowned(d *workflow.Definition) uuid.UUID {
	w.t.Helper()
	w.register(d)
	s := saga.New(saga.Spec{ID: w.newID(), Tenant: home}, d, 1, nil, now(), 0)
	if _, err := w.api.Create(context.Background(), []saga.NewSaga{{Saga: s}}); err != nil {
		w.t.Fatal(err)
	}
	return s.ID
}

func (w *world) register(d *workflow.Definition) {
	w.t.Helper()
	if _, _, err := w.store.Workflows.Register(context.Background(), home.ID, d, false, now()); err != nil {
		w.t.Fatal(err)
	}
}

// intervene does what the API does for a cancel and similar actions: it reads, decides and commits,
// and repeats this if the saga has changed; then it wakes the nodes.
func (w *world) intervene(id uuid.UUID, e saga.Event) error {
	for {
		run := w.run(id)
		if _, passed := e.(saga.DeadlinePassed); passed {
			e = saga.DeadlinePassed{At: *run.Deadline()}
		}
		change, err := saga.Apply(run, e, saga.Moment{Now: now(), NewID: w.newID})
		if err != nil {
			return err
		}
		results, err := w.api.Commit(context.Background(), []saga.Change{change})
		if err = errors.Join(append(results, err)...); err == nil {
			w.wake(id)
			return nil
		}
		if !fault.IsCode(err, saga.CodeStale) {
			w.t.Errorf("%T of saga %s: %v", e, id, err)
			return err
		}
	}
}

// wake tells every node that a flag was set, including those that have ended.
func (w *world) wake(id uuid.UUID) {
	w.mu.Lock()
	nodes := slices.Clone(w.nodes)
	w.mu.Unlock()
	for _, n := range nodes {
		n.engine.Wake(refOf(id))
	}
}

// refOf returns the ref of a saga; all sagas of a world have one tenant.
func refOf(id uuid.UUID) saga.Ref { return saga.Ref{Tenant: home.ID, ID: id} }

// load returns a saga as committed.
func (w *world) load(id uuid.UUID) saga.Loaded {
	l, err := w.store.Sagas.Load(context.Background(), []saga.Ref{refOf(id)})
	if err != nil || len(l) != 1 {
		w.t.Fatalf("saga %s: %d found, %v", id, len(l), err)
	}
	return l[0]
}

func (w *world) run(id uuid.UUID) saga.Instance {
	l := w.load(id)
	d, err := w.definition(context.Background(), home.ID, l.Saga.WorkflowName, l.Saga.WorkflowVersion)
	if err != nil {
		w.t.Fatal(err)
	}
	return saga.Rebuild(l.Saga, d, l.Logs)
}

func (w *world) state(id uuid.UUID) saga.State { return w.load(id).Saga.State }

// until advances time until holds returns true.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	begin := time.Now()
	for time.Since(begin) < 2*time.Hour {
		synctest.Wait()
		if holds() {
			return
		}
		time.Sleep(min(10*time.Millisecond+time.Since(begin)/50, time.Second))
	}
	w.t.Fatalf("not within two hours: %s", what)
}

// untilEnded advances time until the sagas have ended.
func (w *world) untilEnded(ids ...uuid.UUID) {
	w.t.Helper()
	for _, id := range ids {
		w.until("saga "+id.String()+" ends", func() bool { return w.state(id).Terminal() })
	}
}

// steps returns a workflow with one step per letter: u has a compensation, n has none. Every call
// is tried three times, after delays of 100 ms and 200 ms.
func steps(pattern string) *workflow.Definition { return named(pattern, pattern) }

// named returns a workflow with a name, which is also the host of its participants.
func named(name, pattern string) *workflow.Definition {
	tries := func() *retry.Policy {
		return &retry.Policy{MaxAttempts: 3, InitialIntervalMS: 100, MaxIntervalMS: 1000, Multiplier: 2, Jitter: new(0.0)}
	}
	d := &workflow.Definition{Name: name, Retry: tries(), CompensationRetry: tries()}
	for i, c := range pattern {
		s := workflow.Step{Name: fmt.Sprintf("s%d", i)}
		s.Action.HTTP = &workflow.HTTPCall{Method: "POST", URL: fmt.Sprintf("http://%s/do/%d", name, i)}
		if c == 'u' {
			s.Compensation.HTTP = &workflow.HTTPCall{Method: "POST", URL: fmt.Sprintf("http://%s/undo/%d", name, i)}
		}
		d.Steps = append(d.Steps, s)
	}
	return d
}

// ahead returns a workflow like that of named, in which no step waits for its commit.
func ahead(name, pattern string) *workflow.Definition {
	d := named(name, pattern)
	for i := range d.Steps {
		d.Steps[i].Checkpoint = new(false)
	}
	return d
}

// logged collects the log output of the nodes.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// observer counts the notifications of a node.
func observer(calls, ended, claimed, loops *atomic.Int64) func(*engine.Config) {
	return func(c *engine.Config) {
		c.Observer = engine.Observer{
			CallDone: func(saga.Action, *saga.Outcome) { calls.Add(1) },
			Ended:    func(*saga.Saga) { ended.Add(1) },
			Claimed:  func(n int) { claimed.Add(int64(n)) },
			Loop:     func(string) { loops.Add(1) },
		}
	}
}
