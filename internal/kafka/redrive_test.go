package kafka_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/targets"
	"github.com/skald-saga/skald/internal/kafka"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testnet"
)

func (c *cluster) redriver(change ...func(*targets.KafkaConfig)) *targets.Kafka {
	c.t.Helper()
	cfg := targets.KafkaConfig{Connection: c.connection(), Now: time.Now, Timeout: time.Minute}
	for _, f := range change {
		f(&cfg)
	}
	r, err := cfg.Open()
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(r.Close)
	return r
}

// driven is a letter being sent to a topic.
func driven(topic string, key, payload []byte, headers ...dlq.Header) dlq.Drive {
	content := dlq.Content{Key: key, Payload: payload, Headers: headers}
	return dlq.Drive{
		Letter: dlq.Letter{ID: uuid.New(), RootID: uuid.New(), OriginalTopic: topic, Content: content},
		Send:   content, To: dlq.Target{Kind: dlq.ToKafka, Topic: topic}, Number: 1,
	}
}

func outcomes(results []dlq.Result) (all []string) {
	for _, r := range results {
		all = append(all, string(r.Outcome))
	}
	return all
}

func TestARedriveKeepsKeyHeadersAndBytes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	topic := c.create("orders", 6)
	r := c.redriver()
	big := bytes.Repeat([]byte("\x00\xff{"), 3_400_000) // 10.2 MB
	var batch []dlq.Drive
	for i := range 300 {
		batch = append(batch, driven(
			topic,
			fmt.Appendf(nil, "key-%d", i),
			fmt.Appendf(nil, `{"b":1.00,"a":%d,"a":2}`, i),
			dlq.Header{
				Name:  "n",
				Value: []byte("1"),
			},
			dlq.Header{Name: "N", Value: nil},
			dlq.Header{Name: "n", Value: []byte{0, 0xff}},
		))
	}
	batch = append(batch, driven(topic, nil, nil), driven(topic, []byte{}, []byte{}), driven(topic, []byte("big"), big))
	at := int32(5)
	fixed := driven(topic, []byte("key-1"), []byte("here"))
	fixed.To.Partition = &at
	batch = append(batch, fixed)
	results := r.Drive(t.Context(), batch)
	// This is the hash that Kafka's own clients would have used.
	hash := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
	arrived := map[string]*kgo.Record{}
	for _, rec := range c.consume(topic, len(batch)) {
		arrived[fmt.Sprintf("%d/%d", rec.Partition, rec.Offset)] = rec
	}
	for i, res := range results {
		d := &batch[i]
		if res.Outcome != dlq.Acknowledged || res.Written == nil || res.Written.Topic != topic ||
			res.EndedAt.Before(res.StartedAt) {
			t.Fatalf("letter %d: %+v", i, res)
		}
		rec := arrived[fmt.Sprintf("%d/%d", res.Written.Partition, res.Written.Offset)]
		if rec == nil {
			t.Fatalf("letter %d is not where it was written: %v", i, res.Written)
		}
		want := []kgo.RecordHeader{}
		for _, h := range dlq.RedriveHeaders(d) {
			want = append(want, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		if !bytes.Equal(rec.Key, d.Send.Key) || (rec.Key == nil) != (d.Send.Key == nil) ||
			!bytes.Equal(rec.Value, d.Send.Payload) ||
			(rec.Value == nil) != (d.Send.Payload == nil) {
			t.Errorf("letter %d: key or payload have changed", i)
		}
		if diff := cmp.Diff(want, rec.Headers); diff != "" {
			t.Errorf("letter %d: headers (-want +got):\n%s", i, diff)
		}
		if d.To.Partition != nil {
			if rec.Partition != *d.To.Partition {
				t.Errorf("letter %d lies in partition %d, not %d", i, rec.Partition, *d.To.Partition)
			}
		} else if len(d.Send.Key) > 0 {
			if want := hash.Partition(&kgo.Record{Key: d.Send.Key}, 6); rec.Partition != int32(want) {
				t.Errorf("letter %d lies in partition %d; its key says %d", i, rec.Partition, want)
			}
		}
	}
}

func TestWhatKafkaRefusesIsFailedAndSpoilsNothingElse(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	topic := c.create("orders", 1)
	dead := c.create("orders.dlq", 1)
	pattern, err := kafka.NewPattern(`[.-]dlq$`, "")
	if err != nil {
		t.Fatal(err)
	}
	r := c.redriver(func(cfg *targets.KafkaConfig) { cfg.Forbidden = pattern.Forbidden })
	nowhere, cut, edited, far := driven(topic, nil, []byte("x")), driven(topic, nil, []byte("x")),
		driven(topic, nil, []byte("x")), int32(7)
	nowhere.To.Partition = &far
	cut.Labels, edited.Labels, edited.Revision = []string{dlq.LabelTruncated}, []string{dlq.LabelTruncated}, 1
	batch := []dlq.Drive{
		driven(topic, nil, []byte("good")), driven(dead, nil, []byte("x")), driven(c.name("missing"), nil, []byte("x")),
		nowhere, cut, edited,
		driven(topic, nil, noise(21_000_000)), driven("unknown:"+topic, nil, []byte("x")),
		driven(topic, nil, []byte("good too")),
	}
	results := r.Drive(t.Context(), batch)
	want := []string{
		"ACKNOWLEDGED",
		"FAILED",
		"FAILED",
		"FAILED",
		"FAILED",
		"ACKNOWLEDGED",
		"FAILED",
		"FAILED",
		"ACKNOWLEDGED",
	}
	if diff := cmp.Diff(want, outcomes(results)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s\n%+v", diff, results)
	}
	for i, res := range results {
		if (res.Error == "") != (res.Outcome == dlq.Acknowledged) ||
			(res.Written != nil) != (res.Outcome == dlq.Acknowledged) {
			t.Errorf("letter %d: %+v", i, res)
		}
	}
	for i, word := range map[int]string{2: c.name("missing"), 3: "partition 7", 7: "unknown:" + topic} {
		if !results[i].Missing || !strings.Contains(results[i].Error, word) {
			t.Errorf("letter %d, whose target is not there: %+v", i, results[i])
		}
	}
	if n := c.ends(topic, 1); n != 3 {
		t.Errorf("the topic has %d records; want the 3 that were acknowledged", n)
	}
	if n := c.ends(dead, 1); n != 0 {
		t.Errorf("%d records went into a dead-letter topic", n)
	}
}

// noise returns data that cannot be compressed.
func noise(n int) []byte {
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		panic(err)
	}
	return b
}

