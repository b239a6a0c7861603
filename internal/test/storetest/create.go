package storetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/tenant"
)

var creates = []contract{
	{"a stored saga reads back as it was given, field by field", createReadsBack},
	{"the deadline is counted on the store's clock", createSetsTimeout},
	{"a key used for the same request is a replay of the first saga", createReplays},
	{"a replay is answered even when the workflow has been disabled since", createReplaysDisabled},
	{"a key used for another request is refused", createKeyReused},
	{"the same key from another tenant, principal or route is a different key", createKeyScope},
	{"an id that the tenant already uses is refused", createIDTaken},
	{"a saga of an unknown, foreign or disabled workflow is refused", createNotRunnable},
	{"a floating saga must be of the latest version, a pinned one need not", createNotCurrent},
	{"content that the database refuses is unstorable", createUnstorable},
	{"a refused saga does not affect the others in its batch", createBatch},
	{"two sagas with one key in one batch become one saga", createTwinsInBatch},
	{"of twenty concurrent creates with one key, one is stored and the others are replays", createKeyRace},
	{"of twenty concurrent creates with one id, one is stored", createIDRace},
	{"of eight batches with the same ids in different orders, one stores each saga", createBatchRace},
	{"a batch of three hundred sagas is stored completely", createManyAtOnce},
	{"an empty batch does nothing", createNothing},
	{"the saga of an idempotency key can be looked up", keyStates},
}

// everything sets every field that a client can set to a distinct value.
func everything(n *saga.NewSaga) {
	n.SagaType, n.Name, n.Description = "type ☃", new("name ñ"), new("description\nof two lines")
	n.BusinessKey, n.CorrelationID = new("order-№7 "+n.ID.String()), new("correlation 𝄞")
	n.InitiatedBy, n.TraceID, n.SpanID = "caller ж", new("4bf92f3577b34da6a3ce929d0e0e4736"), new("00f067aa0ba902b7")
	n.TraceState, n.Baggage = new("congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"), new("userId=Am%C3%A9lie;ttl=3")
	n.Payload, n.Metadata = json.RawMessage(`{"items":[{"sku":"a"},null],"amount":12.50}`), json.RawMessage(`{"tags":["x","y"],"team":"stock"}`)
	n.TimeoutMS, n.CompensationTimeoutMS = new(int64(12345)), new(int64(23456))
}

func createReadsBack(f *fixture) {
	for name, n := range map[string]saga.NewSaga{
		"owned": f.owned(f.owner, everything), "unowned": f.unowned(everything),
		"bare": f.unowned(func(s *saga.NewSaga) { s.Payload = nil }),
	} {
		r := f.create(n)[0]
		if r.Created != saga.Stored {
			f.t.Fatalf("%s: result %d, want stored", name, r.Created)
		}
		got, err := f.Sagas.Get(f.t.Context(), f.tenant.ID, n.ID)
		if err != nil {
			f.t.Fatal(err)
		}
		want := n.Saga
		want.TimeoutAt = got.TimeoutAt
		if diff := cmp.Diff(want, got); diff != "" {
			f.t.Errorf("%s (-given +read):\n%s", name, diff)
		}
		if diff := cmp.Diff(got, r.Saga); diff != "" {
			f.t.Errorf("%s (-read +the result of Create):\n%s", name, diff)
		}
	}
}

func createSetsTimeout(f *fixture) {
	untimed := f.unowned()
	untimed.TimeoutMS = nil
	stale := f.unowned() // created long before it is stored: the caller's clock must not count
	stale.CreatedAt = stale.CreatedAt.Add(-time.Hour)
	from := f.Now()
	results := f.create(untimed, stale)
	if at := results[0].Saga.TimeoutAt; at != nil {
		f.t.Errorf("a saga without a timeout has the deadline %v", at)
	}
	near(f, "deadline", results[1].Saga.TimeoutAt, from.Add(time.Minute))
}

// near checks a time that the store took from its own clock.
func near(f *fixture, what string, got *time.Time, want time.Time) {
	f.t.Helper()
	if got == nil || got.Before(want.Add(-2*time.Second)) || got.After(want.Add(30*time.Second)) {
		f.t.Errorf("%s = %v, want about %v", what, got, want)
	}
}

