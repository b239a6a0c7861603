package storetest

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/strictjson"
	"github.com/skald-saga/skald/internal/tenant"
)

// fixture is a tenant with one workflow and one node for a single test.
type fixture struct {
	Env
	t      *testing.T
	tenant tenant.Tenant
	def    *workflow.Definition
	owner  int64 // a node with a one-hour lease

	mu   sync.Mutex
	last time.Time // guarded by mu: the last time handed out
}

// orderWorkflow has a step without a compensation between two steps with one.
const orderWorkflow = `{
	"name": "order", "timeout_ms": 60000, "compensation_timeout_ms": 30000,
	"retry": {"max_attempts": 2, "initial_interval_ms": 1000, "jitter": 0},
	"compensation_retry": {"max_attempts": 2, "initial_interval_ms": 1000, "jitter": 0},
	"steps": [
		{"name": "reserve", "action": {"http": {"url": "http://stock/reserve"}}, "compensation": {"http": {"url": "http://stock/release"}}},
		{"name": "label", "action": {"http": {"url": "http://post/label"}}, "compensation": "none"},
		{"name": "charge", "action": {"http": {"url": "http://bank/charge"}}, "compensation": {"http": {"participant": "bank", "path": "/refund"}}}
	]}`

func begin(t *testing.T, env Env) *fixture {
	t.Helper()
	f := &fixture{Env: env, t: t, tenant: tenant.Tenant{ID: newID(), Region: "eu", Major: 3, Minor: 65535}}
	f.def = f.definition(orderWorkflow)
	if r, created, err := env.Workflows.Register(t.Context(), f.tenant.ID, f.def, false, f.now()); err != nil ||
		!created ||
		r.Version != 1 {
		t.Fatalf("register: version %d, created %v, %v", r.Version, created, err)
	}
	f.owner = f.register("node of "+t.Name(), time.Hour)
	return f
}

// in returns the fixture for a subtest.
func (f *fixture) in(t *testing.T) *fixture {
	return &fixture{Env: f.Env, t: t, tenant: f.tenant, def: f.def, owner: f.owner, last: f.now()}
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// now returns the current time to the microsecond, a different time at each call: with a real
// clock, a change doesn't have the same time as the previous one either.
func (f *fixture) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.Now().UTC().Truncate(time.Microsecond)
	if !now.After(f.last) {
		now = f.last.Add(time.Microsecond)
	}
	f.last = now
	return now
}

func (f *fixture) moment() saga.Moment {
	return saga.Moment{Now: f.now(), NewID: newID, Jitter: 0.5}
}

func (f *fixture) definition(src string) *workflow.Definition {
	f.t.Helper()
	def, err := workflow.ParseJSON([]byte(src), workflow.Limits{})
	if err != nil {
		f.t.Fatal(err)
	}
	return def
}

func (f *fixture) register(node string, ttl time.Duration) int64 {
	f.t.Helper()
	owner, err := f.Ownership.Register(f.t.Context(), node, "process of "+node, ttl)
	if err != nil {
		f.t.Fatalf("register %q: %v", node, err)
	}
	return owner
}

// unowned returns a new saga that any node can claim immediately.
func (f *fixture) unowned(change ...func(*saga.NewSaga)) saga.NewSaga { return f.newSaga(nil, change) }

// owned returns a new saga that owner drives.
func (f *fixture) owned(owner int64, change ...func(*saga.NewSaga)) saga.NewSaga {
	return f.newSaga(&owner, change)
}

func (f *fixture) newSaga(owner *int64, change []func(*saga.NewSaga)) saga.NewSaga {
	spec := saga.Spec{ID: newID(), Tenant: f.tenant, InitiatedBy: "checkout", Payload: json.RawMessage(`{"order":1.50}`)}
	n := saga.NewSaga{Saga: saga.New(spec, f.def, 1, owner, f.now(), 0)}
	for _, c := range change {
		c(&n)
	}
	return n
}

// key returns an idempotency key of the fixture's tenant.
func (f *fixture) key(key, hash string) *idempotency.Key {
	return &idempotency.Key{
		TenantID:  f.tenant.ID,
		Principal: "alice",
		Route:     "POST /sagas",
		Key:       key,
		Hash:      []byte(hash),
	}
}

// withKey gives n the key, which then leads to n.
func withKey(n saga.NewSaga, k *idempotency.Key) saga.NewSaga {
	own := *k
	n.Key = &own
	return n
}

