package kafka

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/dlq"
)

// A topic that is deleted and recreated has the same name, but its offsets begin at 0 again.
// Brokers assign an id to each incarnation, called a life here (Metadata from 2.8 on, Fetch from
// 3.1 on). Offsets committed in one life mean nothing in the next, so the id is stored in the
// metadata of the commit. The client keeps the first id that it has seen until the topic is purged
// from it; it then finds the topic again by the expression.

// read is a record with the id of its topic, or zero if the broker does not return the id.
type read struct {
	*kgo.Record
	life uuid.UUID
}

// commitNote is the prefix of the metadata in our commits. It precedes the topic's id.
const commitNote = "skald topic="

func noteOf(life uuid.UUID) string {
	if life == uuid.Nil {
		return ""
	}
	return commitNote + dlq.Position{TopicID: life}.ID()
}

// lifeOf parses the output of noteOf. It returns zero for anything else, as written by older
// versions and by tools that reset offsets; such offsets are valid.
func lifeOf(note *string) (life uuid.UUID) {
	if note == nil {
		return life
	}
	if id, ok := strings.CutPrefix(*note, commitNote); ok {
		life, _ = dlq.ParseTopicID(id) // zero if it is malformed
	}
	return life
}

// fetched stores the group's commits for begin.
func (in *ingest) fetched(c *kgo.Client, res *kmsg.OffsetFetchResponse) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.asked = c
	clear(in.committed)
	for _, g := range res.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 && p.Offset >= 0 {
					in.committed[topicPartition{t.Topic, p.Partition}] = lifeOf(p.Metadata)
				}
			}
		}
	}
}

// lives returns the ids of all topics that are read.
func (in *ingest) lives(ctx context.Context) (map[string]uuid.UUID, error) {
	_, topics, err := in.topics(ctx)
	if err != nil {
		return nil, err
	}
	lives := make(map[string]uuid.UUID, len(topics))
	for _, t := range topics {
		if t.Topic != nil && t.ErrorCode == 0 && !t.IsInternal && in.pattern.Forbidden(*t.Topic) {
			lives[*t.Topic] = t.TopicID
		}
	}
	return lives, nil
}

// topics lists all topics of the cluster and also returns the cluster's id.
func (in *ingest) topics(ctx context.Context) (cluster string, topics []kmsg.MetadataResponseTopic, err error) {
	req := kmsg.NewPtrMetadataRequest() // nil topics: all
	res, err := req.RequestWith(ctx, in.asks())
	if err == nil {
		err = kerr.ErrorForCode(res.ErrorCode)
	}
	if err != nil {
		return "", nil, err
	}
	if res.ClusterID != nil {
		cluster = dlq.Storable(*res.ClusterID, dlq.MaxWord)
	}
	return cluster, res.Topics, nil
}

func (in *ingest) asks() *kgo.Client {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.asked
}

// over reports whether a life of a topic has ended, so that no other node can read its records
// again. If no broker answers, it is assumed to have ended, because a record that is stored twice
// still yields only one letter.
func (in *ingest) over(ctx context.Context, topic string, life uuid.UUID) bool {
	if life == uuid.Nil {
		return false
	}
	lives, err := in.lives(ctx)
	if err != nil {
		return true
	}
	return lives[topic] != life
}

// suspect marks topics that the broker reports as deleted or recreated.
func (in *ingest) suspect(fetches kgo.Fetches) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, f := range fetches {
		for _, t := range f.Topics {
			if assumed, is := in.assumed[t.Topic]; is && t.TopicID != uuid.Nil && assumed != uuid.Nil && assumed != t.TopicID {
				in.ended[t.Topic] = true // it was recreated during a rebalance
			}
			for _, p := range t.Partitions {
				if errors.Is(p.Err, kerr.UnknownTopicID) {
					in.ended[t.Topic] = true
				}
			}
		}
	}
}

const lookTimeout = 10 * time.Second

// lookAround compares the topics listed by the brokers with those that are read, at the interval
// for new topics.
func (in *ingest) lookAround(ctx context.Context) {
	if time.Since(in.looked) < in.NewTopics {
		return
	}
	within, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if err := in.look(within, nil); err != nil {
		in.Observer.Failed()
		in.Log.WarnContext(ctx, "cannot list the topics", slog.Any("error", err))
		return
	}
	in.looked = time.Now()
	in.mu.Lock()
	defer in.mu.Unlock()
	lives := in.there
	for topic, now := range lives {
		if _, is := in.assumed[topic]; !is { // not begun: if recreated before that, read from its beginning
			in.assumed[topic] = now
		}
	}
	for topic, assumed := range in.assumed {
		switch now, is := lives[topic]; {
		case !is || now == uuid.Nil:
		case assumed == uuid.Nil:
			in.assumed[topic] = now // it did not exist when the ids were read
		case assumed != now:
			in.ended[topic] = true
		}
	}
}

// leave drops topics whose life has ended. If a topic was recreated under the same name, it is
// found again. leave must not block rebalances.
func (in *ingest) leave(ctx context.Context) {
	in.mu.Lock()
	var topics []string
	for topic := range in.ended {
		topics = append(topics, topic)
	}
	clear(in.ended)
	in.mu.Unlock()
	if len(topics) == 0 {
		return
	}
	slices.Sort(topics)
	in.Log.InfoContext(ctx, "topics were deleted or recreated", slog.Any("topics", topics))
	in.client.PurgeTopicsFromConsuming(topics...)
	in.client.ForceMetadataRefresh()
}

// topicPartition identifies a partition.
type topicPartition struct {
	topic     string
	partition int32
}
