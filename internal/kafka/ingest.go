package kafka

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/loop"
)

// Arrivals is where ingestion stores records. dlq.Queue implements it.
type Arrivals interface {
	// Arrive is that of dlq.Queue: the records are durable on return, and each is stored once,
	// identified by its place. Fault: Invalid if the content of a record is rejected; then none of
	// them is stored.
	Arrive(ctx context.Context, batch []dlq.Arrival) (stored int, err error)
	// PolicyOf is called for every record, so it must be fast; implementations use a cache.
	PolicyOf(ctx context.Context, tenant uuid.UUID, topic string) (dlq.Policy, error)
	dlq.Inflows
}

// Sources turns records into events, which start job runs. A record that is not an event becomes a
// dead letter that states the reason, so that the record does not block its partition and is not
// lost. Fields are required unless a comment says otherwise.
type Sources struct {
	Tenants map[string]uuid.UUID // the tenant of each topic's events
	// Earliest means that records that are already in a topic when it is first seen also become
	// events.
	Earliest bool
	Store    jobrun.RecordEvents
}

// IngestConfig configures the loop that turns records into letters or events. Fields are
// required unless a comment says otherwise.
type IngestConfig struct {
	Connection
	Topics  string // regular expression for the dead-letter topics
	Exclude string // regular expression for topics to skip; "": none
	Group   string // consumer group
	// Member is this node's name in the group. It must be stable across restarts, so that the node
	// gets its partitions back immediately. "" means a new member at each start.
	Member string
	Latest bool // read partitions that the group has never read from the end, not the beginning
	// Retry letters automatically, like all others, even if their records were in a topic when it
	// was first seen.
	Backlog bool
	Intake  dlq.Intake
	Store   Arrivals
	Sources *Sources // turns records into events; nil: all become letters
	NewID   func() uuid.UUID
	Now     func() time.Time
	Log     *slog.Logger

	Batch      int           // 1000: maximum number of records in one INSERT
	BatchBytes int           // 4 MiB: maximum size of one INSERT, except for a single larger record
	MaxBytes   int32         // 16 MiB: size of one fetch; memory holds two fetches and the records being stored
	Workers    int           // 2: concurrent INSERTs
	NewTopics  time.Duration // 30 s: interval of looking for new topics

	Observer IngestObserver
}

