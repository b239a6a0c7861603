package kafka_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/kafka"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// counts returns how many letters are held and how many are retried automatically.
func (b *inbox) counts() (held, retried int) {
	b.t.Helper()
	for _, letters := range b.each() {
		for _, l := range letters {
			switch labelled := slices.Contains(l.Labels, dlq.LabelBacklog); {
			case labelled && l.NextRetryAt == nil:
				held++
			case !labelled && l.NextRetryAt != nil:
				retried++
			default:
				b.t.Errorf(
					"offset %d of %s has the labels %v and the next retry %v",
					l.Arrived.Offset,
					l.Arrived.Topic,
					l.Labels,
					l.NextRetryAt,
				)
			}
		}
	}
	return held, retried
}

// Records that were in a topic when it was first seen are held, even across restarts. Later
// records, and all records of a topic that is created later, are retried.
func TestTheBacklogOfATopicIsNotRetriedAutomatically(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	wants := func(held, retried int) {
		t.Helper()
		b.has(held + retried)
		if h, r := b.counts(); h != held || r != retried {
			t.Fatalf("%d are held and %d are retried, want %d and %d", h, r, held, retried)
		}
	}
	old := c.create("old.dlq", 2)
	c.produce(lived(old, 2, 1, 50)...)
	stop := b.ingest(c, func(cfg *kafka.IngestConfig) { cfg.Batch = 10 })
	wants(50, 0)
	c.produce(lived(old, 2, 2, 20)...)
	wants(50, 20)
	fresh := c.create("fresh.dlq", 2)
	c.produce(lived(fresh, 2, 3, 10)...)
	wants(50, 30)
	stop()
	c.produce(lived(old, 2, 4, 5)...) // while no node runs
	c.produce(lived(c.create("meanwhile.dlq", 1), 1, 5, 5)...)
	stop = b.ingest(c)
	wants(50, 40)
	c.anew("old.dlq", 2)
	c.produce(lived(old, 2, 6, 5)...)
	wants(50, 45)
	stop()
	// A changed expression matches topics that already existed.
	c.produce(lived(c.create("old.dead", 1), 1, 7, 5)...)
	stop = b.ingest(
		c,
		func(cfg *kafka.IngestConfig) { cfg.Topics = strings.TrimSuffix(cfg.Topics, "dlq$") + "(dlq|dead)$" },
	)
	wants(55, 45)
	stop()
}

func TestBacklogIsRetriedWhereThatIsConfigured(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	c.produce(lived(c.create("old.dlq", 2), 2, 1, 50)...)
	b.ingest(c, func(cfg *kafka.IngestConfig) { cfg.Backlog = true })
	b.has(50)
	if held, retried := b.counts(); held != 0 || retried != 50 {
		t.Errorf("%d are held and %d are retried", held, retried)
	}
}

// A group that read topics before backlogs were recorded has no backlog in what it has
// read.
func TestRecordsThatTheGroupHasReadAreNoBacklog(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	old := c.create("old.dlq", 1)
	c.produce(lived(old, 1, 1, 5)...)
	stop := b.ingest(c)
	b.has(5)
	patience.Until(t, "the offsets are committed", func() bool { return c.committed(c.mark, old) == 5 })
	stop()
	if _, err := b.db.SQL().ExecContext(t.Context(), `DELETE FROM dlq.dlq_inflows; DELETE FROM dlq.dlq_readers`); err != nil {
		t.Fatal(err)
	}
	c.produce(lived(old, 1, 2, 5)...)
	b.ingest(c)
	b.has(10)
	if held, retried := b.counts(); held != 5 || retried != 5 {
		t.Errorf("%d are held and %d are retried, want 5 and 5", held, retried)
	}
}

// The log and the metrics show which topics are read, how large their backlog was, and
// which topics differ from the expression only in case.
func TestTopicsThatAreReadAreReported(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	read, other := c.create("a.dlq", 1), c.create("Orders.DLQ", 1)
	c.create("orders", 1)
	c.produce(lived(read, 1, 1, 7)...)
	var mu sync.Mutex
	var log bytes.Buffer
	var matched, near []string
	b.ingest(c, func(cfg *kafka.IngestConfig) {
		cfg.Topics = "^" + regexp.QuoteMeta(c.mark) + `.*[.-]dlq$`
		cfg.Log = slog.New(slog.NewTextHandler(locked{&mu, &log}, nil))
		cfg.Observer.Topics = func(r, n []string) {
			mu.Lock()
			defer mu.Unlock()
			matched, near = r, n
		}
	})
	b.has(7)
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(matched, []string{read}) || !slices.Equal(near, []string{other}) {
		t.Errorf("read: %v, in another case: %v", matched, near)
	}
	for _, want := range []string{
		`level=INFO msg="reading dead-letter topics" topics=[` + read + `]`,
		`level=WARN msg="topics not read`, "topics=[" + other + "]", "topic=" + read + " records=7",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, log.String())
		}
	}
}

type locked struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

// aged returns records that differ, each written at a different time before now, because programs
// that copy records into dead-letter topics keep the original times.
func aged(topic string, partitions int32, life int) (records []*kgo.Record) {
	const day = 24 * time.Hour
	ages := []time.Duration{0, 2 * time.Minute, 7 * time.Minute, time.Hour, day, 20 * 365 * day, -time.Hour}
	records = lived(topic, partitions, life, len(ages))
	for i, age := range ages {
		records[i].Timestamp = time.Now().Add(-age)
	}
	return records
}

