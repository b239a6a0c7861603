package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/postgres"
)

// topicPlan is the plan of a run with topics that are deleted and recreated.
type topicPlan struct {
	plan
	topics, lives, records int           // records is the total over all lives of the topics
	absences               int           // outages of a broker
	up                     time.Duration // minimum time between two outages
	rest                   time.Duration // longest pause before a topic is written to
	outage                 time.Duration // how long a broker is down; for a real broker, the maximum
}

var topicPlans = map[string]topicPlan{
	"":     {plan{lease: time.Second, nodes: 2, kills: 3, gap: 2 * time.Second}, 4, 3, 360, 3, 2 * time.Second, 0, time.Second},
	"long": {plan{lease: time.Second, nodes: 2, kills: 25, cuts: 10, gap: 4 * time.Second}, 20, 5, 10_000, 12, 2 * time.Second, 2 * time.Second, 3 * time.Second},
}

// realTopicPlans are the plans for Apache Kafka, which takes longer to restart.
var realTopicPlans = map[string]topicPlan{
	"":     {plan{lease: time.Second, nodes: 2, kills: 2, gap: 3 * time.Second}, 3, 2, 180, 1, 2 * time.Second, time.Second, 0},
	"long": {plan{lease: time.Second, nodes: 2, kills: 30, cuts: 10, gap: 12 * time.Second}, 20, 5, 10_000, 10, 20 * time.Second, 30 * time.Second, 3 * time.Second},
}

// TestDeadLettersSurviveRecreatedTopics shows that every record of a topic that is deleted and
// recreated becomes one letter, byte for byte, whichever process dies in the meantime. A topic is
// deleted only once all of its records are stored: before that, Kafka itself would lose records.
// With TEST_KAFKA_LIBS, the test also runs with an Apache Kafka that is killed with SIGKILL.
func TestDeadLettersSurviveRecreatedTopics(t *testing.T) {
	t.Parallel()
	mode, libs := chaosMode(t), os.Getenv("TEST_KAFKA_LIBS")
	t.Run("brokers of this process", func(t *testing.T) { surviveTopics(t, topicPlans[mode], "") })
	if libs != "" {
		t.Run("Apache Kafka", func(t *testing.T) { surviveTopics(t, realTopicPlans[mode], libs) })
	}
}

