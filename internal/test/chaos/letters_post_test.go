package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The topics of a run: the dead-letter topic, and the topic that the records originally come from.
const (
	ordersTopic = "orders"
	deadTopic   = "orders.dlq"
)

// recordPosition is the position of a record in Kafka.
type recordPosition struct {
	topic     string
	partition int32
	offset    int64
}

// post is a Kafka broker with its clients: producers that write dead letters, and the consumer of
// redriven records.
type post struct {
	w      *world
	broker *kfake.Cluster
	client *kgo.Client
	away   atomic.Bool // the broker closes every connection

	mu   sync.Mutex
	sent map[recordPosition]*kgo.Record // guarded by mu: every record of deadTopic
	seen map[string]int                 // guarded by mu: copies that came back to ordersTopic, by root/generation
	odd  []string                       // guarded by mu: unexpected records of ordersTopic

	stop func()
}

// openPost starts a broker and the consumer of redriven records.
func openPost(w *world) (*post, error) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, ordersTopic, deadTopic))
	if err != nil {
		return nil, err
	}
	p := &post{w: w, broker: broker, sent: map[recordPosition]*kgo.Record{}, seen: map[string]int{}}
	broker.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		if p.away.Load() {
			return nil, errors.New("the broker is away"), true
		}
		return nil, nil, false
	})
	p.client, err = kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics(ordersTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		broker.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); p.consume(ctx) }()
	p.stop = func() { cancel(); <-done; p.client.Close(); broker.Close() }
	return p, nil
}

// giveUp writes n records to the dead-letter topic, with the headers that several tools use.
func (p *post) giveUp(ctx context.Context, dice *rand.Rand, n int) error {
	for range n {
		id := dice.Uint64()
		headers := []kgo.RecordHeader{{Key: "trace", Value: []byte{0, 1, 255}}, {Key: "trace", Value: nil}}
		switch dice.IntN(3) {
		case 0:
			headers = append(
				headers,
				kgo.RecordHeader{Key: "original_topic", Value: []byte(ordersTopic)},
				kgo.RecordHeader{Key: "error", Value: []byte("payment refused")},
			)
		case 1:
			headers = append(
				headers,
				kgo.RecordHeader{Key: "kafka_dlt-original-topic", Value: []byte(ordersTopic)},
				kgo.RecordHeader{
					Key:   "kafka_dlt-exception-message",
					Value: []byte("timed out after " + strconv.Itoa(dice.IntN(1000)) + " ms"),
				},
			)
		}
		r := &kgo.Record{
			Topic: deadTopic, Partition: dice.Int32N(4), Key: fmt.Appendf(nil, "customer-%d", id%50),
			Value: fmt.Appendf(nil, `{"order": %d, "note": "a\u0000b%d"}`, id, dice.IntN(100)), Headers: headers,
		}
		if err := p.write(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// write produces one record and records it in sent. While the broker is down, the client retries.
func (p *post) write(ctx context.Context, r *kgo.Record) error {
	if err := p.client.ProduceSync(ctx, r).FirstErr(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent[recordPosition{r.Topic, r.Partition, r.Offset}] = r
	return nil
}

// consume reads redriven records and writes every sixth of them to the dead-letter topic again, as
// a bounce.
func (p *post) consume(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := p.client.PollFetches(ctx)
		fetches.EachRecord(func(r *kgo.Record) {
			root, generation := header(r, "x-dlq-message-id"), header(r, "x-dlq-generation")
			first := p.note(r, root, generation)
			number, _ := strconv.Atoi(generation)
			if !first || number > 0 || len(root) == 0 || root[len(root)-1]%6 != 0 {
				return
			}
			again := &kgo.Record{Topic: deadTopic, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: append(
				r.Headers,
				kgo.RecordHeader{
					Key:   "original_topic",
					Value: []byte(ordersTopic),
				},
				kgo.RecordHeader{Key: "error", Value: []byte("failed again")},
			)}
			if err := p.write(ctx, again); err != nil && ctx.Err() == nil {
				p.w.add("harness", "", "", "give a record up again: %v", err)
			}
		})
	}
}

// note counts a redriven record and reports whether it is the first of its kind.
func (p *post) note(r *kgo.Record, root, generation string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if root == "" || !strings.HasPrefix(string(r.Key), "customer-") {
		p.odd = append(p.odd, fmt.Sprintf("key %q, root %q", r.Key, root))
	}
	p.seen[root+"/"+generation]++
	return p.seen[root+"/"+generation] == 1
}

func header(r *kgo.Record, name string) (value string) {
	for _, h := range r.Headers {
		if h.Key == name {
			value = string(h.Value)
		}
	}
	return value
}

// written returns how many records were written to the dead-letter topic.
func (p *post) written() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sent)
}
