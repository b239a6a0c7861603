package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"regexp"
	"slices"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/dlq"
)

// Records that are in a topic when ingestion first looks for topics are backlog. They may be years
// old and may already have been reprocessed by other means, so they become letters that are not
// retried automatically. For this reason, topics are listed before anything is stored, and then at
// the interval for new topics. A topic that did not exist at the first listing is new, and so are
// its records (dlq.Sight).

// source is a partition of one incarnation of a topic.
type source struct {
	topic     string
	life      uuid.UUID
	partition int32
}

// look lists the topics and stores the first sight of each partition. It stops early once enough
// returns true; a nil enough never stops it.
func (in *ingest) look(ctx context.Context, enough func() bool) error {
	in.looking.Lock()
	defer in.looking.Unlock()
	if enough != nil && enough() {
		return nil // another goroutine has just listed them
	}
	cluster, topics, err := in.topics(ctx)
	if err != nil {
		return fmt.Errorf("list the topics: %w", err)
	}
	reader := dlq.Reader{Group: in.Group, Expression: in.Topics + "\n" + in.Exclude, Cluster: cluster}
	ever, seen, err := in.Store.Looked(ctx, reader)
	if err != nil {
		return err
	}
	known, started := in.index(seen)
	lives, unseen := map[string]uuid.UUID{}, map[source]dlq.Sight{}
	for _, t := range topics {
		if t.Topic == nil || t.ErrorCode != 0 || t.IsInternal || !in.pattern.Forbidden(*t.Topic) {
			continue
		}
		lives[*t.Topic] = t.TopicID
		for _, p := range t.Partitions {
			s := source{*t.Topic, t.TopicID, p.Partition}
			switch f, is := known[s]; {
			case !is:
				unseen[s] = dlq.Sight{FirstLook: !ever, KnownTopic: started[source{s.topic, s.life, 0}]}
			case f.BacklogEnd == dlq.Unmeasured:
				unseen[s] = dlq.Sight{FirstLook: true}
			}
		}
	}
	counts := map[string]int64{}
	fresh, err := in.firstSight(ctx, unseen, counts)
	if err != nil {
		return err
	}
	if err := in.Store.See(ctx, reader, fresh); err != nil {
		return err
	}
	if len(fresh) > 0 { // another node may have been faster, in which case its stored result is used
		if _, seen, err = in.Store.Looked(ctx, reader); err != nil {
			return err
		}
		known, _ = in.index(seen)
	}
	in.tell(ctx, topics, lives, counts)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.inflows, in.before, in.there = known, ever, lives
	return nil
}

// index returns the first sights by partition, and the topics seen, each represented by partition
// 0.
func (in *ingest) index(seen []dlq.Inflow) (partitions map[source]dlq.Inflow, topics map[source]bool) {
	partitions, topics = make(map[source]dlq.Inflow, len(seen)), map[source]bool{}
	for _, s := range seen {
		partitions[source{s.Topic, s.TopicID, s.Partition}] = s
		topics[source{s.Topic, s.TopicID, 0}] = true
	}
	return partitions, topics
}

