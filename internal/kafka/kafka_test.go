package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/event/publication"
	"github.com/skald-saga/skald/internal/kafka"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/memstore"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/tenant"
	"github.com/skald-saga/skald/internal/test/patience"
)

const topic = "skald.saga.events"

// world is a store with sagas in it, and a broker in this process.
type world struct {
	t      *testing.T
	store  *memstore.Store
	broker *kfake.Cluster
	config kafka.Config
	def    *workflow.Definition
}

func newWorld(t *testing.T, opts ...kfake.Opt) *world {
	t.Helper()
	broker, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(4, topic)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	def, err := workflow.ParseJSON([]byte(`{"name":"w","steps":[{"name":"a","action":{"http":{"url":"http://h/"}},"compensation":"none"}]}`), workflow.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: memstore.New(time.Now), broker: broker, def: def,
		config: kafka.Config{Connection: kafka.Connection{Brokers: broker.ListenAddrs(), ClientID: "test"}, Topic: topic}}
	return w
}

// sagas creates n sagas of a tenant with five events each.
func (w *world) sagas(tenantID uuid.UUID, n int) {
	w.t.Helper()
	for range n {
		spec := saga.Spec{ID: uuid.Must(uuid.NewV7()), Tenant: tenant.Tenant{ID: tenantID}, InitiatedBy: "t"}
		at := time.Now().UTC().Truncate(time.Microsecond)
		ns := saga.NewSaga{Saga: saga.New(spec, w.def, 1, nil, at, 0)}
		if _, _, err := w.store.Workflows.Register(w.t.Context(), tenantID, w.def, false, at); err != nil {
			w.t.Fatal(err)
		}
		if r, err := w.store.Sagas.Create(w.t.Context(), []saga.NewSaga{ns}); err != nil || r[0].Created != saga.Stored {
			w.t.Fatalf("create: %+v, %v", r, err)
		}
		loaded, err := w.store.Sagas.Load(w.t.Context(), []saga.Ref{ns.Ref()})
		if err != nil {
			w.t.Fatal(err)
		}
		change, err := saga.Apply(saga.NewInstance(loaded[0].Saga, w.def), saga.CancelRequested{By: "t"},
			saga.Moment{Now: at, NewID: uuid.New})
		if err != nil {
			w.t.Fatal(err)
		}
		if errs, err := w.store.Sagas.Commit(w.t.Context(), []saga.Change{change}); err != nil || errs[0] != nil {
			w.t.Fatalf("commit: %v, %v", errs, err)
		}
	}
}

// publisher runs a publication; stop ends it.
func (w *world) publisher(node string, change ...func(*publication.Config)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	cfg := publication.Config{
		Name: "kafka", Node: node, Store: w.store.Publications, Trail: w.store.Trail, Open: w.config.Open, Now: time.Now,
		Log: slog.New(slog.DiscardHandler), Lease: time.Second, Poll: 10 * time.Millisecond,
		Timeout: 2 * time.Second, Batch: 7,
	}
	for _, f := range change {
		f(&cfg)
	}
	done := make(chan struct{})
	go func() { defer close(done); publication.Run(ctx, cfg) }()
	stop = func() { cancel(); <-done }
	w.t.Cleanup(stop)
	return stop
}

// undisturbed makes a publication send every batch exactly once, however busy the machine is. A
// publisher that loses its lease or waits too long for the broker sends a batch again.
func undisturbed(c *publication.Config) { c.Lease, c.Timeout = time.Hour, patience.Limit }

// expected returns the ids of every event, by saga, in order.
func (w *world) expected(tenants ...uuid.UUID) map[string][]string {
	w.t.Helper()
	all := map[string][]string{}
	for _, tenantID := range tenants {
		events, _, err := w.store.Trail.Feed(w.t.Context(), tenantID, trail.Position{}, trail.EventFilter{}, 100_000)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range events {
			all[e.SagaID.String()] = append(all[e.SagaID.String()], fmt.Sprint(e.ID))
		}
	}
	return all
}

