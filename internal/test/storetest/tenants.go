package storetest

import (
	"context"
	"reflect"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/tenant"
)

var tenants = []contract{
	{"no method that takes a tenant shows or changes anything of another", tenantMethods},
	{"an id that one tenant uses is free for another, and its saga is unchanged", tenantTakenID},
	{"no change moves a saga to another tenant", tenantStays},
}

// foreignCalls calls each method that takes a tenant with another tenant's id and the ids of a saga
// and a workflow of f. It returns the result of each call.
func foreignCalls(
	f *fixture,
	stranger uuid.UUID,
	run saga.Instance,
) map[string]func(ctx context.Context) (shown any, err error) {
	key := f.key("foreign", "hash")
	f.stored(withKey(f.unowned(), key))
	key.TenantID = stranger
	return map[string]func(ctx context.Context) (any, error){
		"Store.Get":      func(ctx context.Context) (any, error) { return f.Sagas.Get(ctx, stranger, run.ID) },
		"Store.StepLogs": func(ctx context.Context) (any, error) { return f.Sagas.StepLogs(ctx, stranger, run.ID, saga.Logs{}) },
		"Store.List": func(ctx context.Context) (any, error) {
			found, err := f.Sagas.List(ctx, stranger,
				saga.Filter{WorkflowName: run.WorkflowName, ByTime: page.ByTime{Limit: 10, Total: true}})
			return append(ids(found.Items), make([]uuid.UUID, found.Total)...), err
		},
		"Store.Key": func(ctx context.Context) (any, error) {
			state, id, err := f.Sagas.Key(ctx, *key)
			if state != saga.KeyNew {
				return state, err
			}
			return id, err
		},
		"Workflows.Get": func(ctx context.Context) (any, error) { return f.Workflows.Get(ctx, stranger, f.def.Name, 0) },
		"Workflows.List": func(ctx context.Context) (any, error) {
			found, err := f.Workflows.List(ctx, stranger,
				workflow.Filter{Request: page.Request[string]{Limit: 10, Total: true}})
			return append(found.Items, make([]workflow.Registered, found.Total)...), err
		},
		"Workflows.Versions": func(ctx context.Context) (any, error) {
			found, err := f.Workflows.Versions(ctx, stranger, f.def.Name, page.Request[int]{Limit: 10, Total: true})
			return append(found.Items, make([]workflow.Registered, found.Total)...), err
		},
		"Workflows.SetEnabled": func(ctx context.Context) (any, error) {
			return f.Workflows.SetEnabled(ctx, stranger, f.def.Name, false, 0, f.now())
		},
		"Workflows.Register": func(ctx context.Context) (any, error) {
			// The other tenant has its own workflow of the same name, which is not the next version
			// of f's workflow.
			r, _, err := f.Workflows.Register(ctx, newID(), f.variant(f.def.Name, "foreign"), false, f.now())
			return max(0, r.Version-1), err
		},
	}
}

func tenantMethods(f *fixture) {
	run := f.play(f.stored(f.owned(f.owner))[0], f.done(`{"canary":"foreign"}`))
	calls := foreignCalls(f, newID(), run)
	for name, store := range map[string]reflect.Type{"Store": reflect.TypeFor[saga.Store](),
		"Workflows": reflect.TypeFor[workflow.Store]()} {
		for m := range store.Methods() {
			takes := m.Type.NumIn() > 1 &&
				(m.Type.In(1) == reflect.TypeFor[uuid.UUID]() || m.Type.In(1) == reflect.TypeFor[idempotency.Key]())
			if _, called := calls[name+"."+m.Name]; takes && !called {
				f.t.Errorf("%s.%s takes a tenant and is missing in foreignCalls", name, m.Name)
			}
		}
	}
	before, _ := f.Workflows.Get(f.t.Context(), f.tenant.ID, f.def.Name, 0)
	for name, call := range calls {
		shown, err := call(f.t.Context())
		if v := reflect.ValueOf(shown); !v.IsZero() && (v.Kind() != reflect.Slice || v.Len() > 0) {
			f.t.Errorf("%s shows another tenant %+v", name, shown)
		}
		if err != nil && fault.KindOf(err) != fault.NotFound {
			f.t.Errorf("%s: %v; want nothing, or not found", name, err)
		}
	}
	after, err := f.Workflows.Get(f.t.Context(), f.tenant.ID, f.def.Name, 0)
	if diff := cmp.Diff(before, after, sameJSON); diff != "" || err != nil {
		f.t.Errorf("other tenants changed the workflow: %v\n%s", err, diff)
	}
	if got := f.load(run.ID).Saga; got.Version != run.Version {
		f.t.Errorf("other tenants changed the saga: version %d, was %d", got.Version, run.Version)
	}
}

// tenantTakenID: trap X16. Creating a saga with the id of another tenant's saga must neither
// overwrite that saga nor reveal that it exists.
func tenantTakenID(f *fixture) {
	mine := f.into(saga.Running)
	before := f.load(mine.ID)
	neighbour := begin(f.t, f.Env)
	theirs := neighbour.unowned(func(n *saga.NewSaga) { n.ID = mine.ID })
	if r := neighbour.create(theirs)[0]; r.Created != saga.Stored {
		f.t.Errorf("result %+v, want a new saga of the other tenant", r)
	}
	if diff := cmp.Diff(before, f.load(mine.ID), sameJSON); diff != "" {
		f.t.Errorf("the saga (-before +after):\n%s", diff)
	}
	s, err := neighbour.Sagas.Get(f.t.Context(), neighbour.tenant.ID, mine.ID)
	if err != nil || s.Tenant != neighbour.tenant || s.State != saga.Pending {
		f.t.Errorf("the other tenant gets %+v, %v", s, err)
	}
}

// tenantStays: requirements S4-03 to S4-06. The four parts of the tenant are set once and never
// change.
func tenantStays(f *fixture) {
	c := f.apply(f.stored(f.owned(f.owner))[0], f.done(`{}`))
	moved := c
	moved.After.Tenant = tenant.Tenant{ID: newID(), Region: "us", Major: 7, Minor: 8}
	f.unchanged(c.After.ID, func() { f.wantFault(f.commit(moved)[0], fault.Conflict, saga.CodeStale) })
	c.After.Tenant = tenant.Tenant{ID: f.tenant.ID, Region: "us", Major: 7, Minor: 8}
	if err := f.commit(c)[0]; err != nil {
		f.t.Fatal(err)
	}
	s, err := f.Sagas.Get(f.t.Context(), f.tenant.ID, c.After.ID)
	if err != nil || s.Tenant != f.tenant || s.Version != c.After.Version {
		f.t.Errorf(
			"the saga is at version %d of tenant %+v, %v; want version %d of %+v",
			s.Version,
			s.Tenant,
			err,
			c.After.Version,
			f.tenant,
		)
	}
}
