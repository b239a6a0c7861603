package admission_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/idempotency/claims"
	"github.com/skald-saga/skald/internal/longpoll"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/admission"
	"github.com/skald-saga/skald/internal/saga/memstore"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/tenant"
)

var shop = tenant.Tenant{ID: uuid.UUID{7}}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// room is an engine that has room for one saga at a time and does not run it.
type room struct {
	owner    *int64
	reserved int
	started  []uuid.UUID
}

func (r *room) Admit(context.Context) (*int64, func(*saga.Instance)) {
	r.reserved++
	return r.owner, func(run *saga.Instance) {
		r.reserved--
		if run != nil {
			r.started = append(r.started, run.ID)
		}
	}
}

func (r *room) Drives(saga.Ref) bool { return false }

// desk is a service on the in-memory store, with a workflow named order.
type desk struct {
	*admission.Service
	t      *testing.T
	store  *memstore.Store
	engine *room
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	store := memstore.New(time.Now)
	owner, err := store.Sagas.Register(t.Context(), "node", "process", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, store: store, engine: &room{owner: &owner}}
	runnable := func(context.Context, uuid.UUID, *workflow.Definition) error { return nil }
	d.Service = &admission.Service{
		Store: store.Sagas, Definitions: admission.NewDefinitions(store.Workflows, workflow.Limits{}, runnable),
		Insert: d.insert, Load: d.load, Engine: d.engine, InUse: &claims.Requests{}, Ends: longpoll.New(longpoll.Config{}),
		Budget: saga.Budget{Saga: 20}, MaxSteps: 200, SagaTimeout: time.Hour, Timeout: time.Minute,
		Now:   func() time.Time { return time.Now().UTC().Truncate(time.Microsecond) },
		NewID: newID, Log: slog.New(slog.DiscardHandler),
	}
	d.register(1)
	return d
}

func (d *desk) insert(ctx context.Context, n saga.NewSaga) (saga.CreateResult, error) {
	results, err := d.store.Sagas.Create(ctx, []saga.NewSaga{n})
	if err != nil {
		return saga.CreateResult{}, err
	}
	return results[0], nil
}

func (d *desk) load(ctx context.Context, ref saga.Ref) (*saga.Loaded, error) {
	found, err := d.store.Sagas.Load(ctx, []saga.Ref{ref})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// register registers a version of the workflow with the given number of steps.
func (d *desk) register(steps int) {
	d.t.Helper()
	def := workflow.Definition{Name: "order"}
	for i := range steps {
		def.Steps = append(def.Steps, workflow.Step{Name: string(rune('a' + i))})
	}
	if _, _, err := d.store.Workflows.Register(d.t.Context(), shop.ID, &def, false, d.Now()); err != nil {
		d.t.Fatal(err)
	}
}

// order returns a request for a saga of the workflow; change modifies it.
func order(change ...func(*admission.Request)) *admission.Request {
	r := &admission.Request{
		Spec:     saga.Spec{Tenant: shop, Payload: []byte(`{"amount":1}`)},
		Workflow: admission.Workflow{Name: "order"}, Actor: "ann",
	}
	for _, f := range change {
		f(r)
	}
	return r
}

func withKey(hash string) func(*admission.Request) {
	return func(r *admission.Request) {
		r.Key = &idempotency.Key{TenantID: shop.ID, Principal: "ann", Route: "r", Key: "k", Hash: []byte(hash)}
	}
}

func withPayload(json string) func(*admission.Request) {
	return func(r *admission.Request) { r.Spec.Payload = []byte(json) }
}

func withID(id uuid.UUID) func(*admission.Request) {
	return func(r *admission.Request) { r.Spec.ID = id }
}

func withBusinessKey(join bool) func(*admission.Request) {
	return func(r *admission.Request) { r.Spec.BusinessKey, r.Join = new("b-1"), join }
}

// TestARequestForASagaIsAnsweredAsItsNamesSay checks that a second request with the same names gets
// the saga of the first request or is refused, and that a refused request leaves no slot reserved.
func TestARequestForASagaIsAnsweredAsItsNamesSay(t *testing.T) {
	id := newID()
	for name, tt := range map[string]struct {
		first, second    *admission.Request
		code             string
		replayed, joined bool
	}{
		"no names":                 {order(), order(), "", false, false},
		"the same key":             {order(withKey("1")), order(withKey("1")), "", true, false},
		"the key of another":       {order(withKey("1")), order(withKey("2")), idempotency.CodeUsed, false, false},
		"the same saga id":         {order(withID(id)), order(withID(id)), saga.CodeExists, false, false},
		"the same id and key":      {order(withID(id), withKey("1")), order(withID(id), withKey("1")), "", true, false},
		"the same business key":    {order(withBusinessKey(false)), order(withBusinessKey(false)), saga.CodeBusinessKey, false, false},
		"the same one, to join it": {order(withBusinessKey(false)), order(withBusinessKey(true)), "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			first, err := d.Create(t.Context(), tt.first)
			if err != nil {
				t.Fatal(err)
			}
			second, err := d.Create(t.Context(), tt.second)
			started := 1
			switch {
			case tt.code != "":
				if !fault.IsCode(err, tt.code) {
					t.Errorf("refused with %v, want %s", err, tt.code)
				}
			case err != nil:
				t.Fatal(err)
			case second.Replayed != tt.replayed || second.Joined != tt.joined ||
				(second.ID == first.ID) != second.Earlier():
				t.Errorf("got %+v after %s", second, first.ID)
			case !second.Earlier():
				started = 2
			}
			if len(d.engine.started) != started || d.engine.reserved != 0 {
				t.Errorf("%d sagas started, %d places reserved; want %d and none", len(d.engine.started),
					d.engine.reserved, started)
			}
		})
	}
}