// IngestObserver receives events; nil functions are not called.
type IngestObserver struct {
	Stored  func(read, stored int)    // records of a batch, and the number of new ones among them
	Refused func()                    // PostgreSQL rejected a record as received; it is stored in a reduced form
	NoEvent func()                    // a record is not an event, and is stored as a letter
	Failed  func()                    // a batch could not be stored, or a fetch or a commit failed
	Paused  func(paused bool)         // the database is unavailable
	Lag     func(records int64)       // unread offsets of this node's partitions
	Held    func(records int)         // records of a batch that are backlog, whose letters are not retried automatically
	Topics  func(read, near []string) // topics that are read, and topics that would match if case were ignored
	Round   func()                    // everything read so far is stored and committed
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
	if o.NoEvent == nil {
		o.NoEvent = func() {}
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

// options returns the client's options, except those for the connection.
func (c IngestConfig) options() []kgo.Opt {
	start := kgo.NewOffset().AtStart()
	if c.Latest {
		start = kgo.NewOffset().AtEnd()
	}
	opts := []kgo.Opt{
		kgo.ConsumerGroup(c.Group), kgo.ConsumeRegex(), kgo.ConsumeTopics(c.Topics),
		// Records that have already been deleted are skipped, and the rest is read.
		kgo.ConsumeStartOffset(start), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		// Partitions of a dead node are reassigned after this time.
		kgo.SessionTimeout(10 * time.Second), kgo.HeartbeatInterval(2 * time.Second),
		// During a rebalance no node reads. A node that died in the meantime has no session that
		// could expire, so the group waits this long for it (a minute by default).
		kgo.RebalanceTimeout(15 * time.Second),
		kgo.MetadataMaxAge(c.NewTopics),
		// This limits memory: at most this many fetches are in flight or waiting to be polled,
		// regardless of the number of brokers. A record larger than a fetch is fetched on its own.
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

// Check returns what is wrong with the configuration. It does not connect.
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

// Ingest reads topics until ctx ends. Records are stored as dead letters or as events before their
// offsets are committed. Several nodes share the partitions. It returns an error only for an
// invalid configuration, and retries after all other errors.
func Ingest(ctx context.Context, cfg IngestConfig) error {
	in := &ingest{IngestConfig: cfg.complete()}
	if err := cfg.Check(); err != nil {
		return err
	}
	in.pattern, _ = NewPattern(cfg.Topics, cfg.Exclude) // Check has already compiled it
	for ctx.Err() == nil {
		err := in.member(ctx)
		if ctx.Err() != nil {
			return nil
		}
		in.Observer.Failed()
		in.Log.ErrorContext(ctx, "restarting ingestion from Kafka", slog.Any("error", err))
		loop.Sleep(ctx, loop.Jittered(time.Second))
	}
	return nil
}

// ingest is the state of the loop.
type ingest struct {
	IngestConfig
	client *kgo.Client

	mu      sync.Mutex
	pattern Pattern
	owned   map[topicPartition]bool // partitions of this member
	gone    map[topicPartition]bool // partitions revoked since the last poll
	waiting bool                    // the database is unavailable: partitions are paused

	positions map[topicPartition]position // the positions up to which partitions were read
	highs     map[topicPartition]int64    // the offsets after their last records
	measured  time.Time                   // when these were last requested; used only by member

	committed map[topicPartition]uuid.UUID // topic ids of the offsets committed by the group
	assumed   map[string]uuid.UUID         // topic ids with which topics are read
	recreated map[string]uuid.UUID         // replaced a life seen before; restarted until there is a commit
	ended     map[string]bool              // topics that were deleted or recreated
	looked    time.Time                    // time when topics were last listed; used only by member
	inflows   map[source]dlq.Inflow        // first sight of each partition
	there     map[string]uuid.UUID         // topics found when topics were last listed
	before    bool                         // the group had already listed topics before that
	asked     *kgo.Client                  // client for listing topics; set before client, which may call back early

	looking  sync.Mutex // held while topics are listed; guards told
	told     []string   // the topics last logged; nil: none yet
	toldNear []string
}

// member runs one membership in the group. It returns when ctx ends or when a failpoint simulates a
// crash; in the latter case it does not commit.
func (in *ingest) member(ctx context.Context) error {
	in.mu.Lock()
	in.owned, in.gone, in.waiting = map[topicPartition]bool{}, map[topicPartition]bool{}, false
	in.positions, in.highs, in.measured = map[topicPartition]position{}, map[topicPartition]int64{}, time.Time{}
	in.committed, in.ended, in.looked = map[topicPartition]uuid.UUID{}, map[string]bool{}, time.Time{}
	if in.assumed == nil { // the store recognizes records across memberships
		in.assumed, in.recreated = map[string]uuid.UUID{}, map[string]uuid.UUID{}
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
	in.lookAround(ctx) // if it fails, the next records trigger another attempt
	for {
		records, ends, err := in.poll(ctx)
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if len(ends) > 0 {
			if err := in.round(ctx, records, ends); err != nil {
				return err
			}
		}
		in.measure(ctx, len(ends) == 0)
		if lag, known := in.lag(); known {
			in.Observer.Lag(lag)
		}
		client.AllowRebalance()
		in.lookAround(ctx)
		in.leave(ctx)
		in.Observer.Round()
	}
}

// idle is how long a poll waits for records before it checks whether a broker can be
// reached.
const idle = 5 * time.Second

// poll returns the fetched records and the positions after them. It returns none if a broker
// confirms that there are no records. An error comes from a failpoint.
func (in *ingest) poll(ctx context.Context) ([]read, map[topicPartition]end, error) {
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, idle)
		// Poll everything that is available, limited by MaxBytes: the first few thousand records
		// alone might belong to one partition, and would then keep only one worker busy.
		fetches := in.client.PollFetches(wait)
		cancel()
		in.mu.Lock()
		clear(in.gone) // polled records are of this node's partitions
		in.mu.Unlock()
		in.suspect(fetches)
		failed := in.failures(ctx, fetches)
		if !fetches.Empty() {
			in.heard(fetches)
			records, ends := polled(fetches)
			return records, ends, failpoint.Hit(failpoint.IngestAfterPoll)
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
			in.Log.WarnContext(ctx, "ingestion cannot reach a Kafka broker", slog.Any("error", err))
			loop.Sleep(ctx, loop.Jittered(time.Second))
		case failed:
			loop.Sleep(ctx, loop.Jittered(time.Second))
		default:
			return nil, nil, nil
		}
	}
	return nil, nil, nil
}

// failures reports failed fetches, and returns whether there were any.
func (in *ingest) failures(ctx context.Context, fetches kgo.Fetches) (failed bool) {
	for _, f := range fetches.Errors() {
		if errors.Is(f.Err, context.DeadlineExceeded) || errors.Is(f.Err, context.Canceled) {
			continue // the poll has timed out
		}
		if errors.Is(f.Err, kerr.UnknownTopicID) {
			continue // leave logs it
		}
		failed = true
		in.Observer.Failed()
		in.Log.WarnContext(
			ctx,
			"fetching records failed",
			slog.String("topic", f.Topic),
			slog.Int("partition", int(f.Partition)),
			slog.Any("error", f.Err),
		)
	}
	return failed
}

// assigned records newly assigned partitions.
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

// lost records revoked partitions. Their new owner stores the records that were read but not stored
// yet.
func (in *ingest) lost(m map[string][]int32) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for topic, partitions := range m {
		for _, p := range partitions {
			at := topicPartition{topic, p}
			delete(in.owned, at)
			delete(in.positions, at)
			delete(in.highs, at)
			in.gone[at] = true
		}
	}
}
