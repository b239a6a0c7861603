package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/dlq"
)

// Records that are in a topic when ingestion first sees it are backlog. They may be
// years old, and may have been reprocessed by other means: they become letters, but are
// not retried automatically. So the topics are listed before anything is stored, and
// then in the interval of looking for new topics; a topic that was not there the last
// time is new, and so are its records.

// source is a partition of one incarnation of a topic.
type source struct {
	topic     string
	life      uuid.UUID
	partition int32
}

// look lists the topics, and stores the first sight of each partition. It stops early
// once enough returns true; nil: never.
func (in *ingest) look(ctx context.Context, enough func() bool) error {
	in.looking.Lock()
	defer in.looking.Unlock()
	if enough != nil && enough() {
		return nil // another goroutine has just looked
	}
	topics, err := in.topics(ctx)
	if err != nil {
		return fmt.Errorf("list the topics: %w", err)
	}
	expression := in.Topics + "\n" + in.Exclude
	at, seen, err := in.Store.Looked(ctx, in.Group, expression)
	if err != nil {
		return err
	}
	known := make(map[source]dlq.Inflow, len(seen))
	for _, s := range seen {
		known[source{s.Topic, s.TopicID, s.Partition}] = s
	}
	lives, unseen := map[string]uuid.UUID{}, map[source]bool{}
	for _, t := range topics {
		if t.Topic == nil || t.ErrorCode != 0 || t.IsInternal || !in.pattern.Forbidden(*t.Topic) {
			continue
		}
		lives[*t.Topic] = t.TopicID
		for _, p := range t.Partitions {
			s := source{*t.Topic, t.TopicID, p.Partition}
			if _, is := known[s]; !is {
				unseen[s] = true
			}
		}
	}
	counts := map[string]int64{}
	if len(unseen) > 0 {
		fresh, err := in.firstSight(ctx, at, unseen, counts)
		if err != nil {
			return err
		}
		if err := in.Store.See(ctx, in.Group, expression, fresh); err != nil {
			return err
		}
		// Another node may have been faster: its stored result is used.
		if _, seen, err = in.Store.Looked(ctx, in.Group, expression); err != nil {
			return err
		}
		for _, s := range seen {
			known[source{s.Topic, s.TopicID, s.Partition}] = s
		}
	} else if err := in.Store.See(ctx, in.Group, expression, nil); err != nil {
		return err
	}
	in.tell(ctx, topics, lives, counts)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.inflows, in.before, in.there = known, at, lives
	return nil
}

// firstSight finds the ends of partitions that were never seen. A partition that the
// group has read before has been seen: it has no backlog. counts are the held records
// by topic.
func (in *ingest) firstSight(
	ctx context.Context,
	at time.Time,
	unseen map[source]bool,
	counts map[string]int64,
) ([]dlq.Inflow, error) {
	partitions := map[string][]int32{}
	for s := range unseen {
		partitions[s.topic] = append(partitions[s.topic], s.partition)
	}
	read, err := in.readBefore(ctx, partitions)
	if err != nil {
		return nil, fmt.Errorf("read the group's offsets of topics: %w", err)
	}
	ends, err := in.offsets(ctx, partitions, -1)
	if err != nil {
		return nil, fmt.Errorf("read the end offsets of topics: %w", err)
	}
	begins, err := in.offsets(ctx, partitions, -2)
	if err != nil {
		return nil, fmt.Errorf("read the first offsets of topics: %w", err)
	}
	var fresh []dlq.Inflow
	for s := range unseen {
		where := topicPartition{s.topic, s.partition}
		end, is := ends[where]
		if !is {
			continue // it has no leader at the moment: the next look sees it
		}
		f := dlq.Inflow{Topic: s.topic, TopicID: s.life, Partition: s.partition, BacklogEnd: end, BacklogBefore: at}
		if then, is := read[where]; is && (then == uuid.Nil || then == s.life) {
			f.BacklogEnd = 0
		}
		if f.BacklogEnd > 0 && at.IsZero() {
			counts[s.topic] += end - begins[where]
		}
		fresh = append(fresh, f)
	}
	return fresh, nil
}

// readBefore returns which partitions the group has committed, and under which topic
// id.
func (in *ingest) readBefore(ctx context.Context, partitions map[string][]int32) (map[topicPartition]uuid.UUID, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = in.Group
	for topic, list := range partitions {
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = topic, list
		req.Topics = append(req.Topics, t)
	}
	res, err := req.RequestWith(ctx, in.asks())
	if err == nil {
		err = kerr.ErrorForCode(res.ErrorCode)
	}
	if err != nil {
		return nil, err
	}
	out := map[topicPartition]uuid.UUID{}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 && p.Offset >= 0 {
				out[topicPartition{t.Topic, p.Partition}] = lifeOf(p.Metadata)
			}
		}
	}
	return out, nil
}

