package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/loop"
)

// Arrivals is where ingestion stores what it reads; dlq.Queue is one.
type Arrivals interface {
	// Arrive is dlq.Queue's: durable on return, each record once by its place;
	// fault Invalid when the content of one is refused, and then none is stored.
	Arrive(ctx context.Context, batch []dlq.Arrival) (stored int, err error)
	// PolicyOf is asked with every record: it remembers its answers for a while.
	PolicyOf(ctx context.Context, tenant uuid.UUID, topic string) (dlq.Policy, error)
	dlq.Inflows
}

// IngestConfig of the loop that makes letters of the records of dead-letter
// topics. Fields are required unless a comment says otherwise.
type IngestConfig struct {
	Connection
	Topics  string // regular expression: the dead-letter topics
	Exclude string // regular expression: not these; "": no exception
	Group   string // consumer group
	// this node's name in it, the same over restarts, which takes its partitions back at once; "": a new one at each start
	Member  string
	Latest  bool // a partition that the group has never read begins at its end, not at its beginning
	Backlog bool // letters of what lay in a topic when it was first seen are retried by themselves, as all others are
	Intake  dlq.Intake
	Store   Arrivals
	NewID   func() uuid.UUID
	Now     func() time.Time
	Log     *slog.Logger

	Batch      int           // 1000: most records of one INSERT
	BatchBytes int           // 4 MiB: and most bytes, but always one record
	MaxBytes   int32         // 16 MiB: asked for in one fetch; two fetches and what is being stored are in memory
	Workers    int           // 2: INSERTs at the same time
	NewTopics  time.Duration // 30 s: how soon a new topic is seen

	Observer IngestObserver
}

// IngestObserver is told what happens; nil functions are not called.
type IngestObserver struct {
	Stored  func(read, stored int)    // records of a batch, and those that were not there before
	Refused func()                    // PostgreSQL refused a record as it came; it is stored in a reduced form
	Failed  func()                    // a batch could not be stored, or a fetch or a commit failed
	Paused  func(paused bool)         // the database is away
	Lag     func(records int64)       // records not read yet of the partitions of this node
	Held    func(records int)         // records of a batch that are backlog, whose letters are not retried by themselves
	Topics  func(read, near []string) // which topics are read, and which the expression matches in other case only
	Round   func()                    // everything that was read is stored and committed
}

func (c IngestConfig) complete() IngestConfig {
	c.Batch, c.BatchBytes, c.Workers = orElse(c.Batch, 1000), orElse(c.BatchBytes, 4<<20), orElse(c.Workers, 2)
	c.MaxBytes, c.NewTopics = orElse(c.MaxBytes, 16<<20), orElse(c.NewTopics, 30*time.Second)
	o := &c.Observer
	if o.Stored == nil {
		o.Stored = func(int, int) {}
	}
	if o.Refused == nil {
		o.Refused = func() {}
	}
	if o.Failed == nil {
		o.Failed = func() {}
	}
	if o.Paused == nil {
		o.Paused = func(bool) {}
	}
	if o.Held == nil {
		o.Held = func(int) {}
	}
	if o.Topics == nil {
		o.Topics = func([]string, []string) {}
	}
	if o.Lag == nil {
		o.Lag = func(int64) {}
	}
	if o.Round == nil {
		o.Round = func() {}
	}
	return c
}

