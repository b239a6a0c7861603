package cache_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/cache"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/tenant"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// world is one cache, in memory or on PostgreSQL, with one of its tenants.
type world struct {
	cache.Cache
	t     *testing.T
	ctx   context.Context
	store store
	defs  workflow.Store
}

type store interface {
	saga.Store
	saga.Ownership
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// caches runs a test on an in-memory cache and on one backed by PostgreSQL.
func caches(t *testing.T, test func(w world)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		c := cache.NewInMemory()
		test(newWorld(t, c, c.Store.Sagas, c.Store.Workflows))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		db, err := postgres.Open(t.Context(), postgres.Config{DSN: testdb.DSN(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		sagas, w := sagadb.NewSagas(db), sagadb.NewWorkflows(db)
		test(newWorld(t, &cache.Stored{
			Sagas: sagas, Workflows: w, Now: now, Timeout: time.Hour, Log: slog.New(slog.DiscardHandler),
		}, sagas, w))
	})
}

func newWorld(t *testing.T, c cache.Cache, sagas store, workflows workflow.Store) world {
	t.Helper()
	tenant := tenant.Tenant{ID: uuid.New(), Region: "eu", Major: 2, Minor: 7}
	def, err := workflow.ParseJSON([]byte(`{"name":"order","steps":[
		{"name":"reserve","action":{"http":{"url":"http://stock/reserve"}},"compensation":{"http":{"url":"http://stock/release"}}}]}`), workflow.Limits{MaxSteps: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := workflows.Register(t.Context(), tenant.ID, def, false, now()); err != nil {
		t.Fatal(err)
	}
	return world{Cache: c, t: t, ctx: cache.WithTenant(t.Context(), tenant), store: sagas, defs: workflows}
}

// put stores a saga and returns it as it was stored.
func (w world) put(s cache.Saga) cache.Saga {
	w.t.Helper()
	if s.TransactionID == uuid.Nil {
		s.TransactionID = uuid.New()
	}
	s.Data.Workflow.Name = "order"
	if err := w.Put(w.ctx, s); err != nil {
		w.t.Fatal(err)
	}
	got, found := w.GetById(w.ctx, s.TransactionID)
	if !found {
		w.t.Fatal("what was put is not there")
	}
	return got
}

// answer claims a saga and makes its first call fail once, so that it is running.
func (w world) answer(s cache.Saga) {
	w.t.Helper()
	owner, err := w.store.Register(w.ctx, "node", "", time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	claimed, err := w.store.Claim(w.ctx, owner, 1)
	if err != nil || len(claimed) != 1 || claimed[0].Saga.ID != s.TransactionID {
		w.t.Fatalf("claimed %+v, %v", claimed, err)
	}
	def, err := w.defs.Get(w.ctx, s.Tenant.ID, "order", 1)
	if err != nil {
		w.t.Fatal(err)
	}
	outcome := saga.Outcome{Verdict: saga.NotApplied, Class: retry.Network, Code: "dial", StartedAt: now(), EndedAt: now()}
	change, err := saga.Apply(saga.Rebuild(claimed[0].Saga, def.Definition, nil), saga.Answered{Outcome: outcome},
		saga.Moment{Now: now(), NewID: uuid.New})
	if err != nil {
		w.t.Fatal(err)
	}
	if results, err := w.store.Commit(w.ctx, []saga.Change{change}); err != nil || results[0] != nil {
		w.t.Fatal(results, err)
	}
}

func TestAPutSagaIsTheTenantsActiveOne(t *testing.T) {
	caches(t, func(w world) {
		s := w.put(cache.Saga{InitiatedBy: "shop", SagaType: "orders", Data: cache.Data{Payload: []byte(`{"n":1}`)}})
		want := s
		want.Status, want.Version, want.InitiatedBy, want.SagaType, want.Tenant.Region = cache.Active, 1,
			"shop", "orders", "eu"
		want.Data.Payload, want.Data.Workflow = []byte(`{"n":1}`), cache.Workflow{Name: "order", Version: 1}
		if diff := cmp.Diff(want, s); diff != "" {
			w.t.Errorf("stored as (-want +got):\n%s", diff)
		}
		if all := w.GetAll(w.ctx); len(all) != 1 || all[0].TransactionID != s.TransactionID {
			w.t.Errorf("all: %+v", all)
		}
		err := w.Put(w.ctx, cache.Saga{TransactionID: uuid.New(), Tenant: s.Tenant,
			Data: cache.Data{Payload: saga.ErasedContent, Workflow: cache.Workflow{Name: "order", Version: 1}}})
		if !fault.IsCode(err, saga.CodeUnstorable) {
			w.t.Errorf("the mark of erased content as a payload: %v", err)
		}
		for what, ctx := range map[string]context.Context{
			"another tenant": cache.WithTenant(w.ctx, tenant.Tenant{ID: uuid.New()}), "no tenant": w.t.Context(),
		} {
			if _, found := w.GetById(ctx, s.TransactionID); found || len(w.GetAll(ctx)) > 0 || w.Remove(ctx, s.TransactionID) {
				w.t.Errorf("%s can see or remove the saga", what)
			}
		}
	})
}

// S4-30: the result contains active and compensating sagas, and none that has ended.
func TestGetAllLeavesOutWhatHasEnded(t *testing.T) {
	caches(t, func(w world) {
		ended := w.put(cache.Saga{})
		w.answer(ended)
		if !w.Remove(w.ctx, ended.TransactionID) {
			w.t.Fatal("not completed")
		}
		undone := w.put(cache.Saga{})
		undone.Status = cache.Compensating
		if err := w.Put(w.ctx, undone); err != nil { // no call was sent, so it is undone immediately
			w.t.Fatal(err)
		}
		active := w.put(cache.Saga{})
		if all := w.GetAll(w.ctx); len(all) != 1 || all[0].TransactionID != active.TransactionID {
			w.t.Errorf("%d sagas, want the one that is active: %+v", len(all), all)
		}
	})
}

func TestGetAllGoesBeyondOnePage(t *testing.T) {
	caches(t, func(w world) {
		for range 205 {
			w.put(cache.Saga{})
		}
		seen := map[uuid.UUID]bool{}
		for _, s := range w.GetAll(w.ctx) {
			seen[s.TransactionID] = true
		}
		if len(seen) != 205 {
			w.t.Errorf("%d sagas, want 205", len(seen))
		}
	})
}

func TestAPutOfAnOldVersionIsAConflictThatNamesBoth(t *testing.T) {
	caches(t, func(w world) {
		first := w.put(cache.Saga{})
		moved := first
		moved.TimeoutAt = new(now().Add(3 * time.Hour))
		if err := w.Put(w.ctx, moved); err != nil {
			w.t.Fatal(err)
		}
		for what, s := range map[string]cache.Saga{
			"a lost update":     moved,
			"the same id again": {TransactionID: first.TransactionID, Data: cache.Data{Workflow: cache.Workflow{Name: "order"}}},
		} {
			var conflict *cache.VersionConflictError
			if err := w.Put(w.ctx, s); !errors.As(err, &conflict) ||
				*conflict != (cache.VersionConflictError{ID: first.TransactionID, Expected: s.Version, Actual: 2}) {
				w.t.Errorf("%s: %v", what, err)
			}
		}
		now, _ := w.GetById(w.ctx, first.TransactionID)
		if now.Version != 2 || now.TimeoutAt == nil || time.Until(*now.TimeoutAt) < 2*time.Hour {
			w.t.Errorf("now %+v", now)
		}
		now.Status = cache.Failed
		if err := w.Put(w.ctx, now); err == nil {
			w.t.Error("an active saga was put as failed")
		}
	})
}

func TestRemoveCompletesWhereThatIsAllowed(t *testing.T) {
	caches(t, func(w world) {
		s := w.put(cache.Saga{})
		if w.Remove(w.ctx, uuid.New()) {
			w.t.Error("removed what does not exist")
		}
		if w.Remove(w.ctx, s.TransactionID) {
			w.t.Error("completed a saga whose steps were not done")
		}
		w.answer(s)
		for range 2 { // the second time it is already completed
			removed := w.Remove(w.ctx, s.TransactionID)
			if now, _ := w.GetById(w.ctx, s.TransactionID); !removed || now.Status != cache.Completed {
				w.t.Errorf("removed: %v, and it is %s", removed, now.Status)
			}
		}
		undone := w.put(cache.Saga{})
		undone.Status = cache.Compensating
		if err := w.Put(w.ctx, undone); err != nil {
			w.t.Fatal(err)
		}
		// No call was ever sent, so the saga is compensated immediately and stays in that state.
		before, _ := w.GetById(w.ctx, undone.TransactionID)
		if w.Remove(w.ctx, undone.TransactionID) {
			w.t.Error("removed a saga that was compensated")
		}
		if after, _ := w.GetById(w.ctx, undone.TransactionID); after.Version != before.Version {
			w.t.Errorf("a refused removal changed it: %+v", after)
		}
	})
}

// versions models a register that shows only its version. A put succeeds if and only if it names
// the current version.
var versions = porcupine.Model{
	Init: func() any { return int64(1) },
	Step: func(state, input, output any) (bool, any) {
		at, in, out := state.(int64), input.(int64), output.(int64)
		switch {
		case in == 0: // a read
			return out == at, at
		case out == 0: // a conflict
			return at != in, at
		}
		return at == in, at + 1
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprint(in, out) },
}

func TestConcurrentGetsAndPutsAreLinearizable(t *testing.T) {
	caches(t, func(w world) {
		s := w.put(cache.Saga{})
		var mu sync.Mutex
		var history []porcupine.Operation
		begun := time.Now()
		record := func(client int, in int64, do func() int64) int64 {
			from := time.Since(begun)
			out := do()
			mu.Lock()
			defer mu.Unlock()
			history = append(
				history,
				porcupine.Operation{ClientId: client, Input: in, Output: out, Call: int64(from), Return: int64(time.Since(begun))},
			)
			return out
		}
		var all sync.WaitGroup
		for client := range 8 {
			all.Go(func() {
				for i := range 20 {
					mine, _ := cache.Saga{}, 0
					read := record(client, 0, func() int64 {
						mine, _ = w.GetById(w.ctx, s.TransactionID)
						return mine.Version
					})
					mine.TimeoutAt = new(now().Add(time.Duration(client+1)*time.Hour + time.Duration(i)*time.Second))
					record(client, read, func() int64 {
						var conflict *cache.VersionConflictError
						switch err := w.Put(w.ctx, mine); {
						case err == nil:
							return read + 1
						case !errors.As(err, &conflict):
							w.t.Error(err)
						}
						return 0
					})
				}
			})
		}
		all.Wait()
		if result, info := porcupine.CheckOperationsVerbose(versions, history, time.Minute); result != porcupine.Ok {
			w.t.Errorf("not linearizable: %s\n%v", result, info.PartialLinearizationsOperations())
		}
		if last, _ := w.GetById(w.ctx, s.TransactionID); last.Version < 20 {
			w.t.Errorf("%d puts succeeded: the test does not test it", last.Version-1)
		}
	})
}

func TestTheDefaultIsInMemoryUntilSetCache(t *testing.T) {
	if _, inMemory := cache.Current().(*cache.InMemoryCache); !inMemory {
		t.Errorf("the default is a %T", cache.Current())
	}
	if cache.Current() != cache.Current() {
		t.Error("the default is a different cache each time")
	}
	other := cache.NewInMemory()
	cache.SetCache(other)
	if cache.Current() != cache.Cache(other) {
		t.Error("SetCache had no effect")
	}
}