// create stores batch and returns the result of each.
func (f *fixture) create(batch ...saga.NewSaga) []saga.CreateResult {
	f.t.Helper()
	results, err := f.Sagas.Create(f.t.Context(), batch)
	if err != nil {
		f.t.Fatalf("create: %v", err)
	}
	if len(results) != len(batch) {
		f.t.Fatalf("%d results for %d sagas", len(results), len(batch))
	}
	return results
}

// stored stores sagas, none of which may be refused, and returns their instances.
func (f *fixture) stored(batch ...saga.NewSaga) []saga.Instance {
	f.t.Helper()
	runs := make([]saga.Instance, len(batch))
	for i, r := range f.create(batch...) {
		if r.Created != saga.Stored {
			f.t.Fatalf("saga %d: result %d, want stored", i, r.Created)
		}
		runs[i] = saga.NewInstance(r.Saga, f.def)
	}
	return runs
}

// apply applies an event according to the rules, which must allow it.
func (f *fixture) apply(run saga.Instance, e saga.Event) saga.Change {
	f.t.Helper()
	run, e = f.seen(run, e)
	c, err := saga.Apply(run, e, f.moment())
	if err != nil {
		f.t.Fatalf("%#v on %+v: %v", e, run.Saga, err)
	}
	return c
}

// seen returns run and e as they are when such an event really happens. The reaper notices that a
// deadline has passed and loads the saga first: run then has the deadlines that the store has set,
// and the event carries the current one.
func (f *fixture) seen(run saga.Instance, e saga.Event) (saga.Instance, saga.Event) {
	if _, passed := e.(saga.DeadlinePassed); !passed {
		return run, e
	}
	stored := f.load(run.ID).Saga
	run.TimeoutAt, run.CompensationTimeoutAt = stored.TimeoutAt, stored.CompensationTimeoutAt
	return run, saga.DeadlinePassed{At: *run.Deadline()}
}

// commit writes batch and returns the error of each.
func (f *fixture) commit(batch ...saga.Change) []error {
	f.t.Helper()
	errs, err := f.Sagas.Commit(f.t.Context(), batch)
	if err != nil {
		f.t.Fatalf("commit: %v", err)
	}
	if len(errs) != len(batch) {
		f.t.Fatalf("%d results for %d changes", len(errs), len(batch))
	}
	return errs
}

// moved commits a change, which must not be refused, and returns the saga as stored.
func (f *fixture) moved(c saga.Change) saga.Instance {
	f.t.Helper()
	named := c.After.DeadLetter()
	if err := f.commit(c)[0]; err != nil {
		f.t.Fatalf("commit: %v", err)
	}
	if now := c.After.DeadLetter(); now != named {
		f.t.Errorf("the store has modified the caller's change: its letter was %s and is now %s", named, now)
	}
	if c.Letter != nil && f.OpenLetters == nil {
		c = c.WithoutLetter()
	}
	return c.After
}

// play applies and commits events one after another.
func (f *fixture) play(run saga.Instance, events ...saga.Event) saga.Instance {
	f.t.Helper()
	for _, e := range events {
		run = f.moved(f.apply(run, e))
	}
	return run
}

// into stores a saga and drives it into a state by the shortest path.
func (f *fixture) into(state saga.State, change ...func(*saga.NewSaga)) saga.Instance {
	f.t.Helper()
	if state == saga.Pending || state == saga.Cancelled || state == saga.TimedOut {
		run := f.stored(f.unowned(change...))[0]
		switch state {
		case saga.Cancelled:
			run = f.play(run, saga.CancelRequested{By: "bob"})
		case saga.TimedOut:
			run = f.play(run, saga.DeadlinePassed{})
		}
		return run
	}
	run := f.play(f.stored(f.owned(f.owner, change...))[0], f.done(`{"n":1}`))
	switch state {
	case saga.StepCompleted:
		run = f.moved(f.apply(run, f.done(`{"n":2}`)).Released(f.now()))
	case saga.Completed:
		run = f.play(run, f.done(`{"n":2}`), f.done(`{"n":3}`))
	case saga.Compensating:
		run = f.play(run, f.refused(`{"why":"no"}`))
	case saga.Compensated:
		run = f.play(run, f.refused(`{"why":"no"}`), f.done(``))
	case saga.Failed:
		run = f.play(run, f.refused(`{"why":"no"}`), f.refused(`{"why":"still no"}`))
	}
	if run.State != state {
		f.t.Fatalf("the saga is %s, want %s", run.State, state)
	}
	return run
}

