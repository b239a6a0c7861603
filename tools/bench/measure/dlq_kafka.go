package measure

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxRecord is the largest record that the topics of a run accept.
const maxRecord = "20000000"

// ServeBroker serves one fake Kafka broker, in memory and on loopback, until
// ctx ends, and writes its address, one line, to out.
func ServeBroker(ctx context.Context, out io.Writer) error {
	broker, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.BrokerConfigs(map[string]string{"message.max.bytes": maxRecord}),
	)
	if err != nil {
		return fmt.Errorf("start the broker: %w", err)
	}
	defer broker.Close()
	if _, err := fmt.Fprintln(out, strings.Join(broker.ListenAddrs(), ",")); err != nil {
		return fmt.Errorf("announce the broker's address: %w", err)
	}
	<-ctx.Done()
	return nil
}

// topics is a cluster with methods to fill it and count its records.
type topics struct{ client *kgo.Client }

func openTopics(brokers []string) (*topics, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.ProducerBatchMaxBytes(1_000_000),
		kgo.UnknownTopicRetries(20),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.MaxBufferedRecords(20_000),
	)
	if err != nil {
		return nil, fmt.Errorf("open Kafka: %w", err)
	}
	return &topics{client}, nil
}

func (t *topics) create(ctx context.Context, name string, partitions int32) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	size := maxRecord
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "max.message.bytes", Value: &size}}
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 10_000
	res, err := req.RequestWith(ctx, t.client)
	if err == nil {
		err = kerr.ErrorForCode(res.Topics[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	return nil
}

// fill writes n small dead letters in the form of Spring for Apache Kafka: about 200 bytes of
// JSON, a key and six headers, of ten kinds of errors.
func (t *topics) fill(ctx context.Context, topic, original string, n int) error {
	var failed atomic.Pointer[error]
	for i := range n {
		t.client.Produce(ctx, smallLetter(topic, original, i), func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := t.client.Flush(ctx); err != nil {
		return fmt.Errorf("fill %s: %w", topic, err)
	}
	if err := failed.Load(); err != nil {
		return fmt.Errorf("fill %s: %w", topic, *err)
	}
	return nil
}

func smallLetter(topic, original string, i int) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Key: fmt.Appendf(nil, "order-%d", i%50_000),
		Value: fmt.Appendf(
			nil,
			`{"order_id":"%08d-0000-7000-8000-%012d","customer":"customer-%d","items":[{"sku":"sku-%d","quantity":%d,"price":19.90}],"currency":"EUR","placed_at":"2026-03-04T05:06:07Z","note":"none"}`,
			i,
			i,
			i%1000,
			i%100,
			i%7+1,
		),
		Headers: []kgo.RecordHeader{
			{Key: "kafka_dlt-original-topic", Value: []byte(original)},
			{
				Key:   "kafka_dlt-original-partition",
				Value: binary.BigEndian.AppendUint32(nil, uint32(i%8)),
			}, //nolint:gosec // small
			{
				Key:   "kafka_dlt-original-offset",
				Value: binary.BigEndian.AppendUint64(nil, uint64(i)),
			}, //nolint:gosec // not negative
			{Key: "kafka_dlt-original-consumer-group", Value: []byte("shop")},
			{Key: "kafka_dlt-exception-fqcn", Value: fmt.Appendf(nil, "com.example.shop.Failure%dException", i%10)},
			{
				Key:   "kafka_dlt-exception-message",
				Value: fmt.Appendf(nil, "order %d of customer-%d was refused after %d ms", i, i%1000, i%977),
			},
		},
	}
}

// fillLarge writes n records of ten megabytes that do not compress.
func (t *topics) fillLarge(ctx context.Context, brokers []string, topic, original string, n int) error {
	// It has its own client: a batch may be as large as one of these records.
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.ProducerBatchMaxBytes(19_000_000),
		kgo.UnknownTopicRetries(20),
	)
	if err != nil {
		return fmt.Errorf("open Kafka: %w", err)
	}
	defer client.Close()
	value := make([]byte, 10_000_000)
	if _, err := rand.Read(value); err != nil {
		return fmt.Errorf("create a large record: %w", err)
	}
	for i := range n {
		binary.BigEndian.PutUint64(value, uint64(i)) //nolint:gosec // not negative
		record := &kgo.Record{
			Topic:   topic,
			Value:   value,
			Headers: []kgo.RecordHeader{{Key: "kafka_dlt-original-topic", Value: []byte(original)}},
		}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return fmt.Errorf("fill %s: %w", topic, err)
		}
	}
	return nil
}

// count returns how many records a topic has ever received.
func (t *topics) count(ctx context.Context, topic string, partitions int32) (sum int64, err error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic = topic
	for p := range partitions {
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition, partition.Timestamp = p, -1
		asked.Partitions = append(asked.Partitions, partition)
	}
	req.Topics = append(req.Topics, asked)
	for _, shard := range t.client.RequestSharded(ctx, req) {
		res, ok := shard.Resp.(*kmsg.ListOffsetsResponse)
		if shard.Err != nil || !ok {
			return 0, fmt.Errorf("count %s: %w", topic, errors.Join(shard.Err, err))
		}
		for _, answered := range res.Topics {
			for _, partition := range answered.Partitions {
				sum += partition.Offset
			}
		}
	}
	return sum, nil
}
