package kafka_test

import (
	"bytes"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/kafka"
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

// Records that were in a topic when it was first seen are held, over restarts as well;
// later records, and all of a topic that is created later, are retried.
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
	// A changed expression matches topics that existed all the time.
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
	wait(t, "the offsets are committed", func() bool { return c.committed(c.mark, old) == 5 })
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
		`level=WARN msg="these topics are not read`, "topics=[" + other + "]", "topic=" + read + " records=7",
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

func TestTheBacklogOfAPartition(t *testing.T) {
	t.Parallel()
	looked := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		before  time.Time
		offset  int64
		written time.Time
		want    bool
	}{
		{time.Time{}, 9, looked, true}, {time.Time{}, 10, looked, false}, {time.Time{}, 9, time.Time{}, true},
		{looked, 9, looked.Add(-time.Hour), true}, {looked, 9, looked.Add(-time.Minute), false}, {looked, 9, looked.Add(time.Hour), false},
		{looked, 10, looked.Add(-time.Hour), false}, {looked, 9, time.Time{}, true},
	} {
		s := dlq.Inflow{BacklogEnd: 10, BacklogBefore: tt.before}
		if got := s.Backlog(tt.offset, tt.written); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}
