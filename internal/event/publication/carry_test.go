package publication_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/event/publication"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/memstore"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/tenant"
)

const name = "kafka:events"

var errBroker = errors.New("the broker has hung up")

// broker keeps the messages that script accepts.
type broker struct {
	t *testing.T
	// script is called for each batch, numbered from 0. It returns how many of the batch's messages
	// are accepted, and the error for the sender. If script is nil, all are accepted without an
	// error.
	script func(batch, messages int) (taken int, err error)

	mu      sync.Mutex
	batches int                   // guarded by mu
	open    int                   // guarded by mu; number of producers that are not closed
	taken   []publication.Message // guarded by mu; in the order in which they arrived
}

type producer struct {
	b      *broker
	failed bool
}

func (b *broker) connect() (publication.Producer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open++; b.open > 1 {
		b.t.Error("a producer was opened beside another one")
	}
	return &producer{b: b}, nil
}

func (p *producer) Send(_ context.Context, messages []publication.Message) (err error) {
	b := p.b
	b.mu.Lock()
	batch, script := b.batches, b.script
	b.batches++
	b.mu.Unlock()
	if p.failed {
		b.t.Error("a producer was used after it had failed")
	}
	taken := len(messages)
	if script != nil {
		taken, err = script(batch, len(messages))
	}
	p.failed = err != nil
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = append(b.taken, messages[:taken]...)
	return err
}

func (p *producer) Close() {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	p.b.open--
}

// heard returns the events received by a consumer that drops, for each saga, events whose id is not
// greater than the last one it saw: the ids of the events, by saga.
func (b *broker) heard() map[string][]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, heard := map[string]int64{}, map[string][]string{}
	for _, m := range b.taken {
		key, id := string(m.Key), headerOf(m, "ce_id")
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			b.t.Errorf("the id of an event: %v", err)
		}
		if n > last[key] {
			last[key] = n
			heard[key] = append(heard[key], id)
		}
	}
	return heard
}

func headerOf(m publication.Message, name string) string {
	for _, h := range m.Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// events is a store with sagas of some tenants, each with an event for its start and one for its
// cancellation.
type events struct {
	t     *testing.T
	store *memstore.Store
	def   *workflow.Definition
}

func newTrail(t *testing.T) *events {
	t.Helper()
	def, err := workflow.ParseJSON(
		[]byte(`{"name":"w","steps":[{"name":"a","action":{"http":{"url":"http://h/"}},"compensation":"none"}]}`),
		workflow.Limits{},
	)
	if err != nil {
		t.Fatal(err)
	}
	return &events{t: t, store: memstore.New(time.Now), def: def}
}

// happen starts n sagas of each tenant, and then cancels them.
func (tr *events) happen(n int, tenants ...uuid.UUID) {
	tr.t.Helper()
	ctx := tr.t.Context()
	var sagas []saga.Instance
	for _, tenant := range tenants {
		if _, _, err := tr.store.Workflows.Register(ctx, tenant, tr.def, false, time.Now()); err != nil {
			tr.t.Fatal(err)
		}
	}
	for range n {
		for _, tenantID := range tenants {
			spec := saga.Spec{ID: uuid.Must(uuid.NewV7()), Tenant: tenant.Tenant{ID: tenantID}, InitiatedBy: "t"}
			r, err := tr.store.Sagas.Create(ctx, []saga.NewSaga{{Saga: saga.New(spec, tr.def, 1, nil, time.Now(), 0)}})
			if err != nil || r[0].Created != saga.Stored {
				tr.t.Fatalf("create: %d, %v", r[0].Created, err)
			}
			sagas = append(sagas, saga.NewInstance(r[0].Saga, tr.def))
		}
	}
	for _, s := range sagas {
		c, err := saga.Apply(s, saga.CancelRequested{By: "t"}, saga.Moment{Now: time.Now(), NewID: uuid.New})
		if err != nil {
			tr.t.Fatal(err)
		}
		if results, err := tr.store.Sagas.Commit(ctx, []saga.Change{c}); err != nil || results[0] != nil {
			tr.t.Fatal(results, err)
		}
	}
}

// told returns the ids of all events of the tenants, by saga, in the order of the feed.
func (tr *events) told(tenants ...uuid.UUID) map[string][]string {
	tr.t.Helper()
	told := map[string][]string{}
	for _, tenant := range tenants {
		events, _, err := tr.store.Trail.Feed(tr.t.Context(), tenant, trail.Position{}, trail.EventFilter{}, 1000)
		if err != nil {
			tr.t.Fatal(err)
		}
		for _, e := range events {
			id := e.SagaID.String()
			told[id] = append(told[id], strconv.FormatInt(e.ID, 10))
		}
	}
	return told
}

// publish runs the loop on a node until stop is called, with batches of three events.
func (tr *events) publish(node string, to *broker, change ...func(*publication.Config)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(tr.t.Context()))
	ended := make(chan struct{})
	cfg := publication.Config{
		Name: name, Node: node, Store: tr.store.Publications, Trail: tr.store.Trail, Open: to.connect, Now: time.Now,
		Log: slog.New(slog.DiscardHandler), Batch: 3,
	}
	for _, f := range change {
		f(&cfg)
	}
	go func() {
		defer close(ended)
		publication.Run(ctx, cfg)
	}()
	return func() { cancel(); <-ended }
}

