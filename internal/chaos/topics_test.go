package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// topicPlans are runs of topics that are deleted and made anew.
var topicPlans = map[string]struct {
	plan
	topics, lives, records int           // records of all lives together
	absences               int           // of a broker
	outage                 time.Duration // how long it is away
}{
	"":     {plan{lease: time.Second, nodes: 2, kills: 3, gap: 2 * time.Second}, 4, 3, 360, 3, time.Second},
	"long": {plan{lease: time.Second, nodes: 2, kills: 25, cuts: 10, gap: 4 * time.Second}, 20, 5, 10_000, 12, 3 * time.Second},
}

// TestDeadLettersSurviveTopicsMadeAnew is the proof that every record of a topic that
// is deleted and made anew is one letter, byte for byte, whoever dies meanwhile. A life
// of a topic ends as soon as all of it is stored: before, Kafka itself loses records.
func TestDeadLettersSurviveTopicsMadeAnew(t *testing.T) {
	t.Parallel()
	tp := topicPlans[chaosMode(t)]
	w := newWorld(t, tp.plan, seed(t), binary(t, buildPlain))
	c, err := openTopics(w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	w.env = []string{"SKALD_KAFKA_BROKERS=" + strings.Join(c.brokers.ListenAddrs(), ","), `SKALD_INGEST_TOPICS=[.]dlq$`, "SKALD_DLQ_AUTO_RETRY=false"}
	db, err := ownDatabase(t.Context(), w.dir)
	w.db = db
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	if err := w.heal(ctx); err != nil {
		t.Fatal(err)
	}
	var trouble, topics sync.WaitGroup
	trouble.Go(func() { (&nemesis{w: w, dice: w.dice("nemesis")}).rage(ctx) })
	trouble.Go(func() { c.leave(ctx, w.dice("brokers"), tp.absences, tp.outage) })
	for i := range tp.topics {
		topics.Go(func() {
			if err := c.live(ctx, i, tp.lives, tp.records/tp.topics/tp.lives); err != nil {
				t.Errorf("topic %d: %v", i, err)
			}
		})
	}
	topics.Wait()
	trouble.Wait()
	c.judge(ctx, t)
	w.reportFindings()
	t.Logf("topics made anew: seed=%d topics=%d lives=%d records=%d kills=%d pg_cuts=%d broker_absences=%d violations=%d",
		w.seed, tp.topics, tp.lives, len(c.sent), w.tally.kills.Load(), w.tally.cuts.Load(), tp.absences, len(w.all()))
	if len(c.sent) != tp.records || w.tally.kills.Load() == 0 {
		t.Errorf("the run proves nothing: %d records, %d kills", len(c.sent), w.tally.kills.Load())
	}
}

// topicLives are brokers, topics that come and go, and what was written to them.
type topicLives struct {
	w       *world
	brokers *kfake.Cluster
	client  *kgo.Client
	away    atomic.Int32 // the broker that hangs up on everybody; -1: none

	mu   sync.Mutex
	sent map[string]*kgo.Record // guarded by mu: by value, which no two share
}

const topicPartitions = 3

func openTopics(w *world) (*topicLives, error) {
	brokers, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		return nil, err
	}
	c := &topicLives{w: w, brokers: brokers, sent: map[string]*kgo.Record{}}
	c.away.Store(-1)
	brokers.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		brokers.KeepControl()
		// Who is not even told the versions takes it for TLS and gives up.
		if req.Key() != kmsg.ApiVersions.Int16() && brokers.CurrentNode() == c.away.Load() {
			return nil, errors.New("the broker is away"), true
		}
		return nil, nil, false
	})
	c.client, err = kgo.NewClient(kgo.SeedBrokers(brokers.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.UnknownTopicRetries(50))
	return c, err
}

func (c *topicLives) close() {
	c.client.Close()
	c.brokers.Close()
}

// leave takes one broker after the other away for a while.
func (c *topicLives) leave(ctx context.Context, dice *rand.Rand, times int, each time.Duration) {
	for range times {
		pause(ctx, 2*time.Second)
		gone := dice.Int32N(3)
		c.w.diary.write("broker %d is away for %s", gone, each)
		c.away.Store(gone)
		pause(ctx, each)
		c.away.Store(-1)
	}
}

