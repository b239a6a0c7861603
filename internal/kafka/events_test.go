package kafka_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/kafka"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// events is the real store of events. before and after are called before and after each batch.
type events struct {
	jobrun.RecordEvents
	before, after func(batch []jobrun.RecordEvent) error // nil: not called
}

func newEvents(b *inbox) *events {
	db := jobdb.NewDB(b.db, jobrun.Chance{}, nil)
	return &events{RecordEvents: jobdb.NewEvents(db, jobdb.NewSettings(b.db).Current)}
}

func (s *events) PublishRecords(ctx context.Context, batch []jobrun.RecordEvent) (int, error) {
	if s.before != nil {
		if err := s.before(batch); err != nil {
			return 0, err
		}
	}
	n, err := s.RecordEvents.PublishRecords(ctx, batch)
	if err == nil && s.after != nil {
		err = s.after(batch)
	}
	return n, err
}

// source runs a node that creates events from the records in topics.
func (b *inbox) source(
	c *cluster, s jobrun.RecordEvents, topics []string, change ...func(*kafka.IngestConfig),
) (stop func()) {
	return b.ingest(c, func(cfg *kafka.IngestConfig) {
		tenants, names := map[string]uuid.UUID{}, []string{}
		for _, topic := range topics {
			tenants[c.name(topic)] = tenantID
			names = append(names, regexp.QuoteMeta(c.name(topic)))
		}
		cfg.Topics, cfg.Group = "^(?:"+strings.Join(names, "|")+")$", c.mark+"-events"
		cfg.Sources = &kafka.Sources{Tenants: tenants, Earliest: true, Store: s}
		for _, f := range change {
			f(cfg)
		}
	})
}

// values returns n records whose value is their number.
func values(topic string, partitions int32, from, n int) (records []*kgo.Record) {
	for i := from; i < from+n; i++ {
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(i) % partitions, Value: fmt.Append(nil, i)})
	}
	return records
}