func TestWhatCannotBecomeASagaIsRefusedBeforeItIsStored(t *testing.T) {
	for name, tt := range map[string]struct {
		request *admission.Request
		code    string
	}{
		"a payload beyond the budget": {order(withPayload(`"2345678901234567890"`)), fault.CodeTooLarge},
		"the mark of erasure":         {order(withPayload(`{"$skald_erased":true}`)), saga.CodeUnstorable},
		"steps beyond the limit": {order(func(r *admission.Request) { r.Workflow.Steps = make([]byte, 201) }),
			fault.CodeTooLarge},
		"steps that are none": {order(func(r *admission.Request) { r.Workflow.Steps = []byte(`[]`) }),
			workflow.CodeEmpty},
		"an unknown workflow": {order(func(r *admission.Request) { r.Workflow.Name = "other" }), workflow.CodeNotFound},
		"an invalid name":     {order(func(r *admission.Request) { r.Workflow.Name = "\x00" }), workflow.CodeNotFound},
		"an unknown version":  {order(func(r *admission.Request) { r.Workflow.Version = new(9) }), workflow.CodeNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.Insert = func(context.Context, saga.NewSaga) (saga.CreateResult, error) {
				t.Error("it was sent to the store")
				return saga.CreateResult{Created: saga.Unstorable}, nil
			}
			if _, err := d.Create(t.Context(), tt.request); !fault.IsCode(err, tt.code) {
				t.Errorf("refused with %v, want %s", err, tt.code)
			}
		})
	}
}

// TestAStaleDefinitionIsReadAgainOnce: the cache holds a definition that another node has replaced.
func TestAStaleDefinitionIsReadAgainOnce(t *testing.T) {
	d := newDesk(t)
	if _, err := d.Create(t.Context(), order()); err != nil {
		t.Fatal(err)
	}
	d.register(2)
	r, err := d.Create(t.Context(), order())
	if err != nil || r.Saga.WorkflowVersion != 2 || len(r.Definition.Steps) != 2 {
		t.Errorf("got version %d, %v; want the one registered meanwhile", r.Saga.WorkflowVersion, err)
	}
	if err := disable(d); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create(t.Context(), order()); !fault.IsCode(err, workflow.CodeDisabled) {
		t.Errorf("a disabled workflow: %v", err)
	}
	inserts := 0
	d.Insert = func(context.Context, saga.NewSaga) (saga.CreateResult, error) {
		inserts++
		return saga.CreateResult{Created: saga.NotCurrent}, nil
	}
	pinned := order(func(r *admission.Request) {
		r.Workflow.Steps = []byte(`[{"name":"a","action":{"http":{"url":"http://a/b"}},"compensation":"none"}]`)
	})
	if _, err := d.Create(t.Context(), pinned); !fault.IsCode(err, fault.CodeUnavailable) || inserts != 2 {
		t.Errorf("one that never is current: %v after %d attempts, want an outage after 2", err, inserts)
	}
}

func disable(d *desk) error {
	_, err := d.store.Workflows.SetEnabled(d.t.Context(), shop.ID, "order", false, 0, d.Now())
	return err
}

// TestASagaWhoseCommitIsInDoubtIsLookedUp: if the commit failed before it was durable, the saga is
// refused; if its result was lost afterwards, the saga is started.
func TestASagaWhoseCommitIsInDoubtIsLookedUp(t *testing.T) {
	lost := errors.New("connection reset")
	for name, stored := range map[string]bool{"before the disk": false, "after the disk": true} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.Insert = func(ctx context.Context, n saga.NewSaga) (saga.CreateResult, error) {
				if stored {
					if _, err := d.insert(ctx, n); err != nil {
						t.Fatal(err)
					}
				}
				return saga.CreateResult{}, lost
			}
			r, err := d.Create(t.Context(), order())
			if stored && (err != nil || len(d.engine.started) != 1 || d.engine.started[0] != r.ID) {
				t.Errorf("%+v, %v; started %v", r, err, d.engine.started)
			}
			if !stored && (!errors.Is(err, lost) || d.engine.started != nil) {
				t.Errorf("%v; started %v", err, d.engine.started)
			}
			if d.engine.reserved != 0 {
				t.Error("its place is still reserved")
			}
		})
	}
}

// TestACreateWaitsForTheEndThatIsReported checks that this also works if the end comes before the
// create has returned, and that a create which may not wait says so.
func TestACreateWaitsForTheEndThatIsReported(t *testing.T) {
	d := newDesk(t)
	d.Insert = func(ctx context.Context, n saga.NewSaga) (saga.CreateResult, error) {
		result, err := d.insert(ctx, n)
		ended := result.Saga
		ended.State = saga.Completed
		d.Ends.Ended(longpoll.Key{Kind: longpoll.Saga, Tenant: shop.ID, ID: n.ID}, &saga.Loaded{Saga: ended})
		return result, err
	}
	waits := func(r *admission.Request) { r.Wait = time.Hour }
	r, err := d.Create(t.Context(), order(waits))
	if err != nil || !r.Waited || r.Ended == nil || r.Ended.Saga.ID != r.ID {
		t.Errorf("%+v, %v", r, err)
	}
	d.Ends = longpoll.New(longpoll.Config{Max: -1})
	if r, err := d.Create(t.Context(), order(waits)); err != nil || r.Waited || r.Ended != nil {
		t.Errorf("among too many: %+v, %v", r, err)
	}
}