// Whichever part of a batch a broker has stored when it fails, a consumer that drops events whose
// id is not greater than the last one of their saga gets every event once and in order.
func TestNothingIsLostOrOutOfOrderHoweverABatchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, tenants := newTrail(t), []uuid.UUID{{1}, {2}}
		tr.happen(5, tenants...)
		b := &broker{t: t, script: func(batch, messages int) (int, error) {
			switch batch % 4 {
			case 0:
				return 0, errBroker
			case 1:
				return messages / 2, errBroker
			case 2:
				return messages, errBroker // the whole batch is stored, but the answer is lost
			}
			return messages, nil
		}}
		published := 0
		stop := tr.publish("a", b, func(c *publication.Config) { c.Observer.Published = func(n int) { published += n } })
		time.Sleep(10 * time.Minute)
		tr.happen(2, tenants...) // while the node publishes
		time.Sleep(10 * time.Minute)
		stop()
		want := tr.told(tenants...)
		if diff := cmp.Diff(want, b.heard()); diff != "" {
			t.Errorf("events by saga (-told +heard):\n%s", diff)
		}
		events := 0
		for _, ids := range want {
			events += len(ids)
		}
		if published != events || len(b.taken) <= events {
			t.Errorf(
				"%d of %d events count as published, and the broker has %d: no batch was sent twice",
				published,
				events,
				len(b.taken),
			)
		}
		if b.open != 0 {
			t.Errorf("%d producers were left open", b.open)
		}
	})
}

func TestANewLeaderContinuesAfterTheLastAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, tenant := newTrail(t), uuid.UUID{1}
		first, second := &broker{t: t}, &broker{t: t}
		tr.happen(4, tenant)
		stop := tr.publish("a", first)
		time.Sleep(time.Minute)
		before := tr.told(tenant)
		stop()
		tr.happen(3, tenant)
		stop = tr.publish("b", second)
		time.Sleep(time.Minute)
		stop()
		if diff := cmp.Diff(before, first.heard()); diff != "" {
			t.Errorf("of the first leader (-told +heard):\n%s", diff)
		}
		want := tr.told(tenant)
		for id := range before {
			delete(want, id)
		}
		if diff := cmp.Diff(want, second.heard()); diff != "" {
			t.Errorf("of the second leader (-told since +heard):\n%s", diff)
		}
	})
}

// unrenewed is a publication whose lease cannot be renewed.
type unrenewed struct{ trail.Publications }

func (unrenewed) Renew(context.Context, string, int64, time.Duration) (bool, error) {
	return false, errors.New("the database does not answer")
}

// A leader whose batch is acknowledged only after its term is over must not move the cursor back
// behind the events that its successor has published.
func TestALateAcknowledgementMovesNoCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, tenant := newTrail(t), uuid.UUID{1}
		tr.happen(4, tenant)
		acknowledge := make(chan struct{})
		late := &broker{t: t, script: func(_, messages int) (int, error) { <-acknowledge; return messages, nil }}
		published := 0
		stop := tr.publish("a", late, func(c *publication.Config) {
			c.Store = unrenewed{tr.store.Publications}
			c.Observer.Published = func(n int) { published += n }
		})
		time.Sleep(time.Minute) // its lease has expired
		b := &broker{t: t}
		successor := tr.publish("b", b)
		time.Sleep(time.Minute)
		close(acknowledge)
		time.Sleep(time.Second)
		left, err := tr.store.Publications.Unpublished(t.Context(), name)
		if err != nil || len(left) > 0 || published > 0 {
			t.Errorf(
				"after the late acknowledgement %+v is unpublished (%v), and %d events count as published by it",
				left,
				err,
				published,
			)
		}
		successor()
		stop()
		if diff := cmp.Diff(tr.told(tenant), b.heard()); diff != "" {
			t.Errorf("of the successor (-told +heard):\n%s", diff)
		}
	})
}

func TestTheLagIsTheAgeOfTheOldestUnpublishedEventOfTheConfiguredTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, named, other := newTrail(t), uuid.UUID{1}, uuid.UUID{2}
		tr.happen(1, other)
		time.Sleep(time.Hour)
		tr.happen(1, named)
		var mu sync.Mutex
		var lag time.Duration
		b := &broker{t: t, script: func(int, int) (int, error) { return 0, errBroker }}
		stop := tr.publish("a", b, func(c *publication.Config) {
			c.Tenants = []uuid.UUID{named}
			c.Observer.Lag = func(age time.Duration) { mu.Lock(); defer mu.Unlock(); lag = age }
		})
		age := func() time.Duration { mu.Lock(); defer mu.Unlock(); return lag }
		time.Sleep(10 * time.Minute)
		if got := age(); got < 9*time.Minute || got > 10*time.Minute {
			t.Errorf("with the broker away for ten minutes the lag is %s", got)
		}
		b.mu.Lock()
		b.script = nil
		b.mu.Unlock()
		time.Sleep(time.Minute)
		if got := age(); got != 0 {
			t.Errorf("with everything published the lag is %s", got)
		}
		stop()
		if diff := cmp.Diff(tr.told(named), b.heard()); diff != "" {
			t.Errorf("events by saga (-told +heard):\n%s", diff)
		}
	})
}