func orElse[T int | int32 | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// options returns the client's options, beside those of the connection.
func (c IngestConfig) options() []kgo.Opt {
	start := kgo.NewOffset().AtStart()
	if c.Latest {
		start = kgo.NewOffset().AtEnd()
	}
	opts := []kgo.Opt{
		kgo.ConsumerGroup(c.Group), kgo.ConsumeRegex(), kgo.ConsumeTopics(c.Topics),
		// what was deleted is gone, the rest is read
		kgo.ConsumeStartOffset(start), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		// Partitions of a node that died go to another one after so long.
		kgo.SessionTimeout(10 * time.Second), kgo.HeartbeatInterval(2 * time.Second),
		// While they are dealt out nobody reads any. A node that died meanwhile has no
		// session to lose: it is waited for so long, by default a minute.
		kgo.RebalanceTimeout(15 * time.Second),
		kgo.MetadataMaxAge(c.NewTopics),
		// Memory: so many fetches are asked for or waiting to be polled, whatever
		// the number of brokers. A record that is larger than a fetch comes alone.
		kgo.MaxDecompressBatchBytes(256 << 20), kgo.MaxConcurrentFetches(2), kgo.FetchMaxBytes(c.MaxBytes),
		kgo.FetchMaxPartitionBytes(min(c.MaxBytes, 1<<20)),
	}
	if c.Member != "" {
		opts = append(opts, kgo.InstanceID(c.Member))
	}
	if c.Exclude != "" {
		opts = append(opts, kgo.ConsumeExcludeTopics(c.Exclude))
	}
	return opts
}

// Check returns what is wrong with the configuration, without connecting.
func (c IngestConfig) Check() error {
	if _, err := NewPattern(c.Topics, c.Exclude); err != nil {
		return err
	}
	c = c.complete()
	opts, err := c.Connection.options()
	if err != nil {
		return err
	}
	return kgo.ValidateOpts(append(opts, c.options()...)...)
}

// Pattern is which topics are dead-letter topics. The zero value matches none.
type Pattern struct{ topics, exclude *regexp.Regexp }

// NewPattern compiles the expressions of an IngestConfig. Empty topics match
// none.
func NewPattern(topics, exclude string) (Pattern, error) {
	var p Pattern
	var err error
	if topics == "" {
		return p, nil
	}
	if p.topics, err = regexp.Compile(topics); err != nil {
		return Pattern{}, fmt.Errorf("kafka: the pattern of dead-letter topics: %w", err)
	}
	if exclude != "" {
		if p.exclude, err = regexp.Compile(exclude); err != nil {
			return Pattern{}, fmt.Errorf("kafka: the pattern of excluded topics: %w", err)
		}
	}
	return p, nil
}

// Forbidden tells whether a topic is read by ingestion, so that nothing may be
// driven there: it would come back at once (invariant D6).
func (p Pattern) Forbidden(topic string) bool {
	return p.topics != nil && p.topics.MatchString(topic) && (p.exclude == nil || !p.exclude.MatchString(topic))
}

// Ingest reads dead-letter topics until ctx ends: what it has read is stored,
// and only then are the offsets committed. Several nodes share the partitions.
// The error is one of the configuration; everything else is tried again.
func Ingest(ctx context.Context, cfg IngestConfig) error {
	in := &ingest{IngestConfig: cfg.complete()}
	if err := cfg.Check(); err != nil {
		return err
	}
	in.pattern, _ = NewPattern(cfg.Topics, cfg.Exclude) // Check has tried it
	for ctx.Err() == nil {
		err := in.member(ctx)
		if ctx.Err() != nil {
			return nil
		}
		in.Observer.Failed()
		in.Log.ErrorContext(ctx, "restarting dead-letter ingestion", slog.Any("error", err))
		pause(ctx, time.Second)
	}
	return nil
}

// ingest is the loop's state.
type ingest struct {
	IngestConfig
	client *kgo.Client

	mu      sync.Mutex
	pattern Pattern
	owned   map[topicPartition]bool // partitions of this member
	gone    map[topicPartition]bool // partitions lost since the last poll
	waiting bool                    // the database is away: partitions are paused
	lags    map[topicPartition]int64

	committed map[topicPartition]uuid.UUID // in which life of their topics the group has committed partitions
	assumed   map[string]uuid.UUID         // in which life topics are read
	ended     map[string]bool              // topics whose life has ended
	looked    time.Time                    // at the topics there are; of member alone
	inflows   map[source]dlq.Inflow        // what has been seen of topics
	there     map[string]uuid.UUID         // the topics that there are, by the last look
	before    time.Time                    // when the group had looked before that; zero: never
	asked     *kgo.Client                  // for the topics there are: client, which may call back before it is known

	looking  sync.Mutex // one look at a time; guards:
	told     []string   // the topics that the log has named last, nil: none yet
	toldNear []string
}

// member is one life as a member of the group. It returns when ctx ends, or
// when a failpoint says that it died; without committing, then.
func (in *ingest) member(ctx context.Context) error {
	in.mu.Lock()
	in.owned, in.gone, in.lags, in.waiting = map[topicPartition]bool{}, map[topicPartition]bool{},
		map[topicPartition]int64{}, false
	in.committed, in.ended, in.looked = map[topicPartition]uuid.UUID{}, map[string]bool{}, time.Time{}
	if in.assumed == nil {
		in.assumed = map[string]uuid.UUID{} // it outlives a member: what was read is remembered
	}
	in.mu.Unlock()
	client, err := NewClient(in.Connection, append(in.options(),
		kgo.OnOffsetsFetched(func(_ context.Context, c *kgo.Client, res *kmsg.OffsetFetchResponse) error {
			in.fetched(c, res)
			return nil
		}),
		kgo.AdjustFetchOffsetsFn(in.begin),
		kgo.OnPartitionsAssigned(func(_ context.Context, c *kgo.Client, m map[string][]int32) { in.assigned(c, m) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { in.lost(m) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { in.lost(m) }),
	)...)
	if err != nil {
		return err
	}
	in.client = client
	in.mu.Lock()
	in.asked = client
	in.mu.Unlock()
	defer client.CloseAllowingRebalance()
	in.lookAround(ctx) // if it fails, what comes looks again
	for {
		records, err := in.poll(ctx)
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if len(records) > 0 {
			if err := in.round(ctx, records); err != nil {
				return err
			}
		}
		in.Observer.Lag(in.lag())
		client.AllowRebalance()
		in.lookAround(ctx)
		in.leave(ctx)
		in.Observer.Round()
	}
}

// idle is how long a poll waits for records before it asks whether a broker is
// there at all.
const idle = 5 * time.Second

// poll returns what has come; nothing when there is nothing and a broker says
// so. An error is a failpoint's.
func (in *ingest) poll(ctx context.Context) ([]read, error) {
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, idle)
		// All that is there, which MaxBytes bounds: the first few thousand would be
		// of one partition, and so one worker's.
		fetches := in.client.PollFetches(wait)
		cancel()
		in.mu.Lock()
		clear(in.gone) // what is polled now is of partitions that are ours
		in.mu.Unlock()
		in.suspect(fetches)
		failed := in.failures(ctx, fetches)
		if !fetches.Empty() {
			in.measure(fetches)
			return reads(fetches), failpoint.Hit(failpoint.IngestAfterPoll)
		}
		in.client.AllowRebalance()
		in.lookAround(ctx)
		in.leave(ctx)
		ping, cancel := context.WithTimeout(ctx, idle)
		err := in.client.Ping(ping)
		cancel()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			in.Observer.Failed()
			in.Log.WarnContext(ctx, "dead-letter ingestion cannot reach a broker", slog.Any("error", err))
			pause(ctx, time.Second)
		case failed:
			pause(ctx, time.Second)
		default:
			return nil, nil
		}
	}
	return nil, nil
}

