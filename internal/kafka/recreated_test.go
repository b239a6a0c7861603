package kafka_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/kafka"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// remove deletes a topic, and waits until no broker has it anymore.
func (c *cluster) remove(name string) {
	c.t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.Topic = &name
	req.TopicNames, req.Topics, req.TimeoutMillis = []string{name}, append(req.Topics, rt), 10_000
	res, err := req.RequestWith(c.t.Context(), c.client)
	if err == nil {
		err = kerr.ErrorForCode(res.Topics[0].ErrorCode)
	}
	if err != nil {
		c.t.Fatalf("delete %s: %v", name, err)
	}
	c.client.PurgeTopicsFromClient(name)
}

// anew creates a topic again, which is not possible at once after it was deleted, and
// returns when the brokers know it: a producer that learned the deleted topic's id from them
// would fail all it holds with UNKNOWN_TOPIC_ID.
func (c *cluster) anew(topic string, partitions int32) string {
	c.t.Helper()
	c.remove(c.name(topic))
	var id [16]byte
	patience.Until(c.t, topic+" is made anew", func() bool {
		made, err := c.tryCreate(topic, partitions)
		id = made
		return err == nil
	})
	patience.Until(c.t, "the brokers know the new "+topic, func() bool { return c.knows(topic, id) })
	c.client.PurgeTopicsFromClient(c.name(topic))
	return c.name(topic)
}

// lived returns records of one incarnation of a topic. They differ from those of all other
// incarnations.
func lived(topic string, partitions int32, life, n int) []*kgo.Record {
	records := dead(topic, partitions, 0, n)
	for _, r := range records {
		r.Value = fmt.Appendf(nil, `{"life":%d,"of":%s}`, life, r.Value)
	}
	return records
}

// each returns the stored letters by payload.
func (b *inbox) each() map[string][]dlq.Letter {
	b.t.Helper()
	out := map[string][]dlq.Letter{}
	rows, err := b.db.SQL().QueryContext(b.t.Context(), "SELECT id FROM dlq.dlq_messages")
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			b.t.Fatal(err)
		}
		l, err := b.letters.Get(b.t.Context(), tenantID, id)
		if err != nil {
			b.t.Fatal(err)
		}
		key := l.Arrived.Topic + string(l.Content.Payload)
		out[key] = append(out[key], l)
	}
	if err := rows.Err(); err != nil {
		b.t.Fatal(err)
	}
	return out
}

// keeps fails unless every record is a letter with exactly the same content and there are no other
// letters.
func (b *inbox) keeps(records []*kgo.Record) {
	b.t.Helper()
	letters := b.each()
	for _, r := range records {
		of := letters[r.Topic+string(r.Value)]
		if len(of) != 1 {
			b.t.Fatalf("%s/%d/%d, %s, has %d letters", r.Topic, r.Partition, r.Offset, r.Value, len(of))
		}
		same(b.t, r, of[0])
	}
	if len(letters) != len(records) {
		b.t.Fatalf("%d letters of %d records", len(letters), len(records))
	}
}

// A topic that is deleted and recreated begins at offset 0 again. Its records are new ones, whether
// the node is running or stopped in the meantime.
func TestARecreatedTopicLosesNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		stop          bool // while the topic is recreated
		first, second int  // records
		latest        bool
	}{
		{"while a node reads it, with more records", false, 5, 80, false},
		{"while a node reads it, with fewer records", false, 80, 5, false},
		{"while no node is there, with more records", true, 5, 80, false},
		{"while no node is there, with fewer records", true, 80, 5, false},
		{"while a node reads it from the end", false, 0, 30, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, b := newCluster(t), newInbox(t, testdb.DSN(t))
			const partitions = 3
			topic := c.create("anew.dlq", partitions)
			records := c.produce(lived(topic, partitions, 1, tt.first)...)
			var looks atomic.Int64
			config := func(cfg *kafka.IngestConfig) {
				cfg.Latest = tt.latest
				cfg.Observer.Topics = func([]string, []string) { looks.Add(1) }
			}
			stop := b.ingest(c, config)
			b.has(tt.first)
			if tt.latest {
				// The result of the first look is stored before the next look. One of the three may be
				// caused by the assignment.
				patience.Until(t, "the node knows the topic, and has it", func() bool {
					return looks.Load() >= 3 && c.assigned(c.mark)
				})
			}
			for life := range 2 { // twice: the second time the first incarnation's offsets are known
				if tt.stop {
					stop()
				}
				c.anew("anew.dlq", partitions)
				records = append(records, c.produce(lived(topic, partitions, life+2, tt.second)...)...)
				if tt.stop {
					stop = b.ingest(c, config)
				}
				b.has(len(records))
			}
			b.keeps(records)
		})
	}
}

// The node has seen the topic but has not begun to read it. Records written to the next life are
// new, even though the configuration says to read topics from their end.
func TestATopicThatIsRecreatedBeforeANodeBeginsLosesNothing(t *testing.T) {
	t.Parallel()
	c, b := newFake(t), newInbox(t, testdb.DSN(t))
	topic := c.create("early.dlq", 2)
	looked, begin := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(begin) })
	defer goOn()
	var first sync.Once
	c.fake.ControlKey(int16(kmsg.SyncGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		first.Do(func() { c.fake.SleepControl(func() { <-begin }) })
		return nil, nil, false
	})
	b.ingest(c, func(cfg *kafka.IngestConfig) {
		cfg.Latest = true
		seen := sync.OnceFunc(func() { close(looked) })
		cfg.Observer.Topics = func(topics, _ []string) {
			if len(topics) > 0 {
				seen()
			}
		}
	})
	<-looked
	c.anew("early.dlq", 2)
	records := c.produce(lived(topic, 2, 2, 20)...)
	goOn()
	b.has(len(records))
	b.keeps(records)
}

// Another cluster has topics with the same names, and the letters of both are kept.
func TestTheSameTopicOfAnotherClusterIsAnotherOne(t *testing.T) {
	t.Parallel()
	b := newInbox(t, testdb.DSN(t))
	var records []*kgo.Record
	for life := range 2 {
		c := newFake(t)
		c.mark = "twice"
		records = append(records, c.produce(lived(c.create("bare.dlq", 2), 2, life, 20)...)...)
		stop := b.ingest(c)
		b.has(len(records))
		stop()
	}
	b.keeps(records)
}