// control makes the brokers of a fake answer produce requests with f.
func (c *cluster) control(f func(n int32, req *kmsg.ProduceRequest) (kmsg.Response, error, bool)) *atomic.Int32 {
	var calls atomic.Int32
	c.fake.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.fake.KeepControl()
		produce := req.(*kmsg.ProduceRequest)
		if produce.Acks != -1 {
			c.t.Errorf("the broker is asked for the acknowledgement of %d replicas, not of all", produce.Acks)
		}
		return f(calls.Add(1), produce)
	})
	return &calls
}

// with changes a setting of a topic.
func (c *cluster) with(topic, name, value string) {
	c.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	of := kmsg.NewIncrementalAlterConfigsRequestResource()
	of.ResourceType, of.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	of.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Value: &value}}
	req.Resources = append(req.Resources, of)
	res, err := req.RequestWith(c.t.Context(), c.client)
	if err == nil {
		err = kerr.ErrorForCode(res.Resources[0].ErrorCode)
	}
	if err != nil {
		c.t.Fatalf("set %s of %s: %v", name, topic, err)
	}
}

// A record that failed is larger than before: with the headers that describe the failure, its own
// topic might reject it.
func TestARecordThatItsTopicOnceTookIsTakenAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	topic := c.create("orders", 1)
	c.with(topic, "max.message.bytes", "100000")
	payload := noise(95_000)
	stack := dlq.Header{Name: "kafka_dlt-exception-stacktrace", Value: noise(8_000)}
	failed := driven(topic, nil, payload, stack)
	// The record has the maximum size, so it would not fit with the headers that are only
	// informative.
	full := driven(topic, nil, noise(100_000-61-150))
	full.OriginalTopic, full.Origin.Offset = topic, new(int64(1)<<60)
	kept := driven(topic, nil, payload, dlq.Header{Name: "n", Value: noise(1_000)}, stack, stack, stack)
	kept.KeepHeaders = []string{"kafka_dlt-*"}
	results := c.redriver().Drive(t.Context(), []dlq.Drive{failed, full, kept})
	if diff := cmp.Diff([]string{"ACKNOWLEDGED", "ACKNOWLEDGED", "FAILED"}, outcomes(results)); diff != "" {
		t.Fatalf("outcomes (-want +got):\n%s\n%+v", diff, results)
	}
	for i, rec := range c.consume(topic, 2) {
		if got := header(rec, dlq.HeaderAttempt) != ""; got != (i == 0) {
			t.Errorf("record %d has the headers that only inform: %v", i, got)
		}
		if header(rec, dlq.HeaderMessageID) == "" || header(rec, dlq.HeaderGeneration) == "" {
			t.Errorf("nobody would know record %d again: %v", i, rec.Headers)
		}
	}
	r := results[2]
	var over, size, limit int
	if n, err := fmt.Sscanf(r.Error, "Kafka: "+topic+": the record is too large by %d bytes: its size as sent is %d, and max.message.bytes is %d.",
		&over, &size, &limit); n != 3 || over != size-limit || limit != 100_000 || over < 20_000 || over > 22_000 {
		t.Errorf("%q: %d bytes too many of %d (%v)", r.Error, over, size, err)
	}
	for _, part := range []string{"Payload 95000", "kafka_dlt-exception-stacktrace 24090 (3 times)", "n 1001", dlq.HeaderMessageID} {
		if !strings.Contains(r.Error, part) {
			t.Errorf("%q does not name %q", r.Error, part)
		}
	}
	if !r.TooLarge || results[0].TooLarge {
		t.Errorf("too large: %v, %v", r.TooLarge, results[0].TooLarge)
	}
}