func createReplays(f *fixture) {
	key := f.key("k", "hash")
	first := withKey(f.unowned(), key)
	if r := f.create(first)[0]; r.Created != saga.Stored {
		f.t.Fatalf("result %d, want stored", r.Created)
	}
	again := withKey(f.unowned(), key)
	same := first // a client that chooses the saga's id repeats the id as well
	for _, n := range []saga.NewSaga{again, same} {
		if r := f.create(n)[0]; r.Created != saga.Replayed || r.Prior != first.ID {
			f.t.Errorf("result %d of saga %s, want a replay of %s", r.Created, r.Prior, first.ID)
		}
	}
	f.absent(again.ID)
}

// absent checks that nothing of a saga was stored.
func (f *fixture) absent(ids ...uuid.UUID) {
	f.t.Helper()
	if loaded, err := f.Sagas.Load(f.t.Context(), f.refs(ids...)); err != nil || len(loaded) > 0 {
		f.t.Errorf("load: %d sagas, %v; want none", len(loaded), err)
	}
}

func createReplaysDisabled(f *fixture) {
	key := f.key("k", "hash")
	first := withKey(f.unowned(), key)
	f.create(first)
	if _, err := f.Workflows.SetEnabled(f.t.Context(), f.tenant.ID, f.def.Name, false, 0, f.now()); err != nil {
		f.t.Fatal(err)
	}
	if r := f.create(withKey(f.unowned(), key))[0]; r.Created != saga.Replayed || r.Prior != first.ID {
		f.t.Errorf("result %d of saga %s, want a replay of %s", r.Created, r.Prior, first.ID)
	}
}

func createKeyReused(f *fixture) {
	f.create(withKey(f.unowned(), f.key("k", "hash")))
	other := withKey(f.unowned(), f.key("k", "another hash"))
	if r := f.create(other)[0]; r.Created != saga.KeyReused {
		f.t.Errorf("result %d, want key reused", r.Created)
	}
	f.absent(other.ID)
}

func createKeyScope(f *fixture) {
	f.create(withKey(f.unowned(), f.key("k", "hash")))
	neighbour := begin(f.t, f.Env)
	for what, n := range map[string]saga.NewSaga{
		"another key": withKey(f.unowned(), f.key("K", "hash")),
		"another principal": withKey(f.unowned(), &idempotency.Key{TenantID: f.tenant.ID, Principal: "bob",
			Route: "POST /sagas", Key: "k", Hash: []byte("hash")}),
		"another route": withKey(f.unowned(), &idempotency.Key{TenantID: f.tenant.ID, Principal: "alice",
			Route: "POST /x", Key: "k", Hash: []byte("hash")}),
		"another tenant": withKey(neighbour.unowned(), neighbour.key("k", "hash")),
	} {
		if r := f.create(n)[0]; r.Created != saga.Stored {
			f.t.Errorf("%s: result %d, want stored", what, r.Created)
		}
	}
}

func createIDTaken(f *fixture) {
	first := f.stored(f.unowned())[0]
	again := f.unowned(func(s *saga.NewSaga) { s.ID = first.ID })
	key := f.key("k", "hash")
	f.unchanged(first.ID, func() {
		if r := f.create(withKey(again, key))[0]; r.Created != saga.IDTaken {
			f.t.Errorf("result %d, want id taken", r.Created)
		}
	})
	if state, _, err := f.Sagas.Key(f.t.Context(), *key); state != saga.KeyNew || err != nil {
		f.t.Errorf("the refused saga's key is %d, %v; want new", state, err)
	}
}

func createNotRunnable(f *fixture) {
	unknown, foreign, disabled := f.unowned(), f.unowned(), withKey(f.unowned(), f.key("k", "hash"))
	unknown.WorkflowName = "ordeR"
	foreign.Tenant = tenant.Tenant{ID: newID()}
	for what, n := range map[string]saga.NewSaga{"unknown": unknown, "foreign": foreign} {
		if r := f.create(n)[0]; r.Created != saga.NotRunnable {
			f.t.Errorf("%s: result %d, want not runnable", what, r.Created)
		}
	}
	for _, enabled := range []bool{false, true} {
		if _, err := f.Workflows.SetEnabled(f.t.Context(), f.tenant.ID, f.def.Name, enabled, 0, f.now()); err != nil {
			f.t.Fatal(err)
		}
		want := map[bool]saga.Created{false: saga.NotRunnable, true: saga.Stored}[enabled]
		if r := f.create(disabled)[0]; r.Created != want { // its key is still free
			f.t.Errorf("enabled %v: result %d, want %d", enabled, r.Created, want)
		}
	}
	f.absent(unknown.ID, foreign.ID)
}

