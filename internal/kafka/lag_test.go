package kafka_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/kafka"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// lagging is a node that reports its lag; -1 means that it has not reported it yet.
type lagging struct {
	*inbox
	c     *cluster
	topic string
	lag   atomic.Int64
}

func newLagging(t *testing.T) *lagging {
	t.Helper()
	c := newCluster(t)
	return &lagging{inbox: newInbox(t, testdb.DSN(t)), c: c, topic: c.create("open.dlq", 1)}
}

func (l *lagging) run(change ...func(*kafka.IngestConfig)) (stop func()) {
	l.lag.Store(-1)
	return l.ingest(l.c, append(change, func(cfg *kafka.IngestConfig) { cfg.Observer.Lag = l.lag.Store })...)
}

// lags waits until the node reports this lag.
func (l *lagging) lags(want int64) {
	l.t.Helper()
	patience.Until(l.t, fmt.Sprintf("the lag is %d", want), func() bool { return l.lag.Load() == want })
}

// caughtUp waits until nothing is unread and the group has committed the end offsets.
func (l *lagging) caughtUp() {
	l.t.Helper()
	l.lags(0)
	patience.Until(l.t, "the group has committed the end", func() bool { return l.c.committed(l.c.mark, l.topic) == l.c.ends(l.topic, 1) })
}

// transaction writes records in a transaction, and returns a function that ends it.
func (l *lagging) transaction(life, n int) (end func(kgo.TransactionEndTry)) {
	l.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(l.c.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID(fmt.Sprintf("%s-%d", l.c.mark, life)))
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(client.Close)
	if err := client.BeginTransaction(); err != nil {
		l.t.Fatal(err)
	}
	if err := client.ProduceSync(l.t.Context(), lived(l.topic, 1, life, n)...).FirstErr(); err != nil {
		l.t.Fatalf("produce in a transaction: %v", err)
	}
	return func(how kgo.TransactionEndTry) {
		l.t.Helper()
		if err := client.EndTransaction(context.WithoutCancel(l.t.Context()), how); err != nil {
			l.t.Fatalf("end the transaction: %v", err)
		}
	}
}

// While a transaction is open, nothing behind it is read. The lag shows this, even if no records
// arrive and after a restart. Once the transaction has ended, there is no lag, and the group has
// committed the end offset, whatever the last entries of the log are.
func TestTheLagIsThatOfThePositionInTheLog(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]kgo.TransactionEndTry{"aborted": kgo.TryAbort, "committed": kgo.TryCommit} {
		for _, behind := range []int{0, 3} {
			t.Run(fmt.Sprintf("%s with %d records behind it", name, behind), func(t *testing.T) {
				t.Parallel()
				l := newLagging(t)
				letters := 3
				l.c.produce(lived(l.topic, 1, 1, letters)...)
				stop := l.run()
				l.has(letters)
				l.caughtUp()
				end := l.transaction(2, 2)
				l.c.produce(lived(l.topic, 1, 3, behind)...)
				l.lags(int64(2 + behind))
				stop()
				stop = l.run()
				l.lags(int64(2 + behind))
				l.has(letters)
				end(how)
				letters += behind
				if how == kgo.TryCommit {
					letters += 2
				}
				l.has(letters)
				l.caughtUp()
				stop()
			})
		}
	}
}

// Records that retention has removed before they were read do not count as unread.
func TestRecordsThatAreGoneAreNoLag(t *testing.T) {
	t.Parallel()
	l := newLagging(t)
	l.c.produce(lived(l.topic, 1, 1, 3)...)
	stop := l.run()
	l.has(3)
	l.caughtUp()
	stop()
	l.c.produce(lived(l.topic, 1, 2, 5)...)
	req := kmsg.NewPtrDeleteRecordsRequest()
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Offset = 8
	rt.Topic, rt.Partitions = l.topic, append(rt.Partitions, rp)
	req.Topics, req.TimeoutMillis = append(req.Topics, rt), 10_000
	for _, shard := range l.c.client.RequestSharded(t.Context(), req) {
		if shard.Err != nil {
			t.Fatal(shard.Err)
		}
		if err := kerr.ErrorForCode(shard.Resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode); err != nil {
			t.Fatal(err)
		}
	}
	stop = l.run()
	l.caughtUp()
	l.has(3)
	stop()
}

// A node that reads from the end has a position before the first record comes.
func TestTheEndThatIsReadFromIsCommitted(t *testing.T) {
	t.Parallel()
	l := newLagging(t)
	l.c.produce(lived(l.topic, 1, 1, 3)...)
	latest := func(cfg *kafka.IngestConfig) { cfg.Latest = true }
	stop := l.run(latest)
	l.caughtUp()
	stop()
	l.c.produce(lived(l.topic, 1, 2, 4)...) // while no node runs
	stop = l.run(latest)
	l.has(4)
	l.caughtUp()
	stop()
}

// A recreated topic has a lag of its own.
func TestTheLagOfARecreatedTopic(t *testing.T) {
	t.Parallel()
	l := newLagging(t)
	l.c.produce(lived(l.topic, 1, 1, 9)...)
	stop := l.run()
	l.has(9)
	l.caughtUp()
	l.c.anew("open.dlq", 1)
	l.c.produce(lived(l.topic, 1, 2, 2)...)
	l.has(11)
	l.caughtUp()
	end := l.transaction(3, 2)
	l.lags(2)
	end(kgo.TryAbort)
	l.caughtUp()
	stop()
}