// wantTopic consumes until every expected event has arrived, and fails if the first copies of a
// saga's events are out of order.
func (w *world) wantTopic(want map[string][]string) (records []*kgo.Record) {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.ConsumeTopics(topic))
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	missing := 0
	for _, ids := range want {
		missing += len(ids)
	}
	seen, first := map[string]bool{}, map[string][]string{}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience.Limit)
	defer cancel()
	for missing > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			w.t.Fatalf("%d events have not come", missing)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			records = append(records, r)
			id := header(r, "ce_id")
			if !seen[id] {
				seen[id] = true
				missing--
				first[string(r.Key)] = append(first[string(r.Key)], id)
			}
		})
	}
	for key, ids := range want {
		if got := strings.Join(first[key], " "); got != strings.Join(ids, " ") {
			w.t.Errorf("saga %s: the first copies came as %s; want %s", key, got, strings.Join(ids, " "))
		}
	}
	return records
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func TestEveryTenantsEventsArriveInOrderWithTheirHeaders(t *testing.T) {
	w := newWorld(t)
	tenants := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	for _, tenantID := range tenants {
		w.sagas(tenantID, 20)
	}
	w.publisher("a", undisturbed)
	records := w.wantTopic(w.expected(tenants...))
	partitions := map[int32]bool{}
	of := map[string]int32{}
	for _, r := range records {
		partitions[r.Partition] = true
		if p, known := of[string(r.Key)]; known && p != r.Partition {
			t.Errorf("saga %s lies in partitions %d and %d", r.Key, p, r.Partition)
		}
		of[string(r.Key)] = r.Partition
		for name, want := range map[string]string{
			"content-type": "application/cloudevents+json; charset=utf-8", "ce_specversion": "1.0", "ce_subject": string(r.Key), "workflow_name": "w",
			"ce_type": "io.skald." + header(r, "event_type"), "ce_source": "/skald/tenants/" + header(r, "tenant_id"),
		} {
			if got := header(r, name); got != want {
				t.Errorf("header %s is %q, want %q", name, got, want)
			}
		}
		if !strings.HasPrefix(string(r.Value), `{"specversion":"1.0","id":"`+header(r, "ce_id")+`"`) {
			t.Errorf("value %s", r.Value)
		}
	}
	if len(records) != 3*20*len(w.expected(tenants...)[string(records[0].Key)]) || len(partitions) < 2 {
		t.Errorf("%d records in %d partitions", len(records), len(partitions))
	}
}

func TestARestartGoesOnWhereItWas(t *testing.T) {
	w := newWorld(t)
	tenantID := uuid.New()
	w.sagas(tenantID, 10)
	stop := w.publisher("a", undisturbed)
	w.wantTopic(w.expected(tenantID))
	stop()
	w.sagas(tenantID, 10)
	w.publisher("a", undisturbed)
	want := w.expected(tenantID)
	records := w.wantTopic(want)
	events := 0
	for _, ids := range want {
		events += len(ids)
	}
	if len(records) != events {
		t.Errorf("%d records of %d events: a restart in peace repeats nothing", len(records), events)
	}
}

func TestABrokerThatFailsLosesNothingAndChangesNoOrder(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(kmsg.Request, int32) (kmsg.Response, error, bool){
		"it answers that it cannot": func(req kmsg.Request, n int32) (kmsg.Response, error, bool) {
			if n > 4 {
				return nil, nil, false
			}
			return refused(req.(*kmsg.ProduceRequest), kerr.NotEnoughReplicas.Code), nil, true
		},
		"it refuses for good, now and then": func(req kmsg.Request, n int32) (kmsg.Response, error, bool) {
			if n%4 != 1 || n > 8 {
				return nil, nil, false
			}
			return refused(req.(*kmsg.ProduceRequest), kerr.TopicAuthorizationFailed.Code), nil, true
		},
		"it hangs up": func(_ kmsg.Request, n int32) (kmsg.Response, error, bool) {
			if n > 4 {
				return nil, nil, false
			}
			return nil, errors.New("gone"), true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tenantID := uuid.New()
			w.sagas(tenantID, 15)
			var calls, failures atomic.Int32
			w.broker.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
				w.broker.KeepControl()
				return fail(req, calls.Add(1))
			})
			w.publisher("a", func(c *publication.Config) { c.Observer.Failed = func() { failures.Add(1) } })
			w.wantTopic(w.expected(tenantID))
			if calls.Load() < 3 {
				t.Errorf("%d calls: nothing failed", calls.Load())
			}
		})
	}
}