func surviveTopics(t *testing.T, tp topicPlan, libs string) {
	t.Parallel()
	began := time.Now()
	w := newWorld(t, tp.plan, seed(t), binary(t, buildPlain))
	c, err := openTopics(w, tp, libs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	w.env = []string{"SKALD_KAFKA_BROKERS=" + strings.Join(c.brokers.addrs(), ","), `SKALD_INGEST_TOPICS=[.]dlq$`,
		"SKALD_DLQ_AUTO_RETRY=false"}
	if w.db, err = ownDatabase(t.Context(), w.dir); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	if err := w.heal(ctx); err != nil {
		t.Fatal(err)
	}
	var trouble, topics sync.WaitGroup
	var absences atomic.Int64
	trouble.Go(func() { (&nemesis{w: w, dice: w.dice("nemesis")}).run(ctx) })
	trouble.Go(func() {
		for dice := w.dice("brokers"); int(absences.Load()) < tp.absences && pause(ctx, tp.up); absences.Add(1) {
			if err := c.brokers.leave(ctx, dice, tp.outage); err != nil {
				w.add("harness", "", "", "%v", err)
				return
			}
		}
	})
	for i := range tp.topics {
		topics.Go(func() {
			struck := func() bool { return w.tally.kills.Load() > 0 && absences.Load() > 0 }
			if err := c.live(ctx, i, tp.lives, tp.records/tp.topics/tp.lives, struck); err != nil {
				t.Errorf("topic %d: %v", i, err)
			}
		})
	}
	topics.Wait()
	kills, lived := w.tally.kills.Load(), absences.Load() // while topics existed
	trouble.Wait()
	lives := c.judge(ctx, t)
	w.reportFindings()
	t.Logf("topics made anew on %s: seed=%d topics=%d lives=%d records=%d kills=%d (%d while topics lived) pg_cuts=%d broker_absences=%d (%d) violations=%d in %s",
		c.brokers, w.seed, tp.topics, lives, len(c.sent), w.tally.kills.Load(), kills, w.tally.cuts.Load(),
		absences.Load(), lived, len(w.all()), time.Since(began).Round(time.Second))
	// A node that couldn't get a topic's id may have stored a substitute (decision 0044), so there
	// may be more lives.
	if len(c.sent) != tp.records || kills == 0 || lived == 0 || lives < tp.topics*tp.lives {
		t.Errorf("the run proves nothing: %d records, %d lives, %d kills of nodes and %d absences of brokers while topics lived", len(c.sent), lives, kills, lived)
	}
}

// topicLives are topics that are created and deleted, with the records written to them.
type topicLives struct {
	w       *world
	plan    topicPlan
	brokers brokers
	client  *kgo.Client

	mu   sync.Mutex
	sent map[string]*kgo.Record // guarded by mu: by value, which is unique
}

const topicPartitions = 3

// openTopics starts brokers in this process or, if it is given the jars, an Apache Kafka.
func openTopics(w *world, tp topicPlan, libs string) (*topicLives, error) {
	c := &topicLives{w: w, plan: tp, sent: map[string]*kgo.Record{}}
	var err error
	if libs == "" {
		c.brokers, err = startFakeBrokers(w)
	} else {
		c.brokers, err = startRealBroker(w, libs)
	}
	if err != nil {
		return nil, err
	}
	c.client, err = c.open()
	return c, err
}

func (c *topicLives) open() (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(c.brokers.addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.UnknownTopicRetries(-1), kgo.RequiredAcks(kgo.AllISRAcks()))
}

func (c *topicLives) close() {
	c.client.Close()
	c.brokers.close()
}

// live repeatedly creates a topic, fills it, waits until all of its records are stored, and deletes
// it. In the last life, it pauses with part of the records written until struck returns true:
// otherwise a fast machine would be done before any fault was injected.
func (c *topicLives) live(ctx context.Context, i, lives, records int, struck func() bool) error {
	topic, dice := fmt.Sprintf("topic-%d.dlq", i), c.w.dice(fmt.Sprintf("topic %d", i))
	for life := range lives {
		if err := c.again(ctx, func() error { return c.create(ctx, topic) }); err != nil {
			return err
		}
		written := map[int32][]*kgo.Record{}
		for k := range records {
			partition := int32(k % topicPartitions) //nolint:gosec // small
			written[partition] = append(written[partition], &kgo.Record{
				Topic: topic, Partition: partition, Key: fmt.Appendf(nil, "key-%d", k%5),
				Value: fmt.Appendf(nil, `{"topic":%d,"life":%d,"record":%d}`, i, life, k),
				Headers: []kgo.RecordHeader{{Key: "kafka_dlt-original-topic", Value: []byte("orders")},
					{Key: "raw", Value: []byte{0, byte(k), 255}}, {Key: "raw"}},
			})
		}
		for _, of := range written {
			pause(ctx, time.Duration(dice.Int64N(int64(c.plan.rest)+1)))
			if err := c.write(ctx, topic, of); err != nil {
				return fmt.Errorf("life %d: %w", life, err)
			}
			for life == lives-1 && !struck() && pause(ctx, 20*time.Millisecond) {
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
		// The controller has deleted the topic, but a broker accepts records for it until it learns
		// of the deletion.
		if err := c.again(ctx, func() error { return c.gone(ctx, topic) }); err != nil {
			return err
		}
	}
	return nil
}

// write returns once all records of a partition are acknowledged and stored in it. A broker that
// has just restarted may still know the previous life of the topic: it acknowledges records for
// that life and deletes them with it, or refuses them. Each attempt has its own client and so its
// own producer id: otherwise the broker would mistake the sequence numbers of one life for
// repetitions of another's.
func (c *topicLives) write(ctx context.Context, topic string, records []*kgo.Record) error {
	for {
		client, err := c.open()
		if err != nil {
			return err
		}
		err = c.tryWrite(ctx, client, topic, records)
		client.Close()
		tryAgain := errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, errFormerLife) ||
			err != nil && strings.Contains(err.Error(), "unable to initialize a producer ID") // nothing was sent
		if !tryAgain || !pause(ctx, 100*time.Millisecond) {
			return err
		}
	}
}

var errFormerLife = errors.New("acknowledged into a former life of the topic")

// tryWrite writes the records of a partition, either all or none.
func (c *topicLives) tryWrite(ctx context.Context, client *kgo.Client, topic string, records []*kgo.Record) error {
	tries := make([]*kgo.Record, len(records))
	for i, r := range records {
		tries[i] = &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers}
	}
	results := client.ProduceSync(ctx, tries...)
	var end int64
	last := func() (err error) { end, err = c.end(ctx, topic, records[0].Partition); return err }
	if err := c.again(ctx, last); err != nil {
		return err
	}
	if err := results.FirstErr(); err != nil {
		if end != 0 {
			return fmt.Errorf("%d of %d records lie in partition %d: %v", end, len(records), records[0].Partition, err) //nolint:errorlint // must not be retried
		}
		return err
	}
	switch end {
	case int64(len(records)):
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, r := range results {
			c.sent[string(r.Record.Value)] = r.Record
		}
		return nil
	case 0:
		c.w.log.write("%s: %d records of partition %d: %v", topic, len(records), records[0].Partition, errFormerLife)
		return errFormerLife
	}
	return fmt.Errorf("%d of %d records lie in partition %d, and all are acknowledged", end, len(records), records[0].Partition)
}

// gone returns nil once the brokers no longer know a topic.
func (c *topicLives) gone(ctx context.Context, topic string) error {
	_, err := c.end(ctx, topic, 0)
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return nil
	case err == nil:
		return errors.New(topic + " is still there")
	}
	return err
}

