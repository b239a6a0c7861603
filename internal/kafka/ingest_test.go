package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/kafka"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

var tenantID = uuid.MustParse("00000000-0000-0000-0000-000000000001")

// inbox is the real store of letters. It also notes the ids given to each record: a record that is
// read twice has two ids, but only one of them is stored.
type inbox struct {
	t       *testing.T
	db      *postgres.DB
	letters *dlqdb.Letters
	queue   *dlqdb.Queue
	// before and after are called before and after storing each batch; their errors are returned to
	// the reader. nil means not called.
	before, after func(batch []dlq.Arrival) error

	mu     sync.Mutex
	ids    map[dlq.Position][]uuid.UUID
	stored atomic.Int64 // letters reported as stored
	paused atomic.Bool
	failed atomic.Int64
	fewer  atomic.Int64 // letters stored in a reduced form
}

func newInbox(t *testing.T, dsn string) *inbox {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	policy := dlq.DefaultPolicy
	return &inbox{
		t: t, db: db, letters: dlqdb.NewLetters(db, policy), queue: dlqdb.NewQueue(db, policy),
		ids: map[dlq.Position][]uuid.UUID{},
	}
}

// newInboxOf returns another node's view of the same store.
func newInboxOf(b *inbox) *inbox {
	return &inbox{t: b.t, letters: b.letters, queue: b.queue, ids: map[dlq.Position][]uuid.UUID{}}
}

// Arrive implements kafka.Arrivals.
func (b *inbox) Arrive(ctx context.Context, batch []dlq.Arrival) (int, error) {
	b.mu.Lock()
	for i := range batch {
		at := *batch[i].Arrived
		at.TopicID = uuid.Nil
		if known := b.ids[at]; !slices.Contains(known, batch[i].ID) { // known if its batch was split
			b.ids[at] = append(known, batch[i].ID)
		}
	}
	b.mu.Unlock()
	if b.before != nil {
		if err := b.before(batch); err != nil {
			return 0, err
		}
	}
	n, err := b.queue.Arrive(ctx, batch)
	b.stored.Add(int64(n))
	if err == nil && b.after != nil {
		err = b.after(batch)
	}
	return n, err
}

// PolicyOf implements kafka.Arrivals.
func (b *inbox) PolicyOf(ctx context.Context, tenantID uuid.UUID, topic string) (dlq.Policy, error) {
	return b.queue.PolicyOf(ctx, tenantID, topic)
}

// Looked implements kafka.Arrivals.
func (b *inbox) Looked(ctx context.Context, r dlq.Reader) (bool, []dlq.Inflow, error) {
	return b.queue.Looked(ctx, r)
}

// See implements kafka.Arrivals.
func (b *inbox) See(ctx context.Context, r dlq.Reader, inflows []dlq.Inflow) error {
	return b.queue.See(ctx, r, inflows)
}

// ingest runs a node until stop or the end of the test.
func (b *inbox) ingest(c *cluster, change ...func(*kafka.IngestConfig)) (stop func()) {
	b.t.Helper()
	cfg := kafka.IngestConfig{
		Connection: c.connection(), Topics: "^" + regexp.QuoteMeta(c.mark) + `.*[.-]dlq$`, Group: c.mark,
		Intake: dlq.Intake{Tenant: tenantID, Suffixes: []string{".dlq", "-dlq"}},
		Store:  b,
		NewID:  func() uuid.UUID { return uuid.Must(uuid.NewV7()) },
		Now:    time.Now, Log: slog.New(slog.DiscardHandler), Batch: 100, NewTopics: time.Second,
		Observer: kafka.IngestObserver{
			Paused: func(p bool) { b.paused.Store(p) }, Failed: func() { b.failed.Add(1) }, Refused: func() { b.fewer.Add(1) },
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- kafka.Ingest(ctx, cfg) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("ingest: %v", err)
		}
	})
	b.t.Cleanup(stop)
	return stop
}

// has waits until n letters are stored, and fails if there are more. It queries the database,
// because a node that dies during a commit does not get the response.
func (b *inbox) has(n int) {
	b.t.Helper()
	var there int
	patience.Until(b.t, fmt.Sprintf("%d letters are stored", n), func() bool {
		err := b.db.SQL().QueryRowContext(b.t.Context(), "SELECT count(*) FROM dlq.dlq_messages").Scan(&there)
		return err == nil && there >= n
	})
	if there > n {
		b.t.Fatalf("%d letters of %d records", there, n)
	}
}