func (b *inbox) count(query string, args ...any) (n int) {
	b.t.Helper()
	if err := b.db.SQL().QueryRowContext(b.t.Context(), query, args...).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// hasEvents waits until there are as many events as records, and fails unless each record is an
// event, in the order of its partition.
func (b *inbox) hasEvents(records []*kgo.Record) {
	b.t.Helper()
	patience.Until(b.t, fmt.Sprintf("%d events are stored", len(records)), func() bool {
		return b.count("SELECT count(*) FROM jobs.events") >= len(records)
	})
	if n := b.count("SELECT count(*) FROM jobs.events"); n != len(records) {
		b.t.Fatalf("%d events of %d records", n, len(records))
	}
	for _, r := range records {
		if n := b.count(`SELECT count(*) FROM jobs.events WHERE source_topic = $1 AND source_partition = $2 AND source_offset = $3
			AND payload_json = $4 AND event_type = $1`, r.Topic, r.Partition, r.Offset, string(r.Value)); n != 1 {
			b.t.Fatalf("%s/%d/%d is %d events", r.Topic, r.Partition, r.Offset, n)
		}
	}
	if n := b.count(`SELECT count(*) FROM (SELECT source_offset < lag(source_offset) OVER (PARTITION BY source_topic, source_partition
		ORDER BY created_at, id) AS back FROM jobs.events) AS o WHERE back`); n > 0 {
		b.t.Errorf("%d events come before an earlier record of their partition", n)
	}
}

func TestEveryRecordOfATopicIsOneEventAlthoughANodeDiesBeforeItCommits(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	topics := []string{"orders", "bills"}
	orders, bills := c.create("orders", 3), c.create("bills", 1)
	records := c.produce(append(values(orders, 3, 0, 300), values(bills, 1, 300, 100)...)...)
	var batches atomic.Int32
	died, dead := make(chan struct{}), newEvents(b)
	dead.after = func([]jobrun.RecordEvent) error {
		if batches.Add(1) < 3 {
			return nil
		}
		if batches.Load() == 3 {
			close(died)
		}
		return errCrash // its rows are stored, its offsets are not, and it learns of neither
	}
	small := func(cfg *kafka.IngestConfig) { cfg.Batch = 30 }
	stop := b.source(c, dead, topics, small)
	<-died
	stop()
	if n := b.count("SELECT count(*) FROM jobs.events"); n == 0 || n == len(records) {
		t.Fatalf("the node died after %d of %d events", n, len(records))
	}
	b.source(c, newEvents(b), topics, small)
	b.source(c, newEvents(b), topics, small)
	b.hasEvents(records)
	b.hasEvents(append(records, c.produce(values(orders, 3, 400, 30)...)...))
}

// Events are purged sooner than groups lose their offsets, or operators reset them.
func TestARecordThatIsReadAgainIsNoOtherEventEvenIfItsEventWasDeleted(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	topics := []string{"orders"}
	first := c.produce(values(c.create("orders", 2), 2, 0, 40)...)
	stop := b.source(c, newEvents(b), topics)
	b.hasEvents(first)
	stop()
	if _, err := b.db.SQL().ExecContext(t.Context(), "DELETE FROM jobs.events"); err != nil {
		t.Fatal(err)
	}
	second := c.produce(values(c.name("orders"), 2, 40, 3)...)
	b.source(c, newEvents(b), topics, func(cfg *kafka.IngestConfig) { cfg.Group += "-again" }) // without offsets
	b.hasEvents(second)

	// A recreated topic has other records at the same offsets.
	again := c.produce(values(c.anew("orders", 2), 2, 50, 20)...)
	patience.Until(t, "the records of the new topic are events", func() bool {
		return b.count("SELECT count(*) FROM jobs.events WHERE payload_json >= '50'") == len(again)
	})
}

func TestOnlyRecordsWrittenAfterATopicWasFirstSeenBecomeEventsIfThatIsAskedFor(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	topics, old := []string{"orders", "late"}, c.create("orders", 1)
	c.produce(values(old, 1, 0, 20)...)
	latest := func(cfg *kafka.IngestConfig) { cfg.Sources.Earliest = false }
	var rounds atomic.Int32
	stop := b.source(c, newEvents(b), topics, latest, func(cfg *kafka.IngestConfig) {
		cfg.Observer.Round = func() { rounds.Add(1) }
	})
	patience.Until(t, "the topic is seen", func() bool {
		return rounds.Load() > 0 && b.count("SELECT count(*) FROM dlq.dlq_inflows WHERE topic = $1", old) == 1
	})
	stop() // it has read nothing and committed nothing
	missed := c.produce(values(old, 1, 20, 10)...)
	fresh := c.produce(values(c.create("late", 1), 1, 30, 5)...)
	b.source(c, newEvents(b), topics, latest)
	b.hasEvents(append(missed, fresh...))
}

func TestARecordThatIsNoEventBecomesALetterAndStopsNothing(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	topic := c.create("orders", 1)
	records := values(topic, 1, 0, 12)
	records[3].Value, records[7].Value = []byte("{"), []byte(`"`+strings.Repeat("x", jobrun.MaxArgs)+`"`)
	records[8].Key, records[8].Headers = []byte("k"), []kgo.RecordHeader{{Key: "event_type", Value: []byte("a*")}}
	c.produce(records...)
	s := newEvents(b)
	s.before = func(batch []jobrun.RecordEvent) error {
		for i := range batch {
			if batch[i].Place.Offset == 10 {
				return fault.New(fault.Invalid, jobrun.CodeInvalid, "it is refused")
			}
		}
		return nil
	}
	var refused atomic.Int32
	b.source(c, s, []string{"orders"}, func(cfg *kafka.IngestConfig) {
		cfg.Observer.NoEvent = func() { refused.Add(1) }
	})
	why := map[int64]string{
		3: "the value is not JSON", 7: "it has 1048578 bytes", 8: "ends with *", 10: "the database cannot store its content",
	}
	var good []*kgo.Record
	for _, r := range records {
		if why[r.Offset] == "" {
			good = append(good, r)
		}
	}
	b.hasEvents(good)
	b.has(len(why))
	for offset, reason := range why {
		r := records[offset]
		l := b.letter(r)
		same(t, r, l)
		if l.Source != dlq.FromKafka || l.OriginalTopic != topic || l.NextRetryAt != nil || l.Status != dlq.Pending ||
			!strings.Contains(l.Failure.Message, reason) {
			t.Errorf("offset %d became %+v", offset, l)
		}
	}
	patience.Until(t, "the refused records are counted, after they are stored", func() bool {
		return int(refused.Load()) == len(why)
	})
}

// While the database is unavailable, nothing is lost, and brokers need not wait for it.
func TestEventsWaitForTheDatabase(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	s := newEvents(b)
	var away atomic.Bool
	away.Store(true)
	s.before = func([]jobrun.RecordEvent) error {
		if away.Load() {
			return context.DeadlineExceeded
		}
		return nil
	}
	records := c.produce(values(c.create("orders", 1), 1, 0, 10)...)
	b.source(c, s, []string{"orders"})
	patience.Until(t, "reading is paused", b.paused.Load)
	away.Store(false)
	b.hasEvents(records)
	patience.Until(t, "reading goes on", func() bool { return !b.paused.Load() })
	patience.Until(t, "the offsets are committed", func() bool {
		return c.offset(c.mark+"-events", c.name("orders"), 0) == 10
	})
}

// offset returns what a group has committed, or -1 if there is nothing.
func (c *cluster) offset(group, topic string, partition int32) int64 {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{partition}
	req.Topics = append(req.Topics, rt)
	res, err := req.RequestWith(c.t.Context(), c.client)
	if err != nil || len(res.Topics) != 1 {
		return -1
	}
	return res.Topics[0].Partitions[0].Offset
}