// end returns the end offset of a partition.
func (c *topicLives) end(ctx context.Context, topic string, partition int32) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	rt, rp := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp, req.ReplicaID = partition, -1, -1
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	client, err := c.open()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	res, err := req.RequestWith(ctx, client)
	if err != nil {
		return 0, err
	}
	at := res.Topics[0].Partitions[0]
	return at.Offset, kerr.ErrorForCode(at.ErrorCode)
}

// stored waits until the database has want letters of a topic.
func (c *topicLives) stored(ctx context.Context, topic string, want int) error {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	defer cancel()
	for n := 0; ; {
		err := c.w.db.sql().QueryRowContext(ctx, `SELECT count(*) FROM dlq.dlq_messages WHERE dlq_topic = $1`, topic).Scan(&n)
		if err == nil && n >= want {
			return nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("%d of %d records are letters: %w", n, want, errors.Join(err, ctx.Err()))
		}
	}
}

// again retries until do succeeds or ctx ends, because brokers come and go.
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
	return nil // the response to the previous attempt was lost
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

// judge compares every letter with its record and returns the number of topic lives that have
// letters.
func (c *topicLives) judge(ctx context.Context, t *testing.T) (lives int) {
	t.Helper()
	if err := c.w.heal(ctx); err != nil {
		t.Error(err)
	}
	db, err := postgres.Open(ctx, postgres.Config{DSN: c.w.db.url})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	letters := dlqdb.NewLetters(db, dlq.DefaultPolicy)
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
		case !sameContent(r, l.Content) || l.Arrived == nil || l.Arrived.Topic != r.Topic ||
			l.Arrived.Partition != r.Partition || l.Arrived.Offset != r.Offset:
			c.w.add("D1", id.String(), "", "%s has changed: %+v at %v", value, l.Content, l.Arrived)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for value := range c.sent {
		if found[value] == 0 {
			c.w.add("D1", "", "", "%s is not a letter", value)
		}
	}
	if err := c.w.db.sql().QueryRowContext(ctx, `SELECT count(DISTINCT (dlq_topic, dlq_topic_id)) FROM dlq.dlq_messages`).Scan(&lives); err != nil {
		t.Fatal(err)
	}
	return lives
}