// letter returns the letter of a record, and fails unless there is exactly one.
func (b *inbox) letter(r *kgo.Record) dlq.Letter {
	b.t.Helper()
	place := dlq.Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
	b.mu.Lock()
	ids := b.ids[place]
	b.mu.Unlock()
	var found []dlq.Letter
	for _, id := range ids {
		l, err := b.letters.Get(b.t.Context(), tenantID, id)
		switch {
		case err == nil:
			found = append(found, l)
		case fault.KindOf(err) != fault.NotFound:
			b.t.Fatal(err)
		}
	}
	if len(found) != 1 {
		b.t.Fatalf("%v has %d letters of the ids %v", place, len(found), ids)
	}
	return found[0]
}

// same fails unless a letter has exactly the same content as its record.
func same(t *testing.T, r *kgo.Record, l dlq.Letter) {
	t.Helper()
	var headers []dlq.Header
	for _, h := range r.Headers {
		headers = append(headers, dlq.Header{Name: h.Key, Value: h.Value})
	}
	if !bytes.Equal(r.Key, l.Content.Key) || (r.Key == nil) != (l.Content.Key == nil) ||
		!bytes.Equal(r.Value, l.Content.Payload) ||
		(r.Value == nil) != (l.Content.Payload == nil) {
		t.Errorf("%s/%d/%d: key or payload have changed", r.Topic, r.Partition, r.Offset)
	}
	if d := cmp.Diff(headers, l.Content.Headers); d != "" {
		t.Errorf("%s/%d/%d: headers (-record +letter):\n%s", r.Topic, r.Partition, r.Offset, d)
	}
}

// dead returns n records for a dead-letter topic.
func dead(topic string, partitions int32, from, n int) (records []*kgo.Record) {
	for i := from; i < from+n; i++ {
		records = append(records, &kgo.Record{
			Topic:     topic,
			Partition: int32(i) % partitions,
			Key:       fmt.Appendf(nil, "key-%d", i%7),
			Value:     fmt.Appendf(nil, `{"n":%d}`, i),
			Headers: []kgo.RecordHeader{
				{Key: "kafka_dlt-original-topic", Value: []byte("orders")},
				{Key: "kafka_dlt-exception-message", Value: []byte("boom")},
				{Key: "kafka_dlt-exception-message", Value: nil},
			},
		})
	}
	return records
}

var errCrash = errors.New("the node died here")