// refused is the response of a broker that accepted nothing in a request.
func refused(req *kmsg.ProduceRequest, code int16) *kmsg.ProduceResponse {
	res := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code
			rt.Partitions = append(rt.Partitions, rp)
		}
		res.Topics = append(res.Topics, rt)
	}
	return res
}

func TestAnotherNodeTakesOverAndAFormerLeaderWritesNoCursor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenantID := uuid.New()
	w.sagas(tenantID, 10)
	// The leader stops in the middle of a batch that the broker has received but that it could not
	// record, as if it were killed.
	var held atomic.Bool
	stuck := make(chan struct{})
	dead := func(c *publication.Config) {
		c.Store = lostAdvance{w.store.Publications, &held, stuck}
		c.Lease = 300 * time.Millisecond
	}
	stop := w.publisher("a", dead)
	<-stuck
	w.publisher("b")
	w.sagas(tenantID, 5)
	w.wantTopic(w.expected(tenantID))
	stop()
	if epoch, err := w.store.Publications.Lead(t.Context(), "kafka", "c", time.Minute); epoch != 0 || err != nil {
		t.Errorf("the former leader's end ended the present term: %d, %v", epoch, err)
	}
}

// lostAdvance is the store as seen by a dying leader: it never learns whether its cursor was
// written, and it cannot renew its lease.
type lostAdvance struct {
	trail.Publications
	once  *atomic.Bool
	stuck chan struct{}
}

func (s lostAdvance) Advance(ctx context.Context, _ string, _ int64, _ uuid.UUID, _ trail.Position) (bool, error) {
	if !s.once.Swap(true) {
		close(s.stuck)
	}
	<-ctx.Done()
	return false, ctx.Err()
}

func (s lostAdvance) Renew(ctx context.Context, _ string, _ int64, _ time.Duration) (bool, error) {
	return false, errors.New("out of reach")
}

func TestABrokerThatIsAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenantID := uuid.New()
	w.sagas(tenantID, 5)
	var down atomic.Bool
	down.Store(true)
	w.broker.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
		w.broker.KeepControl()
		if down.Load() {
			return nil, errors.New("away"), true
		}
		return nil, nil, false
	})
	failed, lag := make(chan struct{}, 100), atomic.Int64{}
	w.publisher("a", func(c *publication.Config) {
		c.Timeout = 200 * time.Millisecond
		c.Observer.Failed = func() { failed <- struct{}{} }
		c.Observer.Lag = func(age time.Duration) { lag.Store(int64(age)) }
	})
	<-failed
	<-failed
	if lag.Load() <= 0 {
		t.Error("no lag is reported while the broker is away")
	}
	down.Store(false)
	w.wantTopic(w.expected(tenantID))
}

func TestSigningInWithSCRAMAndPlain(t *testing.T) {
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		w := newWorld(t, kfake.EnableSASL(), kfake.Superuser(kfakeName(mechanism), "skald", "correct horse"))
		w.config.SASL, w.config.User, w.config.Password = mechanism, "skald", "correct horse"
		send := func(password string) error {
			c := w.config
			c.Password = password
			p, err := c.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			return p.Send(patience.Context(t), []publication.Message{{Key: []byte("k"), Value: []byte("v"), At: time.Now()}})
		}
		if err := send("correct horse"); err != nil {
			t.Errorf("%s: %v", mechanism, err)
		}
		if err := send("wrong"); err == nil || strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s with a wrong password: %v", mechanism, err)
		}
	}
}

func kfakeName(mechanism string) string { return strings.ToUpper(mechanism) }

func TestWhatCannotBeIsSaidAtTheStart(t *testing.T) {
	good := kafka.Config{Connection: kafka.Connection{Brokers: []string{"h:9092"}}, Topic: "t"}
	if err := good.Check(); err != nil {
		t.Errorf("%v", err)
	}
	for name, change := range map[string]func(*kafka.Config){
		"a mechanism nobody knows":  func(c *kafka.Config) { c.SASL, c.User = "kerberos", "u" },
		"no user":                   func(c *kafka.Config) { c.SASL = "plain" },
		"a CA file that is none":    func(c *kafka.Config) { c.TLS, c.CAFile = true, "kafka_test.go" },
		"a CA file that is missing": func(c *kafka.Config) { c.TLS, c.CAFile = true, "missing.pem" },
	} {
		bad := good
		change(&bad)
		if err := bad.Check(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
