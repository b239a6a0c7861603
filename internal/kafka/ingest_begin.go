package kafka

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-saga/skald/internal/dlq"
)

// begin chooses the offsets from which newly assigned partitions are read: the group's offset,
// unless it was committed in another life of the topic (one that was deleted and created again has
// a new life). If an earlier life was read, the new life is read from its beginning, whatever the
// configuration says about topics that were never read.
func (in *ingest) begin(
	ctx context.Context,
	offsets map[string]map[int32]kgo.Offset,
) (map[string]map[int32]kgo.Offset, error) {
	lives, err := in.lives(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the ids of topics: %w", err)
	}
	if in.skipsBacklog() {
		if err := in.look(ctx, nil); err != nil {
			return nil, err
		}
	}
	ends, err := in.latest(ctx, offsets)
	if err != nil {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for topic, partitions := range offsets {
		now := lives[topic]
		before, was := in.assumed[topic]
		in.assumed[topic] = now
		for p := range partitions {
			then, committed := in.committed[topicPartition{topic, p}]
			anew := committed && then != uuid.Nil && now != uuid.Nil && then != now
			if !committed && was && before != uuid.Nil && now != uuid.Nil && before != now {
				in.recreated[topic] = now
			}
			if anew || !committed && now != uuid.Nil && in.recreated[topic] == now {
				in.Log.InfoContext(
					ctx,
					"a topic was recreated; reading it from the beginning",
					slog.String(
						"topic",
						topic,
					),
					slog.Int("partition", int(p)),
					slog.String("topic_id", dlq.Position{TopicID: now}.ID()),
				)
				partitions[p] = kgo.NewOffset().AtStart()
			} else if end := in.backlogEnd(source{topic, now, p}); !committed && end > 0 {
				partitions[p] = kgo.NewOffset().At(end)
			} else if end, is := ends[topicPartition{topic, p}]; is && !committed {
				partitions[p] = kgo.NewOffset().At(end)
			}
			in.beginsAt(topicPartition{topic, p}, partitions[p], committed && !anew)
		}
	}
	return offsets, nil
}

// latest returns the end offsets of partitions that are to be read from their end, as visible to a
// reader of committed transactions. The client also determines these offsets but does not expose
// them.
func (in *ingest) latest(
	ctx context.Context,
	offsets map[string]map[int32]kgo.Offset,
) (map[topicPartition]int64, error) {
	if !in.Latest {
		return nil, nil
	}
	partitions := map[string][]int32{}
	for topic, list := range offsets {
		for p := range list {
			partitions[topic] = append(partitions[topic], p)
		}
	}
	ends, err := in.stableOffsets(ctx, partitions)
	if err != nil {
		return nil, fmt.Errorf("read the end offsets of topics: %w", err)
	}
	return ends, nil
}
