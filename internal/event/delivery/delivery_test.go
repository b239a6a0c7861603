package delivery_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/event/delivery"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/memstore"
	"github.com/skald-saga/skald/internal/saga/participantgate"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/tenant"
)

var tenantID = uuid.New()

// world contains a store, and endpoints whose responses a test determines.
type world struct {
	t      *testing.T
	store  *memstore.Store
	def    *workflow.Definition
	script func(ctx context.Context, s *webhook.Subscription, d *webhook.Delivery) webhook.Outcome

	mu       sync.Mutex             // guards script as well, once a node runs
	sent     map[string][]time.Time // attempts, by URL and event
	inFlight map[string]int
	most     map[string]int // concurrent attempts, by URL
	results  map[string]int
	gate     *participantgate.Gate
}

func newWorld(t *testing.T) *world {
	t.Helper()
	def, err := workflow.ParseJSON(
		[]byte(`{"name":"w","steps":[{"name":"a","action":{"http":{"url":"http://h/"}},"compensation":"none"}]}`),
		workflow.Limits{},
	)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, store: memstore.New(time.Now), def: def,
		sent: map[string][]time.Time{}, inFlight: map[string]int{}, most: map[string]int{}, results: map[string]int{},
		script: func(context.Context, *webhook.Subscription, *webhook.Delivery) webhook.Outcome {
			return webhook.Outcome{Status: 200}
		},
	}
	if _, _, err := w.store.Workflows.Register(t.Context(), tenantID, def, false, time.Now()); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) subscribe(url string, types ...string) webhook.Subscription {
	w.t.Helper()
	s, err := webhook.New(
		tenantID,
		uuid.Must(uuid.NewV7()),
		webhook.Settings{URL: &url, EventTypes: &types},
		[]byte("k"),
		"",
		time.Now(),
	)
	if err == nil {
		err = w.store.Webhooks.Create(w.t.Context(), s, false)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// deliveries returns the deliveries of a webhook.
func (w *world) deliveries(s webhook.Subscription) []webhook.Delivery {
	w.t.Helper()
	all := webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 100}}
	found, err := w.store.Webhooks.Deliveries(w.t.Context(), tenantID, s.ID, all)
	if err != nil {
		w.t.Fatal(err)
	}
	return found.Items
}

// happen creates n sagas with one event each.
func (w *world) happen(n int) {
	w.t.Helper()
	for range n {
		spec := saga.Spec{ID: uuid.Must(uuid.NewV7()), Tenant: tenant.Tenant{ID: tenantID}, InitiatedBy: "t"}
		r, err := w.store.Sagas.Create(w.t.Context(), []saga.NewSaga{{Saga: saga.New(spec, w.def, 1, nil, time.Now(), 0)}})
		if err != nil || r[0].Created != saga.Stored {
			w.t.Fatalf("create: %+v, %v", r, err)
		}
	}
}

// node runs the loop until stop is called.
func (w *world) node() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		cfg := delivery.Config{
			Queue:    w.store.Webhooks,
			Trail:    w.store.Trail,
			Send:     w.send,
			Now:      time.Now,
			Log:      slog.New(slog.NewTextHandler(io.Discard, nil)),
			NewID:    func() uuid.UUID { return uuid.Must(uuid.NewV7()) },
			Observer: delivery.Observer{Attempted: func(r string) { w.mu.Lock(); defer w.mu.Unlock(); w.results[r]++ }},
		}
		if w.gate != nil {
			cfg.Gate = w.gate
		}
		delivery.Run(ctx, cfg)
	}()
	return func() { cancel(); <-done }
}

func (w *world) send(ctx context.Context, s *webhook.Subscription, d *webhook.Delivery) webhook.Outcome {
	key := fmt.Sprint(s.URL, " ", d.EventID)
	w.mu.Lock()
	w.sent[key] = append(w.sent[key], time.Now())
	w.inFlight[s.URL]++
	w.most[s.URL] = max(w.most[s.URL], w.inFlight[s.URL])
	script := w.script
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.inFlight[s.URL]--
	}()
	return script(ctx, s, d)
}

func TestEverySubscriptionGetsEachMatchingEventOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script = func(context.Context, *webhook.Subscription, *webhook.Delivery) webhook.Outcome {
			time.Sleep(10 * time.Millisecond)
			return webhook.Outcome{Status: 200}
		}
		w.happen(3) // before the subscriptions
		w.subscribe("http://all/")
		w.subscribe("http://starts/", "saga.started")
		w.subscribe("http://ends/", "saga.completed", "compensation.*")
		w.happen(1200) // more than one batch
		stops := []func(){w.node(), w.node(), w.node()}
		time.Sleep(time.Minute)
		for _, stop := range stops {
			stop()
		}
		if len(w.sent) != 2400 || w.results["delivered"] != 2400 {
			t.Errorf("%d events were sent, %v; want 2400 once each", len(w.sent), w.results)
		}
		if most := w.most["http://all/"]; most < 2 || most > 3*8 {
			t.Errorf("%d attempts at once by three nodes", most)
		}
	})
}

func TestADeadEndpointDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 80 { // more than there are slots
			w.subscribe(fmt.Sprintf("http://dead%d/", i))
		}
		s := w.subscribe("http://alive/")
		w.script = func(_ context.Context, s *webhook.Subscription, _ *webhook.Delivery) webhook.Outcome {
			if s.URL == "http://alive/" {
				return webhook.Outcome{Status: 204}
			}
			time.Sleep(10 * time.Second) // a whole timeout
			return webhook.Outcome{Error: "no answer in time"}
		}
		defer w.node()()
		w.happen(5)
		time.Sleep(time.Minute) // by now the dead endpoints have been detected
		for range 20 {
			w.happen(1)
			time.Sleep(10 * time.Second)
		}
		found, err := w.store.Webhooks.Deliveries(t.Context(), tenantID, s.ID,
			webhook.Filter{Request: page.Request[uuid.UUID]{Limit: 100}})
		if err != nil || len(found.Items) != 25 {
			t.Fatalf("%d deliveries, %v", len(found.Items), err)
		}
		for _, d := range found.Items[:20] {
			if d.Status != webhook.Delivered || d.EndedAt.Sub(d.CreatedAt) > time.Second {
				t.Errorf("%+v", d)
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for url, most := range w.most {
			if url != "http://alive/" && most > 8 {
				t.Errorf("%s had %d attempts at once", url, most)
			}
		}
	})
}

func TestAttemptsAreSpacedAndTheEndpointIsFinallyDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.subscribe("http://down/")
		w.script = func(context.Context, *webhook.Subscription, *webhook.Delivery) webhook.Outcome {
			return webhook.Outcome{Status: 500}
		}
		defer w.node()()
		w.happen(15)
		time.Sleep(24 * time.Hour)
		w.mu.Lock()
		for key, at := range w.sent {
			for i := 1; i < len(at); i++ {
				if wait := at[i].Sub(at[i-1]); wait < 4*time.Second || wait > 73*time.Minute {
					t.Errorf("%s: attempt %d after %s", key, i+1, wait)
				}
			}
			if len(at) > 16 {
				t.Errorf("%s: %d attempts", key, len(at))
			}
		}
		got, err := w.store.Webhooks.Get(t.Context(), tenantID, s.ID)
		if err != nil || got.Enabled || w.results["failed"] < 10 {
			t.Errorf("%+v, %v after %v", got, err, w.results)
		}
		calls := len(w.sent)
		w.mu.Unlock()
		w.happen(5)
		time.Sleep(time.Hour)
		w.mu.Lock()
		if len(w.sent) != calls {
			t.Error("a disabled webhook is sent to")
		}
		w.mu.Unlock()
		// After it is enabled again, the subscription gets the deliveries that were not given up,
		// and newer events.
		w.script = func(context.Context, *webhook.Subscription, *webhook.Delivery) webhook.Outcome {
			return webhook.Outcome{Status: 200}
		}
		on, err := got.With(webhook.Settings{Enabled: new(true)}, time.Now())
		if err == nil {
			err = w.store.Webhooks.Replace(t.Context(), on, false)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		w.mu.Lock()
		defer w.mu.Unlock()
		if given, arrived := w.results["failed"], w.results["delivered"]; given+arrived != 20 || arrived < 5 {
			t.Errorf("%d arrived and %d were given up, of 20", arrived, given)
		}
	})
}

func TestAStopEndsAttemptsAndTheNextNodeMakesThemAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.subscribe("http://slow/")
		w.script = func(ctx context.Context, _ *webhook.Subscription, _ *webhook.Delivery) webhook.Outcome {
			<-ctx.Done()
			return webhook.Outcome{Abandoned: true}
		}
		w.happen(3) // before the node starts, which could otherwise read the first event alone
		stop := w.node()
		time.Sleep(10 * time.Second)
		begun := time.Now()
		stop()
		if took := time.Since(begun); took > 6*time.Second {
			t.Errorf("the stop took %s", took)
		}
		w.script = func(context.Context, *webhook.Subscription, *webhook.Delivery) webhook.Outcome {
			return webhook.Outcome{Status: 200}
		}
		stop = w.node()
		time.Sleep(time.Second) // shorter than a lease
		stop()
		if w.results["delivered"] != 3 || w.results["abandoned"] != 3 {
			t.Errorf("%v", w.results)
		}
	})
}
