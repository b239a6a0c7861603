package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/loop"
)

// round stores the polled records and commits their offsets. A partition's records are stored one
// batch after the other, so that letters arrive in order. An error comes from a failpoint or from
// ctx.
func (in *ingest) round(ctx context.Context, records []read, ends map[topicPartition]end) error {
	todo := newWork(records, in.Batch, in.BatchBytes)
	clear(records)
	errs := make([]error, in.Workers)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = in.store(ctx, todo) })
	}
	all.Wait()
	in.resume() // all are stored or revoked; newly assigned partitions may have been paused with the others
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := errors.Join(failpoint.Hit(failpoint.IngestAfterInsert),
		failpoint.Hit(failpoint.IngestBeforeCommit)); err != nil {
		return err
	}
	for at, e := range ends {
		// Records of a life other than the assumed one may be from anywhere in that life. It is
		// read from its beginning once the topic is found again.
		if now := in.assumedLife(at.topic); in.isGone(at) || e.life != uuid.Nil && now != uuid.Nil && e.life != now {
			delete(ends, at)
		}
	}
	if len(ends) == 0 {
		return nil
	}
	// The records are stored, so a stop must not cause them to be read again.
	commit, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	err := in.commit(commit, ends)
	in.reached(ends, err == nil)
	if err != nil {
		// The next commit includes these offsets. Records that are read again before it are
		// recognized by their place.
		in.Observer.Failed()
		in.Log.WarnContext(ctx, "cannot commit the offsets of stored records", slog.Any("error", err))
	}
	return nil
}

// commit commits the positions of partitions, with the topic's id in the metadata. Partitions of
// deleted topics are omitted.
func (in *ingest) commit(ctx context.Context, ends map[topicPartition]end) (err error) {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for at, e := range ends {
		if offsets[at.topic] == nil {
			offsets[at.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[at.topic][at.partition] = e.EpochOffset
	}
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			t := &req.Topics[i]
			for k := range t.Partitions {
				p := &t.Partitions[k]
				life := ends[topicPartition{t.Topic, p.Partition}].life
				if life == uuid.Nil {
					life = in.assumedLife(t.Topic)
				}
				if note := noteOf(life); note != "" {
					p.Metadata = &note
				}
			}
		}
		return nil
	})
	in.client.CommitOffsetsSync(
		ctx,
		offsets,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, res *kmsg.OffsetCommitResponse, failed error) {
			if err = failed; err != nil {
				return
			}
			for _, t := range res.Topics {
				for _, p := range t.Partitions {
					if e := kerr.ErrorForCode(p.ErrorCode); e != nil && !errors.Is(e, kerr.UnknownTopicID) &&
						!errors.Is(e, kerr.UnknownTopicOrPartition) {
						err = e
					}
				}
			}
		},
	)
	return err
}

const commitTimeout = 5 * time.Second

// store stores batches until none is left, however long that takes. It returns only ctx's error.
func (in *ingest) store(ctx context.Context, todo *work) error {
	for {
		batch, of := todo.take()
		if batch == nil {
			return nil
		}
		if err := in.storeBatch(ctx, batch); err != nil {
			todo.end()
			return err
		}
		clear(batch)
		todo.giveBack(of)
	}
}

// storeBatch retries until the batch is stored or its partitions no longer belong to this node.
func (in *ingest) storeBatch(ctx context.Context, records []read) error {
	for failures := 0; ; {
		ours := in.ours(ctx, records)
		if len(ours) == 0 {
			return nil
		}
		err := in.put(ctx, ours)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		in.Observer.Failed()
		in.hold()
		in.Log.WarnContext(ctx, "cannot store records; retrying", slog.Int("records", len(ours)), slog.Any("error", err))
		wait := min(storeBackoff<<min(failures, 10), maxStoreBackoff)
		failures++
		loop.Sleep(ctx, loop.Jittered(wait))
	}
}

// put stores records as events or letters.
func (in *ingest) put(ctx context.Context, records []read) error {
	if in.Sources != nil {
		return in.putEvents(ctx, records)
	}
	letters, held, err := in.letters(ctx, records)
	if err == nil {
		err = in.arrive(ctx, letters, form(0))
	}
	if err == nil {
		in.Observer.Held(held)
	}
	return err
}

const (
	storeBackoff    = 100 * time.Millisecond
	maxStoreBackoff = 5 * time.Second
)

// ours returns the records that this node must store: those of its partitions, and those of deleted
// topics, whose partitions have no owner.
func (in *ingest) ours(ctx context.Context, records []read) []read {
	over := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(records), func(r read) bool {
		if !in.isGone(topicPartition{r.Topic, r.Partition}) {
			return false
		}
		gone, asked := over[r.Topic]
		if !asked {
			gone = in.over(ctx, r.Topic, r.life)
			over[r.Topic] = gone
		}
		return !gone
	})
}