func createNotCurrent(f *fixture) {
	newer := *f.def
	newer.Description = "a newer version"
	if r, created, err := f.Workflows.Register(f.t.Context(), f.tenant.ID, &newer, false, f.now()); err != nil ||
		!created || r.Version != 2 {
		f.t.Fatalf("register: version %d, created %v, %v", r.Version, created, err)
	}
	for _, tt := range []struct {
		version  int
		floating bool
		want     saga.Created
	}{
		{1, true, saga.NotCurrent}, {1, false, saga.Stored}, {2, true, saga.Stored}, {2, false, saga.Stored},
	} {
		n := f.unowned()
		n.WorkflowVersion, n.Floating = tt.version, tt.floating
		if r := f.create(n)[0]; r.Created != tt.want {
			f.t.Errorf("version %d, floating %v: result %d, want %d", tt.version, tt.floating, r.Created, tt.want)
		}
	}
}

// nul is JSON that a client may send but jsonb can't hold (trap X40).
const nul = `{"text":"\u0000"}`

func createUnstorable(f *fixture) {
	key := f.key("k", "hash")
	for what, n := range map[string]saga.NewSaga{
		"payload":  withKey(f.unowned(func(s *saga.NewSaga) { s.Payload = json.RawMessage(nul) }), key),
		"metadata": withKey(f.unowned(func(s *saga.NewSaga) { s.Metadata = json.RawMessage(nul) }), key),
	} {
		if r := f.create(n)[0]; r.Created != saga.Unstorable {
			f.t.Errorf("%s: result %d, want unstorable", what, r.Created)
		}
		f.absent(n.ID)
	}
	if state, _, err := f.Sagas.Key(f.t.Context(), *key); state != saga.KeyNew || err != nil {
		f.t.Errorf("the refused sagas' key is %d, %v; want new", state, err)
	}
}

func createBatch(f *fixture) {
	f.create(withKey(f.unowned(), f.key("used", "hash")))
	taken := f.stored(f.unowned())[0]
	stale := f.unowned()
	stale.WorkflowName = "unknown"
	good := []saga.NewSaga{f.owned(f.owner), withKey(f.unowned(everything), f.key("fresh", "hash")), f.unowned()}
	batch := []saga.NewSaga{
		good[0],
		withKey(f.unowned(), f.key("used", "hash")),
		withKey(f.unowned(), f.key("used", "other")),
		good[1],
		f.unowned(func(s *saga.NewSaga) { s.ID = taken.ID }),
		stale,
		f.unowned(func(s *saga.NewSaga) { s.Payload = json.RawMessage(nul) }),
		good[2],
	}
	want := []saga.Created{saga.Stored, saga.Replayed, saga.KeyReused, saga.Stored, saga.IDTaken, saga.NotRunnable,
		saga.Unstorable, saga.Stored}
	var got []saga.Created
	for _, r := range f.create(batch...) {
		got = append(got, r.Created)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("results (-want +got):\n%s", diff)
	}
	for _, n := range good {
		f.check(saga.NewInstance(n.Saga, f.def))
	}
	f.absent(batch[1].ID, batch[2].ID, batch[5].ID, batch[6].ID)
}

func createTwinsInBatch(f *fixture) {
	key := f.key("k", "hash")
	a, b := withKey(f.unowned(), key), withKey(f.unowned(), key)
	results := f.create(a, b)
	for i := range results {
		other := results[1-i]
		if results[i].Created == saga.Stored && other.Created == saga.Replayed && other.Prior == results[i].Saga.ID {
			return
		}
	}
	f.t.Errorf("results %+v, want one stored and the other its replay", results)
}

