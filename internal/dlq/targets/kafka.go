package targets

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/kafka"
)

// KafkaConfig configures the driver that sends dead letters to Kafka.
type KafkaConfig struct {
	kafka.Connection
	// Forbidden reports whether ingestion reads a topic. Letters are never driven to such a topic,
	// regardless of the requester (invariant D6). nil means that there is no ingestion.
	Forbidden func(topic string) bool
	// CreateTopics lets a broker with topic auto-creation create a missing topic.
	CreateTopics bool
	Timeout      time.Duration // 20 s: records not acknowledged by then are uncertain
	Now          func() time.Time
}

// Kafka writes dead letters to Kafka. It is safe for concurrent use.
type Kafka struct {
	cfg KafkaConfig
	// most sends records that fit into a batch with others. single sends records one at a time,
	// each in its own batch; it is used for large records, and for records rejected together with
	// others.
	most, single *kgo.Client
	written      *atomic.Int64 // number of produce requests of which any byte was written to a broker
}

const (
	largeRecord  = 900_000 // bytes; by default, brokers accept batches of about a megabyte
	maxOneRecord = 64 << 20
)

// Open returns a driver. It connects at the first drive.
func (c KafkaConfig) Open() (*Kafka, error) {
	if c.Timeout <= 0 {
		c.Timeout = 20 * time.Second
	}
	r := &Kafka{cfg: c, written: new(atomic.Int64)}
	opts := append(kafka.Durable(),
		kgo.RecordPartitioner(partitioner{kgo.StickyKeyPartitioner(nil)}),
		kgo.AllowIdempotentProduceCancellation(), // a letter with an unknown outcome is driven again
		kgo.ProduceRequestTimeout(c.Timeout/2), kgo.RequestTimeoutOverhead(min(10*time.Second, c.Timeout/2)),
		kgo.WithHooks(writes{r.written}),
	)
	if c.CreateTopics {
		opts = append(opts, kgo.AllowAutoTopicCreation())
	}
	var err error
	if r.most, err = kafka.NewClient(c.Connection, opts...); err != nil {
		return nil, err
	}
	if r.single, err = kafka.NewClient(c.Connection,
		append(opts, kgo.ProducerBatchMaxBytes(maxOneRecord))...); err != nil {
		r.most.Close()
		return nil, err
	}
	return r, nil
}

// Close closes the connections and abandons whatever is in flight.
func (r *Kafka) Close() {
	r.most.Close()
	r.single.Close()
}

// Drive produces letters and returns the result of each, in order. It returns at the latest about
// Timeout after it began, and soon after ctx ends.
func (r *Kafka) Drive(ctx context.Context, batch []dlq.Drive) []dlq.Result {
	results, records := make([]dlq.Result, len(batch)), make([]*kgo.Record, len(batch))
	started := r.cfg.Now()
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	before := r.written.Load()
	errs := make([]error, len(batch))
	var together, alone []int
	for i := range batch {
		if why := r.refuse(&batch[i]); why != "" {
			results[i] = dlq.Result{Outcome: dlq.FailedDrive, Error: why}
			continue
		}
		records[i] = recordFor(ctx, &batch[i], dlq.RedriveHeaders)
		if kafka.SizeOf(records[i]) > largeRecord {
			alone = append(alone, i)
		} else {
			together = append(together, i)
		}
	}
	produce(ctx, r.most, together, records, errs)
	if len(together) > 1 {
		for _, i := range together {
			if kafka.BatchRefused(errs[i]) { // sending each record separately shows which one was the cause
				records[i], errs[i] = recordFor(ctx, &batch[i], dlq.RedriveHeaders), nil
				alone = append(alone, i)
			}
		}
	}
	for _, i := range alone {
		produce(ctx, r.single, []int{i}, records, errs)
	}
	for i := range records {
		if kafka.TooLarge(errs[i]) { // informative headers are no reason to keep a letter back
			records[i], errs[i] = recordFor(ctx, &batch[i], dlq.FewRedriveHeaders), nil
			produce(ctx, r.single, []int{i}, records, errs)
		}
	}
	silent := r.written.Load() == before
	for i := range results {
		switch {
		case records[i] == nil:
		case kafka.TooLarge(errs[i]):
			results[i] = dlq.Result{Outcome: dlq.FailedDrive, TooLarge: true, Error: r.tooLarge(ctx, records[i], errs[i])}
		default:
			results[i] = resultOf(records[i], errs[i], silent)
		}
		results[i].StartedAt, results[i].EndedAt = started, r.cfg.Now()
	}
	return results
}