// failures reports the fetches that failed, and whether any did.
func (in *ingest) failures(ctx context.Context, fetches kgo.Fetches) (failed bool) {
	for _, f := range fetches.Errors() {
		if errors.Is(f.Err, context.DeadlineExceeded) || errors.Is(f.Err, context.Canceled) {
			continue // the end of a poll
		}
		if errors.Is(f.Err, kerr.UnknownTopicID) {
			continue // leave tells of it
		}
		failed = true
		in.Observer.Failed()
		in.Log.WarnContext(
			ctx,
			"fetching dead letters failed",
			slog.String("topic", f.Topic),
			slog.Int("partition", int(f.Partition)),
			slog.Any("error", f.Err),
		)
	}
	return failed
}

// measure notes how far behind the fetched partitions are.
func (in *ingest) measure(fetches kgo.Fetches) {
	in.mu.Lock()
	defer in.mu.Unlock()
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if n := len(p.Records); n > 0 {
			in.lags[topicPartition{p.Topic, p.Partition}] = max(0, p.HighWatermark-p.Records[n-1].Offset-1)
		}
	})
}

func (in *ingest) lag() (sum int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, n := range in.lags {
		sum += n
	}
	return sum
}

// assigned notes partitions that are ours now.
func (in *ingest) assigned(c *kgo.Client, m map[string][]int32) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for topic, partitions := range m {
		for _, p := range partitions {
			in.owned[topicPartition{topic, p}] = true
		}
	}
	if in.waiting {
		c.PauseFetchPartitions(m)
	}
}

// lost notes partitions that are somebody else's now: what was read of them
// and is not stored yet is theirs to store.
func (in *ingest) lost(m map[string][]int32) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for topic, partitions := range m {
		for _, p := range partitions {
			at := topicPartition{topic, p}
			delete(in.owned, at)
			delete(in.lags, at)
			in.gone[at] = true
		}
	}
}

// pause waits for d, more or less by up to a half, and no longer than ctx lasts.
func pause(ctx context.Context, d time.Duration) {
	loop.Sleep(ctx, d/2+rand.N(d))
}