// offsets gets the end (-1) or first (-2) offsets of partitions from their leaders. A
// partition whose leader does not answer is left out.
func (in *ingest) offsets(
	ctx context.Context,
	partitions map[string][]int32,
	which int64,
) (map[topicPartition]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	for topic, list := range partitions {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for _, p := range list {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp = p, which
			t.Partitions = append(t.Partitions, rp)
		}
		req.Topics = append(req.Topics, t)
	}
	out := map[topicPartition]int64{}
	for _, shard := range in.asks().RequestSharded(ctx, req) {
		if shard.Err != nil {
			return nil, shard.Err
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 {
					out[topicPartition{t.Topic, p.Partition}] = p.Offset
				}
			}
		}
	}
	return out, nil
}

// isBacklog tells whether a record is backlog; its topic has been listed before. For an
// incarnation that ended before it was ever listed, only the record's time decides.
func (in *ingest) isBacklog(ctx context.Context, r read) (bool, error) {
	at := source{r.Topic, r.life, r.Partition}
	if r.life == uuid.Nil {
		at.life = in.assumedLife(r.Topic) // brokers of 2.8 to 3.0 return it only with metadata
	}
	find := func() (f dlq.Inflow, is bool) {
		in.mu.Lock()
		defer in.mu.Unlock()
		f, is = in.inflows[at]
		return f, is
	}
	f, is := find()
	if !is {
		if err := in.look(ctx, func() bool { f, is = find(); return is }); err != nil {
			return false, err
		}
		f, is = find()
	}
	if !is {
		in.mu.Lock()
		ended := in.there[r.Topic] != at.life
		f = dlq.Inflow{BacklogEnd: math.MaxInt64, BacklogBefore: in.before}
		in.mu.Unlock()
		if !ended {
			return false, fmt.Errorf("partition %d of %s has no leader to ask for its end offset", r.Partition, r.Topic)
		}
	}
	return f.Backlog(r.Offset, r.Timestamp), nil
}

// tell logs the topics that are read whenever they change, and those that are not read
// because of their case.
func (in *ingest) tell(
	ctx context.Context,
	topics []kmsg.MetadataResponseTopic,
	lives map[string]uuid.UUID,
	backlog map[string]int64,
) {
	matched := slices.Sorted(maps.Keys(lives))
	var near []string
	if in.Sources == nil { // those of events are named, not matched
		near = in.nearly(topics)
	}
	in.Observer.Topics(matched, near)
	if slices.Equal(matched, in.told) && slices.Equal(near, in.toldNear) && in.told != nil {
		return
	}
	in.told, in.toldNear = append([]string{}, matched...), near
	if in.Sources != nil {
		in.tellSources(ctx, matched, backlog)
		return
	}
	in.Log.InfoContext(
		ctx,
		"reading dead-letter topics",
		slog.Any("topics", matched),
		slog.String("ingest.topics", in.Topics),
		slog.String("ingest.exclude", in.Exclude),
	)
	if len(near) > 0 {
		in.Log.WarnContext(
			ctx,
			"these topics are not read: the expression matches them only if case is ignored; prefix it with (?i) to do that",
			slog.Any("topics", near),
			slog.String("ingest.topics", in.Topics),
		)
	}
	for _, topic := range matched {
		if n := backlog[topic]; n > 0 {
			does := "their letters are held: release them with a redrive on the label backlog"
			if in.Backlog {
				does = "their letters are retried automatically (ingest.backlog)"
			}
			in.Log.InfoContext(ctx, "a dead-letter topic had records before it was first read; "+does,
				slog.String("topic", topic), slog.Int64("records", n))
		}
	}
}

// nearly returns the topics that the expression would match in another case.
func (in *ingest) nearly(topics []kmsg.MetadataResponseTopic) (near []string) {
	anyCase, err := regexp.Compile("(?i:" + in.Topics + ")")
	if err != nil {
		return nil
	}
	for _, t := range topics {
		if t.Topic == nil || t.IsInternal || in.pattern.topics.MatchString(*t.Topic) ||
			in.pattern.exclude != nil && in.pattern.exclude.MatchString(*t.Topic) {
			continue
		}
		if anyCase.MatchString(*t.Topic) {
			near = append(near, *t.Topic)
		}
	}
	slices.Sort(near)
	return near
}
