package kafka_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/kafka"
	"github.com/skald-saga/skald/internal/test/patience"
)

// cluster represents the brokers of a test: those in TEST_KAFKA_BROKERS, which other tests also
// use, or fakes in this process. Names of topics and groups contain its mark, so that tests do not
// share any.
type cluster struct {
	t      *testing.T
	addrs  []string
	mark   string
	client *kgo.Client
	fake   *kfake.Cluster // nil: real brokers
}

// newCluster uses the given brokers, or fakes if there are none.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	if given := os.Getenv("TEST_KAFKA_BROKERS"); given != "" {
		return openCluster(t, strings.Split(given, ","), nil)
	}
	return newFake(t)
}

// newFake is for tests that make brokers fail.
func newFake(t *testing.T, opts ...kfake.Opt) *cluster {
	t.Helper()
	fake, err := kfake.NewCluster(
		append(
			[]kfake.Opt{kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "20000000"})},
			opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	return openCluster(t, fake.ListenAddrs(), fake)
}

func openCluster(t *testing.T, addrs []string, fake *kfake.Cluster) *cluster {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(addrs...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(30<<20),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.UnknownTopicRetries(-1), // brokers may take a while to learn of a new topic; produce has a time limit
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &cluster{
		t:      t,
		addrs:  addrs,
		mark:   "t" + strings.ReplaceAll(uuid.NewString(), "-", "")[:12],
		client: client,
		fake:   fake,
	}
}

func (c *cluster) connection() kafka.Connection {
	return kafka.Connection{Brokers: c.addrs, ClientID: "skald-test"}
}

// name returns a topic name that only this test uses.
func (c *cluster) name(topic string) string { return c.mark + "-" + topic }

// create makes a topic that takes records of up to 20 MB.
func (c *cluster) create(topic string, partitions int32) string {
	c.t.Helper()
	if _, err := c.tryCreate(topic, partitions); err != nil {
		c.t.Fatalf("create %s: %v", topic, err)
	}
	return c.name(topic)
}

// tryCreate returns the id of the topic.
func (c *cluster) tryCreate(topic string, partitions int32) ([16]byte, error) {
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = c.name(topic), partitions, 1
	size := "20000000"
	rt.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "max.message.bytes", Value: &size}}
	req.Topics, req.TimeoutMillis = append(req.Topics, rt), 10_000
	res, err := req.RequestWith(c.t.Context(), c.client)
	if err != nil {
		return [16]byte{}, err
	}
	return res.Topics[0].TopicID, kerr.ErrorForCode(res.Topics[0].ErrorCode)
}

// knows reports whether the brokers return this id for a topic. Shortly after a topic was
// recreated, they may still return the id of the deleted one.
func (c *cluster) knows(topic string, id [16]byte) bool {
	known, ok := c.metadata(c.name(topic))
	return ok && known.TopicID == id
}

// metadata returns what the brokers report about a topic.
func (c *cluster) metadata(topic string) (known kmsg.MetadataResponseTopic, ok bool) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, rt)
	res, err := req.RequestWith(c.t.Context(), c.client)
	if err != nil || len(res.Topics) != 1 || res.Topics[0].ErrorCode != 0 {
		return known, false
	}
	return res.Topics[0], true
}

// assigned reports whether all members of a group have their partitions.
func (c *cluster) assigned(group string) bool {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	res, err := req.RequestWith(c.t.Context(), c.client)
	return err == nil && len(res.Groups) == 1 && res.Groups[0].State == "Stable"
}

// produce writes records and returns them with their partitions and offsets.
func (c *cluster) produce(records ...*kgo.Record) []*kgo.Record {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience.Limit)
	defer cancel()
	if err := c.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		c.t.Fatalf("produce: %v", err)
	}
	return records
}

// consume reads n records of a topic from its beginning, in the order of each
// partition.
func (c *cluster) consume(topic string, n int) (records []*kgo.Record) {
	c.t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(c.addrs...),
		kgo.ConsumeTopics(topic),
		kgo.FetchMaxPartitionBytes(30<<20),
		kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience.Limit)
	defer cancel()
	for len(records) < n {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			c.t.Fatalf("%s: %d of %d records came", topic, len(records), n)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

// ends returns the number of records in a topic.
func (c *cluster) ends(topic string, partitions int32) (sum int64) {
	c.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for p := range partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p, -1
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	for _, shard := range c.client.RequestSharded(c.t.Context(), req) {
		if shard.Err != nil {
			c.t.Fatal(shard.Err)
		}
		for _, rt := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, rp := range rt.Partitions {
				sum += rp.Offset
			}
		}
	}
	return sum
}

// committed returns the offset that a group has committed for the first partition of a topic, or -1
// if there is none.
func (c *cluster) committed(group, topic string) int64 {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{0}
	req.Group, req.Topics = group, append(req.Topics, rt)
	res, err := req.RequestWith(c.t.Context(), c.client)
	if err != nil || len(res.Topics) != 1 {
		return -1
	}
	return res.Topics[0].Partitions[0].Offset
}