// Brokers that do not report the limit, and clients that do not report the size.
func TestARecordThatIsTooLargeForWhoKnowsWhat(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	topic := c.create("orders", 1)
	c.control(func(_ int32, req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
		return refused(req, kerr.RecordListTooLarge.Code), nil, true
	})
	r := c.redriver().Drive(t.Context(), []dlq.Drive{driven(topic, []byte("k"), []byte("abc"))})[0]
	if !r.TooLarge || !strings.Contains(r.Error, "too large: its size as sent is") || !strings.Contains(r.Error,
		"Payload 3, key 1, headers") {
		t.Errorf("%+v", r)
	}
}

func TestABatchThatIsTooLargeIsSentOneByOne(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	topic := c.create("orders", 1)
	c.control(func(_ int32, req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
		if size := len(req.Topics[0].Partitions[0].Records); size < 1500 {
			return nil, nil, false
		}
		return refused(req, kerr.MessageTooLarge.Code), nil, true
	})
	var batch []dlq.Drive
	for range 20 {
		batch = append(batch, driven(topic, nil, uuid.New().NodeID()))
	}
	batch[7] = driven(topic, nil, noise(3000))
	results := c.redriver().Drive(t.Context(), batch)
	for i, res := range results {
		if want := map[bool]dlq.AttemptOutcome{true: dlq.FailedDrive, false: dlq.Acknowledged}[i == 7]; res.Outcome != want {
			t.Errorf("letter %d: %+v, want %s", i, res, want)
		}
	}
	if n := c.ends(topic, 1); n != 19 {
		t.Errorf("the topic has %d records; want 19", n)
	}
}

