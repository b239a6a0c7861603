package dlq

import (
	"context"

	"github.com/google/uuid"
)

// LabelBacklog marks a letter whose record was in its topic before ingestion first looked for
// topics. It is not retried automatically, because it may be very old or already have been handled
// by other means.
const LabelBacklog = "backlog"

// Reader is a consumer group that looks for topics matching an expression on a cluster. With a
// different expression, or on a different cluster, it counts as a new reader.
type Reader struct {
	Group      string
	Expression string
	Cluster    string // "": the brokers do not report it
}

// Inflow is a partition of one incarnation of a dead-letter topic, as a consumer group
// first saw it.
type Inflow struct {
	Topic     string
	TopicID   uuid.UUID
	Partition int32
	// BacklogEnd is the offset of the first record that is not backlog. 0 means that there is no
	// backlog, and Unmeasured that no broker could report it yet.
	BacklogEnd int64
}

// Unmeasured stands for the end of a backlog that must still be requested: the partition existed
// when the group first looked, but had no leader.
const Unmeasured int64 = -1

// Sight describes what is known about a partition when a consumer group first sees it.
type Sight struct {
	FirstLook  bool  // the group has never looked for topics as this Reader
	KnownTopic bool  // the group has seen other partitions of this incarnation of the topic
	Read       bool  // the group has committed an offset in the partition
	End        int64 // offset after the last record, or Unmeasured
}

// BacklogEnd computes Inflow.BacklogEnd. Only records that existed when the group first looked are
// backlog. A topic or a partition found later was created since then, so all of its records are new
// regardless of their timestamps. Timestamps are set by producers, and producers that copy records
// into dead-letter topics keep the original ones.
func (s Sight) BacklogEnd() int64 {
	if !s.FirstLook || s.KnownTopic || s.Read {
		return 0
	}
	return s.End
}

// Backlog reports whether a record was there before the group first looked. The end must already
// have been measured.
func (s Inflow) Backlog(offset int64) bool { return offset < s.BacklogEnd }

// Hold cancels the automatic retry of a letter that was never retried, and adds a label
// with the reason.
func (l Letter) Hold() Letter {
	if l.Status != Pending {
		return l
	}
	l.NextRetryAt = nil
	l.Labels = append(l.Labels[:len(l.Labels):len(l.Labels)], LabelBacklog)
	return l
}

// Inflows stores what consumer groups have seen of dead-letter topics.
type Inflows interface {
	// Looked returns the partitions that the reader's group has seen, and whether the group has
	// ever looked as this reader.
	Looked(ctx context.Context, r Reader) (ever bool, seen []Inflow, err error)
	// See adds the partitions that a group sees now, and records that the group has looked.
	// Existing entries stay unchanged, except that an Unmeasured end is replaced.
	See(ctx context.Context, r Reader, inflows []Inflow) error
}