// refuse returns the reason why a letter must not be driven, or "" if it may be driven.
func (r *Kafka) refuse(d *dlq.Drive) string {
	switch topic := topicOf(d); {
	case r.cfg.Forbidden != nil && r.cfg.Forbidden(topic):
		return fmt.Sprintf("%s is a dead-letter topic: the letter would come back immediately", topic)
	case d.Revision == 0 && slices.Contains(d.Labels, dlq.LabelTruncated):
		return "the payload was truncated: retry the letter with the whole payload"
	}
	return ""
}

func topicOf(d *dlq.Drive) string {
	if d.To.Topic != "" {
		return d.To.Topic
	}
	return d.OriginalTopic
}

func recordFor(ctx context.Context, d *dlq.Drive, headers func(*dlq.Drive) []dlq.Header) *kgo.Record {
	r := &kgo.Record{Topic: topicOf(d), Key: d.Send.Key, Value: d.Send.Payload, Partition: byKey}
	if d.To.Partition != nil {
		r.Partition = *d.To.Partition
		r.Context = context.WithValue(ctx, missing{}, new(bool))
	}
	for _, h := range headers(d) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
	}
	return r
}

// produce sends the chosen records and waits for the outcome of each.
func produce(ctx context.Context, client *kgo.Client, chosen []int, records []*kgo.Record, errs []error) {
	done := make(chan struct{}, len(chosen))
	for _, i := range chosen {
		client.Produce(ctx, records[i], func(_ *kgo.Record, err error) {
			errs[i] = err
			done <- struct{}{}
		})
	}
	for range chosen {
		<-done
	}
}

// resultOf converts an error of the client to a result. silent means that nothing has been written
// to a broker since the drive began.
func resultOf(r *kgo.Record, err error, silent bool) dlq.Result {
	switch {
	case err == nil:
		return dlq.Result{Outcome: dlq.Acknowledged, Written: &dlq.Position{Topic: r.Topic, Partition: r.Partition,
			Offset: r.Offset}}
	case lacksPartition(r):
		return dlq.Result{Outcome: dlq.FailedDrive, Missing: true, Error: fmt.Sprintf("Kafka: topic %s has no partition %d", r.Topic, r.Partition)}
	case kafka.MissingTopic(err):
		return dlq.Result{Outcome: dlq.FailedDrive, Missing: true, Error: fmt.Sprintf("Kafka: there is no topic %s: %v", r.Topic, err)}
	case kafka.BatchRefused(err), kafka.Refusal(err):
		return dlq.Result{Outcome: dlq.FailedDrive, Error: fmt.Sprintf("Kafka: %s: %s", r.Topic, err)}
	case silent:
		return dlq.Result{Outcome: dlq.Withdrawn, Error: "Kafka: no broker could be reached: " + err.Error()}
	}
	return dlq.Result{Outcome: dlq.Uncertain, Error: "Kafka: a broker received the record but did not answer, so it may have been written; the last error: " + err.Error()}
}

// byKey means that the partition is chosen by the record's key.
const byKey = -1

// missing is the context key of a flag that is set for a record requesting a partition that its
// topic does not have.
type missing struct{}

func lacksPartition(r *kgo.Record) bool {
	flag, ok := r.Context.Value(missing{}).(*bool)
	return ok && *flag
}

// partitioner uses the requested partition, if any; otherwise the key decides, as in Kafka's own
// clients.
type partitioner struct{ byKey kgo.Partitioner }

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.byKey.ForTopic(topic)}
}

type topicPartitioner struct{ byKey kgo.TopicPartitioner }

func (p topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || p.byKey.RequiresConsistency(r)
}

func (p topicPartitioner) Partition(r *kgo.Record, n int) int {
	switch {
	case int(r.Partition) >= n:
		if flag, ok := r.Context.Value(missing{}).(*bool); ok {
			*flag = true
		}
		return -1 // the client rejects this value
	case r.Partition >= 0:
		return int(r.Partition)
	}
	return p.byKey.Partition(r, n)
}

// OnNewBatch implements kgo.TopicPartitionerOnNewBatch. Records without a key stay together until a
// batch is full.
func (p topicPartitioner) OnNewBatch() {
	if sticky, ok := p.byKey.(kgo.TopicPartitionerOnNewBatch); ok {
		sticky.OnNewBatch()
	}
}

// writes counts the produce requests of which a broker may have received some part.
type writes struct{ n *atomic.Int64 }

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (w writes) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, written int, _, _ time.Duration, _ error) {
	if key == int16(kmsg.Produce) && written > 0 {
		w.n.Add(1)
	}
}