func TestOnlyAnAcknowledgementCounts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer func(n int32, req *kmsg.ProduceRequest) (kmsg.Response, error, bool)
		want   dlq.AttemptOutcome
	}{
		"replicas are missing for a while": {func(n int32, req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
			return refused(req, kerr.NotEnoughReplicas.Code), nil, n <= 2
		}, dlq.Acknowledged},
		"replicas are missing": {func(_ int32, req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
			return refused(req, kerr.NotEnoughReplicasAfterAppend.Code), nil, true
		}, dlq.Uncertain},
		"the broker times out": {func(_ int32, req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
			return refused(req, kerr.RequestTimedOut.Code), nil, true
		}, dlq.Uncertain},
		"the broker hangs up": {func(int32, *kmsg.ProduceRequest) (kmsg.Response, error, bool) { return nil, errors.New("gone"), true }, dlq.Uncertain},
		"it may not write there": {func(_ int32, req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
			return refused(req, kerr.TopicAuthorizationFailed.Code), nil, true
		}, dlq.FailedDrive},
		"the record is not valid": {func(_ int32, req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
			return refused(req, kerr.InvalidRecord.Code), nil, true
		}, dlq.FailedDrive},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFake(t)
			topic := c.create("orders", 1)
			calls := c.control(tt.answer)
			r := c.redriver(func(cfg *targets.KafkaConfig) { cfg.Timeout = 2 * time.Second })
			results := r.Drive(t.Context(), []dlq.Drive{driven(topic, nil, []byte("a")), driven(topic, nil, []byte("b"))})
			for _, res := range results {
				if res.Outcome != tt.want {
					t.Errorf("%+v; want %s", res, tt.want)
				}
			}
			if calls.Load() == 0 {
				t.Error("nothing was sent")
			}
		})
	}
}

func TestABrokerThatDoesNotAnswerHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	topic := c.create("orders", 1)
	c.control(func(int32, *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
		c.fake.SleepControl(func() { <-t.Context().Done() })
		return nil, errors.New("never"), true
	})
	r := c.redriver(func(cfg *targets.KafkaConfig) { cfg.Timeout = 2 * time.Second })
	over := make(chan []dlq.Result, 1)
	go func() { over <- r.Drive(t.Context(), []dlq.Drive{driven(topic, nil, []byte("a"))}) }()
	if results := patience.Receive(t, "the attempt ends", over); results[0].Outcome != dlq.Uncertain {
		t.Errorf("%+v", results[0])
	}
}

func TestNothingIsCountedWhenNoBrokerCouldBeReached(t *testing.T) {
	t.Parallel()
	c := &cluster{t: t, addrs: []string{testnet.ClosedAddress(t)}}
	r := c.redriver(func(cfg *targets.KafkaConfig) { cfg.Timeout = time.Second })
	drives := []dlq.Drive{driven("orders", nil, []byte("a")), driven("orders", nil, make([]byte, 1<<20))}
	over := make(chan []dlq.Result, 1)
	go func() { over <- r.Drive(t.Context(), drives) }()
	for _, res := range patience.Receive(t, "the attempts end", over) {
		if res.Outcome != dlq.Withdrawn || res.Error == "" {
			t.Errorf("%+v; want it withdrawn", res)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if res := r.Drive(ctx, []dlq.Drive{driven("orders", nil, []byte("a"))}); res[0].Outcome != dlq.Withdrawn {
		t.Errorf("when the node stops: %+v", res[0])
	}
}

func TestTopicsAreMadeOnlyWhenThatIsAllowed(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{false, true} {
		c := newFake(t, kfake.AllowAutoTopicCreation())
		results := c.redriver(func(cfg *targets.KafkaConfig) { cfg.CreateTopics = allowed }).
			Drive(t.Context(), []dlq.Drive{driven(c.name("new"), nil, []byte("a"))})
		if want := map[bool]dlq.AttemptOutcome{true: dlq.Acknowledged,
			false: dlq.FailedDrive}[allowed]; results[0].Outcome != want {
			t.Errorf("allowed %v: %+v; want %s", allowed, results[0], want)
		}
	}
}