// live makes a topic, fills it, waits until all is stored, and deletes it, life after
// life.
func (c *topicLives) live(ctx context.Context, i, lives, records int) error {
	topic := fmt.Sprintf("topic-%d.dlq", i)
	for life := range lives {
		if err := c.again(ctx, func() error { return c.create(ctx, topic) }); err != nil {
			return err
		}
		first := make(chan error, records)
		for k := range records {
			r := &kgo.Record{
				Topic: topic, Partition: int32(k % topicPartitions), Key: fmt.Appendf(nil, "key-%d", k%5), //nolint:gosec // small
				Value:   fmt.Appendf(nil, `{"topic":%d,"life":%d,"record":%d}`, i, life, k),
				Headers: []kgo.RecordHeader{{Key: "kafka_dlt-original-topic", Value: []byte("orders")}, {Key: "raw", Value: []byte{0, byte(k), 255}}, {Key: "raw", Value: nil}},
			}
			c.client.Produce(ctx, r, func(r *kgo.Record, err error) {
				c.mu.Lock()
				c.sent[string(r.Value)] = r
				c.mu.Unlock()
				first <- err
			})
		}
		for range records {
			if err := <-first; err != nil {
				return fmt.Errorf("life %d: %w", life, err)
			}
		}
		if err := c.stored(ctx, topic, (life+1)*records); err != nil {
			return fmt.Errorf("life %d: %w", life, err)
		}
		if life == lives-1 {
			return nil
		}
		if err := c.again(ctx, func() error { return c.remove(ctx, topic) }); err != nil {
			return err
		}
		c.client.PurgeTopicsFromClient(topic)
	}
	return nil
}

// stored waits until the database has so many letters of a topic.
func (c *topicLives) stored(ctx context.Context, topic string, want int) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	n := 0
	for {
		err := c.w.db.sql().QueryRowContext(ctx, `SELECT count(*) FROM dlq.dlq_messages WHERE dlq_topic = $1`, topic).Scan(&n)
		if err == nil && n >= want {
			return nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("%d of %d records are letters: %w", n, want, err)
		}
	}
}

// again tries until something is done, or ctx ends: brokers go and come.
func (c *topicLives) again(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || !pause(ctx, 100*time.Millisecond) {
			return err
		}
	}
}

func (c *topicLives) create(ctx context.Context, topic string) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, topicPartitions, 1
	req.Topics = append(req.Topics, rt)
	res, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(res.Topics[0].ErrorCode); !errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	return nil // the answer to the last attempt was lost
}

func (c *topicLives) remove(ctx context.Context, topic string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.Topic = &topic
	req.TopicNames, req.Topics = []string{topic}, append(req.Topics, rt)
	res, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(res.Topics[0].ErrorCode); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return err
	}
	return nil
}

// judge compares every letter with its record.
func (c *topicLives) judge(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := c.w.heal(ctx); err != nil {
		t.Error(err)
	}
	db, err := postgres.Open(ctx, postgres.Config{DSN: c.w.db.url})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	letters := postgres.NewLetters(db, dlq.DefaultPolicy)
	rows, err := c.w.db.sql().QueryContext(ctx, `SELECT id, tenant_id FROM dlq.dlq_messages`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := map[string]int{}
	for rows.Next() {
		var id, tenant uuid.UUID
		if err := rows.Scan(&id, &tenant); err != nil {
			t.Fatal(err)
		}
		l, err := letters.Get(ctx, tenant, id)
		if err != nil {
			t.Fatal(err)
		}
		value := string(l.Content.Payload)
		found[value]++
		r := c.sent[value]
		switch {
		case r == nil:
			c.w.add("D1", id.String(), "", "nobody wrote %q", value)
		case found[value] > 1:
			c.w.add("D1", id.String(), "", "%s has %d letters", value, found[value])
		case !sameContent(r, l.Content) || l.Arrived == nil || l.Arrived.Topic != r.Topic || l.Arrived.Partition != r.Partition || l.Arrived.Offset != r.Offset:
			c.w.add("D1", id.String(), "", "%s has changed: %+v at %v", value, l.Content, l.Arrived)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for value := range c.sent {
		if found[value] == 0 {
			c.w.add("D1", "", "", "%s is no letter", value)
		}
	}
}

func sameContent(r *kgo.Record, c dlq.Content) bool {
	if !bytes.Equal(r.Key, c.Key) || !bytes.Equal(r.Value, c.Payload) || len(r.Headers) != len(c.Headers) {
		return false
	}
	for i, h := range r.Headers {
		if h.Key != c.Headers[i].Name || !bytes.Equal(h.Value, c.Headers[i].Value) || (h.Value == nil) != (c.Headers[i].Value == nil) {
			return false
		}
	}
	return true
}