func createKeyRace(f *fixture) {
	key := f.key("k", "hash")
	results := make([]saga.CreateResult, 20)
	together(len(results), func(i int) {
		r, err := f.Sagas.Create(f.t.Context(), []saga.NewSaga{withKey(f.unowned(), key), f.unowned()})
		if err != nil {
			f.t.Errorf("create: %v", err)
			return
		}
		results[i] = r[0]
	})
	var stored, prior []uuid.UUID
	for _, r := range results {
		switch r.Created {
		case saga.Stored:
			stored = append(stored, r.Saga.ID)
		case saga.Replayed:
			prior = append(prior, r.Prior)
		default:
			f.t.Errorf("result %d", r.Created)
		}
	}
	if len(stored) != 1 {
		f.t.Fatalf("%d sagas were stored for one key", len(stored))
	}
	for _, id := range prior {
		if id != stored[0] {
			f.t.Errorf("a replay of %s, want %s", id, stored[0])
		}
	}
	found, err := f.Sagas.List(f.t.Context(), f.tenant.ID, saga.Filter{ByTime: page.ByTime{Limit: 1, Total: true}})
	if err != nil || found.Total != 21 { // the one with the key and the twenty without
		f.t.Errorf("the tenant has %d sagas, %v; want 21", found.Total, err)
	}
}

func createIDRace(f *fixture) {
	id := newID()
	var stored, taken atomic.Int32
	together(20, func(int) {
		r, err := f.Sagas.Create(f.t.Context(), []saga.NewSaga{f.unowned(func(s *saga.NewSaga) { s.ID = id })})
		switch {
		case err != nil:
			f.t.Errorf("create: %v", err)
		case r[0].Created == saga.Stored:
			stored.Add(1)
		case r[0].Created == saga.IDTaken:
			taken.Add(1)
		}
	})
	if stored.Load() != 1 || taken.Load() != 19 {
		f.t.Errorf("%d stored and %d refused as taken, want 1 and 19", stored.Load(), taken.Load())
	}
}

func createBatchRace(f *fixture) {
	batches := make([][]saga.NewSaga, 8)
	for i := range 20 {
		n := f.unowned()
		for b := range batches {
			other := n
			batches[b] = append(batches[b], withKey(other, f.key(fmt.Sprint("key ", b, " ", i), "hash")))
		}
	}
	var stored, taken atomic.Int32
	together(len(batches), func(b int) {
		batch := batches[b]
		rand.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
		results, err := f.Sagas.Create(f.t.Context(), batch)
		if err != nil {
			f.t.Errorf("create: %v", err)
		}
		for _, r := range results {
			switch r.Created {
			case saga.Stored:
				stored.Add(1)
			case saga.IDTaken:
				taken.Add(1)
			}
		}
	})
	if stored.Load() != 20 || taken.Load() != 7*20 {
		f.t.Errorf("%d stored, %d refused as taken; want 20 and 140", stored.Load(), taken.Load())
	}
}

func createManyAtOnce(f *fixture) {
	batch := make([]saga.NewSaga, 300)
	for i := range batch {
		batch[i] = withKey(f.unowned(), f.key(fmt.Sprint("key ", i), "hash"))
	}
	runs := f.stored(batch...)
	for i := range runs {
		if runs[i].ID != batch[i].ID {
			f.t.Fatalf("result %d is of saga %s, want %s", i, runs[i].ID, batch[i].ID)
		}
	}
}

func createNothing(f *fixture) {
	f.create()
	f.commit()
}

func keyStates(f *fixture) {
	n := withKey(f.unowned(), f.key("k", "hash"))
	f.create(n)
	for _, tt := range []struct {
		name  string
		key   *idempotency.Key
		state saga.KeyState
		id    uuid.UUID
	}{
		{"the same request", f.key("k", "hash"), saga.KeySame, n.ID},
		{"another request", f.key("k", "other"), saga.KeyOther, n.ID},
		{"another key", f.key("l", "hash"), saga.KeyNew, uuid.Nil},
		{"another tenant", &idempotency.Key{TenantID: newID(), Principal: "alice", Route: "POST /sagas", Key: "k", Hash: []byte("hash")}, saga.KeyNew, uuid.Nil},
	} {
		state, id, err := f.Sagas.Key(f.t.Context(), *tt.key)
		if err != nil || state != tt.state || id != tt.id {
			f.t.Errorf("%s: %d of saga %s, %v; want %d of %s", tt.name, state, id, err, tt.state, tt.id)
		}
	}
}