// letters converts records to letters, and counts those that are held as backlog.
func (in *ingest) letters(ctx context.Context, records []read) (batch []dlq.Arrival, held int, err error) {
	batch = make([]dlq.Arrival, len(records))
	now := in.Now()
	for i, r := range records {
		batch[i] = in.Intake.Arrival(recordOf(r))
		a := &batch[i]
		policy, err := in.Store.PolicyOf(ctx, a.TenantID, a.OriginalTopic)
		if err != nil {
			return nil, 0, fmt.Errorf("read the policy of a topic: %w", err)
		}
		a.Letter = dlq.New(a.Letter, in.NewID(), &policy, dlq.Moment{Now: now, Jitter: loop.Chance()})
		switch is, err := in.isBacklog(ctx, r); {
		case err != nil:
			return nil, 0, fmt.Errorf("read the backlog of a topic: %w", err)
		case is && !in.Backlog:
			a.Letter = a.Hold()
			held++
		}
	}
	return batch, held, nil
}

func recordOf(r read) dlq.Record {
	out := dlq.Record{
		Place:     dlq.Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, TopicID: r.life},
		Timestamp: r.Timestamp,
		Content:   dlq.Content{Key: r.Key, Payload: r.Value},
	}
	if len(r.Headers) > 0 {
		out.Content.Headers = make([]dlq.Header, len(r.Headers))
		for i, h := range r.Headers {
			out.Content.Headers[i] = dlq.Header{Name: h.Key, Value: h.Value}
		}
	}
	return out
}

// form determines how much of a record is stored, from 0 (everything) to a form that PostgreSQL
// certainly accepts.
type form int

const (
	reduced form = iota + 1 // the raw bytes without anything derived from them
	bare                    // only the place
	forms                   // number of forms
)

// arrive stores a batch. A rejected batch is split until the record that PostgreSQL rejects is
// found. That record is stored in a reduced form, because it would otherwise block its partition
// forever.
func (in *ingest) arrive(ctx context.Context, batch []dlq.Arrival, f form) error {
	stored, err := in.Store.Arrive(ctx, batch)
	if err == nil {
		in.arrived(len(batch), stored)
		return nil
	}
	if fault.KindOf(err) != fault.Invalid {
		return err
	}
	if n := len(batch); n > 1 {
		if err := in.arrive(ctx, batch[:n/2], f); err != nil {
			return err
		}
		return in.arrive(ctx, batch[n/2:], f)
	}
	if f++; f == forms {
		return err
	}
	in.Observer.Refused()
	in.Log.WarnContext(
		ctx,
		"the database cannot store a dead letter as received; storing a reduced form",
		slog.Any("place", *batch[0].Arrived),
		slog.Any("error", err),
	)
	return in.arrive(ctx, []dlq.Arrival{in.reduce(batch[0], f, err)}, f)
}

// reduce returns a letter with fewer of the parts that could be rejected.
func (in *ingest) reduce(a dlq.Arrival, f form, why error) dlq.Arrival {
	detail := why.Error()
	if e := fault.As(why); e != nil {
		detail = e.Detail
	}
	l := dlq.Letter{
		ID:            a.ID,
		TenantID:      a.TenantID,
		Source:        a.Source,
		OriginalTopic: dlq.Storable(a.OriginalTopic, dlq.MaxTopic),
		Arrived:       a.Arrived,
		MaxRetries:    max(a.MaxRetries, 0), Labels: a.Labels, Note: a.Note, Content: a.Content,
		Failure: dlq.Failure{
			Message: dlq.Storable("PostgreSQL could not store this record as received: "+detail, dlq.MaxError),
		},
	}
	if f >= bare {
		l.Content = dlq.Content{}
		l.Labels, l.MaxRetries = []string{dlq.LabelTruncated}, 0
		l.Note = fmt.Sprintf(
			"The key, headers and payload could not be stored. The record is at offset %d of partition %d of %s.",
			a.Arrived.Offset,
			a.Arrived.Partition,
			a.Arrived.Topic,
		)
	}
	policy := dlq.DefaultPolicy
	policy.AutoRetry = false
	l = dlq.New(l, a.ID, &policy, dlq.Moment{Now: a.CreatedAt})
	if l.Content.Payload != nil {
		l.Encoding = dlq.Binary
	}
	return dlq.Arrival{Letter: l}
}

// hold pauses this node's partitions until the end of the round because the database is
// unavailable. The client keeps its membership alive, so a rebalance need not wait for the
// database.
func (in *ingest) hold() {
	in.mu.Lock()
	if !in.waiting {
		in.waiting = true
		in.client.PauseFetchPartitions(in.partitions())
		in.Observer.Paused(true)
	}
	in.mu.Unlock()
	in.client.AllowRebalance()
}

// resume ends the pause.
func (in *ingest) resume() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.waiting {
		in.waiting = false
		in.client.ResumeFetchPartitions(in.client.PauseFetchPartitions(nil)) // also those revoked in the meantime
		in.Observer.Paused(false)
	}
}

// partitions lists this node's partitions. The caller holds mu.
func (in *ingest) partitions() map[string][]int32 {
	m := map[string][]int32{}
	for at := range in.owned {
		m[at.topic] = append(m[at.topic], at.partition)
	}
	return m
}

func (in *ingest) assumedLife(topic string) uuid.UUID {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.assumed[topic]
}

func (in *ingest) isGone(at topicPartition) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.gone[at]
}