func TestEveryRecordBecomesOneLetterAlthoughANodeDiesBeforeItCommits(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	records := c.produce(
		append(dead(c.create("orders.dlq", 3), 3, 0, 700), dead(c.create("bills-dlq", 2), 2, 0, 500)...)...)
	c.produce(dead(c.create("orders", 1), 1, 0, 5)...) // unrelated
	var batches atomic.Int32
	died := make(chan struct{})
	var stop func()
	b.after = func([]dlq.Arrival) error {
		if batches.Add(1) != 3 {
			return nil
		}
		close(died)
		return errCrash // the batch is stored, but the response is lost
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop = b.ingest(c, func(cfg *kafka.IngestConfig) {
		store := cfg.Store
		cfg.Store = crashingStore{store, ctx, cancel}
	})
	<-died
	stop()
	b.ingest(c)
	b.has(len(records))
	for i, r := range records {
		l := b.letter(r)
		same(t, r, l)
		if l.OriginalTopic != "orders" || l.Failure.Message != "boom" || l.Status != dlq.Pending ||
			l.Source != dlq.FromKafka {
			t.Fatalf("record %d became %+v", i, l)
		}
	}
	b.has(len(records)) // no further letters have arrived
}

// crashingStore is the store of a node that crashes. After the crash, no call returns a result.
type crashingStore struct {
	kafka.Arrivals
	ctx  context.Context
	dies context.CancelFunc
}

func (m crashingStore) Arrive(ctx context.Context, batch []dlq.Arrival) (int, error) {
	if m.ctx.Err() != nil {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	n, err := m.Arrivals.Arrive(ctx, batch)
	if errors.Is(err, errCrash) {
		m.dies()
		<-ctx.Done()
	}
	return n, err
}

func TestLettersOfAPartitionArriveInItsOrder(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	records := c.produce(dead(c.create("orders.dlq", 4), 4, 0, 1000)...)
	b.ingest(c, func(cfg *kafka.IngestConfig) { cfg.Batch = 30 })
	b.has(len(records))
	last := map[int32]int64{}
	for _, r := range records {
		seq := b.letter(r).Seq
		if seq <= last[r.Partition] {
			t.Errorf(
				"partition %d: the letter of offset %d arrived as %d, after %d",
				r.Partition,
				r.Offset,
				seq,
				last[r.Partition],
			)
		}
		last[r.Partition] = seq
	}
}

func TestANewTopicIsReadAndAnExcludedOneIsNot(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	first := c.produce(dead(c.create("a.dlq", 1), 1, 0, 3)...)
	b.ingest(c, func(cfg *kafka.IngestConfig) { cfg.Exclude = "secret" })
	b.has(3)
	c.produce(dead(c.create("secret.dlq", 1), 1, 0, 3)...)
	second := c.produce(dead(c.create("b.dlq", 2), 2, 0, 4)...)
	b.has(7)
	for _, r := range append(first, second...) {
		same(t, r, b.letter(r))
	}
	for place := range b.ids {
		if place.Topic == c.name("secret.dlq") {
			t.Errorf("%v was read", place)
		}
	}
}

func TestUnusualRecordsAreStoredAndBlockNothing(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	topic := c.create("orders.dlq", 1)
	header := func(pairs ...string) (h []kgo.RecordHeader) {
		for i := 0; i < len(pairs); i += 2 {
			h = append(h, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		return h
	}
	var many []kgo.RecordHeader
	for i := range 500 {
		many = append(many, kgo.RecordHeader{Key: fmt.Sprint(i % 250), Value: []byte{byte(i)}})
	}
	records := []*kgo.Record{
		{Key: []byte("a"), Value: []byte(`{"good":true}`)},
		{Headers: header("kafka_dlt-original-topic", "a\x00b", "kafka_dlt-exception-message", "\x00\xff", "kafka_dlt-exception-stacktrace", string(noise(200_000)), "", "", "\x00name\xff", "\x00")},
		{Key: noise(100_000), Value: []byte("\x00")},
		{Key: []byte{}, Value: []byte{}},
		{Value: []byte(`{"a":"\u0000","a":1}`), Headers: many},
		{Value: []byte(`{"deep":` + string(bytes.Repeat([]byte("["), 100_000)))},
		{Key: []byte("big"), Value: noise(10 << 20)},
		{Headers: header("x-dlq-message-id", "not a uuid", "x-dlq-generation", "-1", "traceparent", "zz", "x-dlq-error-class", "SPLENDID")},
		{Key: []byte("z"), Value: []byte(`{"good":true}`)},
	}
	for _, r := range records {
		r.Topic = topic
	}
	c.produce(records...)
	b.ingest(c)
	b.has(len(records))
	for _, r := range records {
		same(t, r, b.letter(r))
	}
	if b.fewer.Load() != 0 {
		t.Errorf("%d were stored in a reduced form, which is for what nobody has thought of", b.fewer.Load())
	}
}

func TestARecordThatPostgreSQLRefusesIsFoundAndReduced(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	records := c.produce(dead(c.create("orders.dlq", 1), 1, 0, 200)...)
	b.before = func(batch []dlq.Arrival) error {
		for _, a := range batch {
			if n := a.Arrived.Offset; n == 77 && a.Encoding != dlq.Binary || n == 130 && a.Content.Payload != nil {
				return fault.New(fault.Invalid, dlq.CodeInvalid, "it is refused")
			}
		}
		return nil
	}
	b.ingest(c)
	b.has(len(records))
	for i, r := range records {
		l := b.letter(r)
		switch i {
		case 77:
			same(t, r, l)
			if l.OriginalTopic != "orders" || l.Encoding != dlq.Binary ||
				l.Failure.Message != "PostgreSQL could not store this record as received: it is refused" {
				t.Errorf("reduced to %+v", l)
			}
		case 130:
			if l.Content.Payload != nil || l.Status != dlq.Dead || len(l.Labels) != 1 || l.Note == "" {
				t.Errorf("reduced to %+v", l)
			}
		default:
			same(t, r, l)
		}
	}
	if b.fewer.Load() != 3 { // once for one record, twice for the other
		t.Errorf("%d reductions; want 3", b.fewer.Load())
	}
}
