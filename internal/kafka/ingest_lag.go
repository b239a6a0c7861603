package kafka

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The position up to which a partition has been read is an offset in the log, not a number of
// records, because it also passes transaction markers and records of aborted transactions. The
// client returns markers (KeepControlRecords), and an aborted transaction ends with one, so the
// position follows from what is polled. The end offsets of partitions are requested even when no
// records arrive, because records may be behind an open transaction.

// end is the next offset of a partition, with the topic's id.
type end struct {
	kgo.EpochOffset
	life uuid.UUID
}

// position is the position up to which a partition was read and stored.
type position struct {
	end
	due bool // the group has a different offset or none, so this must be committed
}

// unread is an unknown position: the client begins at the first record.
const unread = -1

// polled returns the records in fetches and the positions after them.
func polled(fetches kgo.Fetches) (records []read, ends map[topicPartition]end) {
	records, ends = make([]read, 0, fetches.NumRecords()), map[topicPartition]end{}
	for _, f := range fetches {
		for _, t := range f.Topics {
			for _, p := range t.Partitions {
				for _, r := range p.Records {
					if !r.Attrs.IsControl() {
						records = append(records, read{r, t.TopicID})
					}
				}
				if n := len(p.Records); n > 0 {
					last := p.Records[n-1]
					next := kgo.EpochOffset{Epoch: last.LeaderEpoch, Offset: last.Offset + 1}
					ends[topicPartition{t.Topic, p.Partition}] = end{next, t.TopicID}
				}
			}
		}
	}
	return records, ends
}

// beginsAt records the offset from which a partition is read. The caller holds mu.
func (in *ingest) beginsAt(at topicPartition, from kgo.Offset, committed bool) {
	next := from.EpochOffset()
	if next.Offset < 0 {
		next.Offset = unread
	}
	in.positions[at] = position{end{next, uuid.Nil}, !committed && next.Offset > 0}
	delete(in.highs, at)
}

// reached records the positions up to which partitions were read. The positions are committed if
// done is set.
func (in *ingest) reached(ends map[topicPartition]end, done bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for at, e := range ends {
		if in.owned[at] {
			in.positions[at] = position{e, !done}
		}
	}
}

// heard records the end offsets of partitions that fetches report.
func (in *ingest) heard(fetches kgo.Fetches) {
	in.mu.Lock()
	defer in.mu.Unlock()
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if at := (topicPartition{p.Topic, p.Partition}); p.Err == nil && len(p.Records) > 0 {
			in.highs[at] = p.HighWatermark
		}
	})
}

// measureEvery is the interval at which the end offsets of partitions are requested.
const measureEvery = 5 * time.Second

// measure requests the end offsets of this node's partitions, and commits positions that the group
// does not have. There are such positions after a failed commit, and after records that no longer
// exist. It is called when everything polled has been stored.
func (in *ingest) measure(ctx context.Context, now bool) {
	if !now && time.Since(in.measured) < measureEvery {
		return
	}
	within, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	in.mu.Lock()
	ours := in.partitions()
	in.mu.Unlock()
	if len(ours) == 0 {
		return
	}
	highs, err := in.offsets(within, ours, -1)
	var begins map[topicPartition]int64
	if err == nil {
		begins, err = in.offsets(within, ours, -2)
	}
	if err != nil {
		if ctx.Err() == nil {
			in.Log.WarnContext(ctx, "cannot read the end offsets of partitions", slog.Any("error", err))
		}
		return
	}
	in.measured = time.Now()
	if due := in.settle(highs, begins); len(due) > 0 {
		if err := in.commit(within, due); err != nil {
			in.Log.DebugContext(ctx, "cannot commit the offsets of partitions", slog.Any("error", err))
			return
		}
		in.mu.Lock()
		for at, e := range due {
			if p, is := in.positions[at]; is && p.Offset == e.Offset {
				in.positions[at] = position{p.end, false}
			}
		}
		in.mu.Unlock()
	}
}

// settle records what brokers report about partitions, and returns the positions to commit.
func (in *ingest) settle(highs, begins map[topicPartition]int64) map[topicPartition]end {
	in.mu.Lock()
	defer in.mu.Unlock()
	due := map[topicPartition]end{}
	for at := range in.owned {
		high, is := highs[at]
		p, begun := in.positions[at]
		first, told := begins[at]
		if !is || !begun || !told {
			continue
		}
		in.highs[at] = high
		if p.Offset < first { // earlier records no longer exist, so the client continues at the first record
			p = position{end{kgo.EpochOffset{Epoch: -1, Offset: first}, uuid.Nil}, p.due || p.Offset > unread}
			in.positions[at] = p
		}
		if p.due {
			due[at] = p.end
		}
	}
	return due
}

// lag returns the number of offsets between this node's positions and the ends of its partitions;
// known reports whether all of them were measured.
func (in *ingest) lag() (sum int64, known bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for at := range in.owned {
		high, is := in.highs[at]
		p, begun := in.positions[at]
		if !is || !begun || p.Offset == unread {
			return 0, false
		}
		sum += max(0, high-p.Offset)
	}
	return sum, true
}