// firstSight returns the end offsets of partitions that were never seen, and the number of held
// records by topic.
func (in *ingest) firstSight(
	ctx context.Context,
	unseen map[source]dlq.Sight,
	counts map[string]int64,
) ([]dlq.Inflow, error) {
	partitions := map[string][]int32{} // partitions that may have a backlog
	for s, sight := range unseen {
		if sight.End = math.MaxInt64; sight.BacklogEnd() > 0 {
			partitions[s.topic] = append(partitions[s.topic], s.partition)
		}
	}
	var read map[topicPartition]uuid.UUID
	var ends, begins map[topicPartition]int64
	var err error
	if len(partitions) > 0 {
		if read, err = in.readBefore(ctx, partitions); err != nil {
			return nil, fmt.Errorf("read the group's committed offsets: %w", err)
		}
		if ends, err = in.offsets(ctx, partitions, -1); err != nil {
			return nil, fmt.Errorf("read the end offsets of topics: %w", err)
		}
		if begins, err = in.offsets(ctx, partitions, -2); err != nil {
			return nil, fmt.Errorf("read the first offsets of topics: %w", err)
		}
	}
	var fresh []dlq.Inflow
	for s, sight := range unseen {
		where := topicPartition{s.topic, s.partition}
		sight.End = dlq.Unmeasured
		if end, is := ends[where]; is {
			sight.End = end
		}
		then, committed := read[where]
		sight.Read = committed && (then == uuid.Nil || then == s.life)
		f := dlq.Inflow{Topic: s.topic, TopicID: s.life, Partition: s.partition, BacklogEnd: sight.BacklogEnd()}
		if f.BacklogEnd > 0 {
			counts[s.topic] += f.BacklogEnd - begins[where]
		}
		fresh = append(fresh, f)
	}
	return fresh, nil
}

// readBefore returns the partitions that the group has committed, and the topic ids of those
// commits.
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

// offsets requests the end (-1) or first (-2) offsets of partitions from their leaders. Partitions
// whose leader does not answer are omitted.
func (in *ingest) offsets(
	ctx context.Context,
	partitions map[string][]int32,
	which int64,
) (map[topicPartition]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	return in.listOffsets(ctx, req, partitions, which)
}

// stableOffsets requests the offsets of the first records of open transactions, or the end offsets
// where there are none.
func (in *ingest) stableOffsets(ctx context.Context, partitions map[string][]int32) (map[topicPartition]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, 1
	return in.listOffsets(ctx, req, partitions, -1)
}

func (in *ingest) listOffsets(
	ctx context.Context,
	req *kmsg.ListOffsetsRequest,
	partitions map[string][]int32,
	which int64,
) (map[topicPartition]int64, error) {
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

// isBacklog reports whether a record is backlog. Its topic must have been listed before. An
// incarnation that ended before it was ever listed is backlog only if no listing preceded it;
// otherwise it was created since then.
func (in *ingest) isBacklog(ctx context.Context, r read) (bool, error) {
	at := source{r.Topic, r.life, r.Partition}
	if r.life == uuid.Nil {
		at.life = in.assumedLife(r.Topic) // brokers of 2.8 to 3.0 return the id only with metadata
	}
	find := func() (f dlq.Inflow, is bool) {
		in.mu.Lock()
		defer in.mu.Unlock()
		f, is = in.inflows[at]
		return f, is && f.BacklogEnd != dlq.Unmeasured
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
		defer in.mu.Unlock()
		if in.there[r.Topic] == at.life {
			return false, fmt.Errorf("partition %d of %s has no leader, so its end offset is unknown", r.Partition, r.Topic)
		}
		return !in.before, nil
	}
	return f.Backlog(r.Offset), nil
}

// tell logs the topics that are read whenever they change, and those that are not read because they
// differ in case.
func (in *ingest) tell(
	ctx context.Context,
	topics []kmsg.MetadataResponseTopic,
	lives map[string]uuid.UUID,
	backlog map[string]int64,
) {
	matched := slices.Sorted(maps.Keys(lives))
	var near []string
	if in.Sources == nil { // topics of events are configured by name
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
			"topics not read: ingest.topics matches them only if case is ignored; prefix the expression with (?i) to ignore case",
			slog.Any("topics", near),
			slog.String("ingest.topics", in.Topics),
		)
	}
	for _, topic := range matched {
		if n := backlog[topic]; n > 0 {
			does := "their letters are held; to release them, redrive the letters with the label backlog"
			if in.Backlog {
				does = "their letters are retried automatically (ingest.backlog)"
			}
			in.Log.InfoContext(ctx, "a dead-letter topic had records before it was first read; "+does,
				slog.String("topic", topic), slog.Int64("records", n))
		}
	}
}

// nearly returns the topics that the expression would match if case were ignored.
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