// refs returns references to sagas of the fixture's tenant.
func (f *fixture) refs(ids ...uuid.UUID) []saga.Ref {
	refs := make([]saga.Ref, len(ids))
	for i, id := range ids {
		refs[i] = saga.Ref{Tenant: f.tenant.ID, ID: id}
	}
	return refs
}

// load reads one saga, which must exist.
func (f *fixture) load(id uuid.UUID) saga.Loaded {
	f.t.Helper()
	loaded, err := f.Sagas.Load(f.t.Context(), f.refs(id))
	if err != nil || len(loaded) != 1 {
		f.t.Fatalf("load: %d sagas, %v", len(loaded), err)
	}
	return loaded[0]
}

// check compares the store's row and logs with a committed run.
func (f *fixture) check(want saga.Instance) {
	f.t.Helper()
	l := f.load(want.ID)
	got := saga.Rebuild(l.Saga, f.def, l.Logs)
	// The store sets these columns from its own clock.
	want.TimeoutAt, want.CompensationTimeoutAt = got.TimeoutAt, got.CompensationTimeoutAt
	if (want.SuspendedAt == nil) == (got.SuspendedAt == nil) {
		want.SuspendedAt = got.SuspendedAt
	}
	if diff := cmp.Diff(want, got, sameJSON, cmp.AllowUnexported(saga.Instance{})); diff != "" {
		f.t.Errorf("rebuilt from the store (-committed +rebuilt):\n%s", diff)
	}
}

// unchanged calls do and checks that it changes neither the saga nor its logs.
func (f *fixture) unchanged(id uuid.UUID, do func()) {
	f.t.Helper()
	before, told := f.load(id), f.history(id, trail.EventFilter{}, false, 100)
	do()
	if diff := cmp.Diff(before, f.load(id)); diff != "" {
		f.t.Errorf("the saga has changed (-before +after):\n%s", diff)
	}
	if n := len(f.history(id, trail.EventFilter{}, false, 100)); n != len(told) {
		f.t.Errorf("%d events report a change that was not written", n-len(told))
	}
}

// sameJSON compares values, not their formatting; JSON null equals an absent value.
var sameJSON = cmp.Comparer(func(a, b json.RawMessage) bool { return canonical(a) == canonical(b) })

func canonical(j json.RawMessage) string {
	if j == nil {
		return "null"
	}
	out, err := strictjson.Canonical(nil, j, strictjson.Limits{MaxDepth: 1000})
	if err != nil {
		panic(fmt.Sprintf("a test's JSON %q: %v", j, err))
	}
	return string(out)
}

func raw(j string) json.RawMessage {
	if j == "" {
		return nil
	}
	return json.RawMessage(j)
}

func (f *fixture) outcome(v saga.Verdict, class retry.Class, code string) saga.Outcome {
	return saga.Outcome{
		Verdict: v, Class: class, Code: code, Request: []byte(`{"step":"x","action":"y"}`),
		StartedAt: f.now(), EndedAt: f.now(),
	}
}

func (f *fixture) done(output string) saga.Event {
	o := f.outcome(saga.Done, "", "http_200")
	o.Output = raw(output)
	return saga.Answered{Outcome: o}
}

func (f *fixture) refused(response string) saga.Event {
	o := f.outcome(saga.Refused, retry.Refused, "http_409")
	o.Message, o.Response = "it said no", raw(response)
	return saga.Answered{Outcome: o}
}

// unanswered is the event of a call with an unknown outcome.
func (f *fixture) unanswered() saga.Event {
	o := f.outcome(saga.Unknown, retry.Timeout, "timeout")
	o.Message = "no response in time"
	return saga.Answered{Outcome: o}
}

// wantFault checks an error's kind and code.
func (f *fixture) wantFault(err error, kind fault.Kind, code string) {
	f.t.Helper()
	if fault.KindOf(err) != kind || !fault.IsCode(err, code) {
		f.t.Errorf("error = %v; want kind %d, code %s", err, kind, code)
	}
}

// together calls f n times concurrently and returns when all calls have returned.
func together(n int, f func(i int)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}