// The offsets at the time of the first look decide what is backlog, regardless of the times of the
// records and of how a topic or partition was added later.
func TestOnlyWhatWasThereAtTheFirstLookIsBacklog(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]func(c *cluster, whileStopped func(func())) (topic string, partitions int32){
		"a topic is created while a node runs": func(c *cluster, _ func(func())) (string, int32) {
			return c.create("fresh.dlq", 2), 2
		},
		"a topic is created while no node runs": func(c *cluster, whileStopped func(func())) (topic string, n int32) {
			whileStopped(func() { topic = c.create("meanwhile.dlq", 2) })
			return topic, 2
		},
		"a topic is recreated while a node runs": func(c *cluster, _ func(func())) (string, int32) {
			return c.anew("old.dlq", 2), 2
		},
		"a topic is recreated while no node runs": func(c *cluster, whileStopped func(func())) (topic string, n int32) {
			whileStopped(func() { topic = c.anew("old.dlq", 2) })
			return topic, 2
		},
		"a topic gets more partitions": func(c *cluster, _ func(func())) (string, int32) {
			c.grow(c.name("old.dlq"), 4)
			return c.name("old.dlq"), 4
		},
		"a topic gets more partitions while no node runs": func(c *cluster, whileStopped func(func())) (string, int32) {
			whileStopped(func() { c.grow(c.name("old.dlq"), 4) })
			return c.name("old.dlq"), 4
		},
		"a topic was empty": func(c *cluster, _ func(func())) (string, int32) { return c.name("empty.dlq"), 2 },
		"a topic goes on":   func(c *cluster, _ func(func())) (string, int32) { return c.name("old.dlq"), 2 },
		"a topic goes on after a pause": func(c *cluster, whileStopped func(func())) (string, int32) {
			whileStopped(func() {})
			return c.name("old.dlq"), 2
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, b := newCluster(t), newInbox(t, testdb.DSN(t))
			old := c.create("old.dlq", 2)
			c.create("empty.dlq", 2)
			first := c.produce(aged(old, 2, 1)...)
			stop := b.ingest(c)
			b.has(len(first))
			wantCounts(t, b, len(first), 0)
			topic, partitions := later(c, func(change func()) {
				stop()
				change()
				c.produce(aged(c.create("more.dlq", 1), 1, 3)...)
				stop = b.ingest(c)
				b.has(2 * len(first))
			})
			_, before := b.counts()
			second := c.produce(aged(topic, partitions, 2)...)
			b.has(len(first) + before + len(second))
			wantCounts(t, b, len(first), before+len(second))
			stop()
		})
	}
}

func wantCounts(t *testing.T, b *inbox, held, retried int) {
	t.Helper()
	if h, r := b.counts(); h != held || r != retried {
		t.Fatalf("%d are held and %d are retried, want %d and %d", h, r, held, retried)
	}
}

// grow adds partitions to a topic, and waits until the brokers report them.
func (c *cluster) grow(topic string, partitions int32) {
	c.t.Helper()
	req := kmsg.NewPtrCreatePartitionsRequest()
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic, partitions
	req.Topics, req.TimeoutMillis = append(req.Topics, rt), 10_000
	res, err := req.RequestWith(c.t.Context(), c.client)
	if err == nil {
		err = kerr.ErrorForCode(res.Topics[0].ErrorCode)
	}
	if err != nil {
		c.t.Fatalf("add partitions to %s: %v", topic, err)
	}
	patience.Until(c.t, "the brokers know the new partitions", func() bool {
		known, ok := c.metadata(topic)
		return ok && len(known.Partitions) == int(partitions)
	})
	c.client.PurgeTopicsFromClient(topic)
}

// A partition without a leader at the first look still has a backlog. Its end is requested once it
// has a leader.
func TestThePartitionWithoutALeaderHasItsBacklogToo(t *testing.T) {
	t.Parallel()
	c, b := newFake(t), newInbox(t, testdb.DSN(t))
	old := c.create("old.dlq", 2)
	first := c.produce(aged(old, 2, 1)...)
	var leaderless atomic.Bool
	leaderless.Store(true)
	c.fake.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.fake.KeepControl()
		if !leaderless.Load() {
			return nil, nil, false
		}
		asked := req.(*kmsg.ListOffsetsRequest)
		res := asked.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, t := range asked.Topics {
			rt := kmsg.NewListOffsetsResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewListOffsetsResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.LeaderNotAvailable.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			res.Topics = append(res.Topics, rt)
		}
		return res, nil, true
	})
	looked := make(chan struct{}, 1000)
	stop := b.ingest(c, func(cfg *kafka.IngestConfig) {
		cfg.Observer.Topics = func([]string, []string) { looked <- struct{}{} }
	})
	<-looked
	<-looked // the second look is not a first one, and the partition is still unmeasured
	leaderless.Store(false)
	b.has(len(first))
	wantCounts(t, b, len(first), 0)
	second := c.produce(aged(old, 2, 2)...)
	b.has(len(first) + len(second))
	wantCounts(t, b, len(first), len(second))
	stop()
}

// On another cluster, a group looks for the first time, regardless of what it has seen elsewhere.
func TestTheTopicsOfAnotherClusterHaveABacklog(t *testing.T) {
	t.Parallel()
	b := newInbox(t, testdb.DSN(t))
	held := 0
	for i, id := range []string{"first", "second", "second"} {
		c := newFake(t, kfake.ClusterID(id))
		c.mark = "moved"
		held += len(c.produce(aged(c.create(fmt.Sprintf("old-%d.dlq", i), 2), 2, i)...))
		stop := b.ingest(c)
		b.has(held)
		if i == 2 { // the same cluster: a topic found later has no backlog
			wantCounts(t, b, held*2/3, held/3)
		} else {
			wantCounts(t, b, held, 0)
		}
		stop()
	}
}
