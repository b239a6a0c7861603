package dlq

import (
	"context"

	"github.com/google/uuid"
)

// LabelBacklog marks a letter whose record was in its topic before ingestion first looked
// for topics. It is not retried automatically, because it may be very old or already
// have been handled by other means.
const LabelBacklog = "backlog"

// Reader is a consumer group that looks for the topics of an expression on a cluster.
// With another expression, or on another cluster, it looks for the first time.
type Reader struct {
	Group      string
	Expression string
	Cluster    string // "": the brokers do not tell
}

// Inflow is a partition of one incarnation of a dead-letter topic, as a consumer group
// first saw it.
type Inflow struct {
	Topic     string
	TopicID   uuid.UUID
	Partition int32
	// BacklogEnd is the offset of the first record that is not backlog; 0: there is no
	// backlog. Unmeasured: no broker could tell it yet.
	BacklogEnd int64
}

// Unmeasured is the end of a backlog that must still be queried: the partition existed
// when the group first looked, but had no leader.
const Unmeasured int64 = -1

// Sight is what is known of a partition when a consumer group first sees it.
type Sight struct {
	FirstLook  bool  // the group has never looked for topics as this Reader
	KnownTopic bool  // the group has seen other partitions of this incarnation of the topic
	Read       bool  // the group has committed an offset in the partition
	End        int64 // offset after the last record, or Unmeasured
}

// BacklogEnd computes Inflow.BacklogEnd. Only records that existed when the group first
// looked are backlog. A topic or a partition that is found later was created since, so
// that all of its records are new, regardless of their timestamps: producers set these,
// and those that copy records into dead-letter topics keep the original ones.
func (s Sight) BacklogEnd() int64 {
	if !s.FirstLook || s.KnownTopic || s.Read {
		return 0
	}
	return s.End
}

// Backlog reports whether a record was there before the group first looked. The end must have been
// measured.
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
	// Looked returns the partitions that the reader's group has seen, and whether it has ever
	// looked as this reader.
	Looked(ctx context.Context, r Reader) (ever bool, seen []Inflow, err error)
	// See adds the partitions that a group sees now, and records that it has looked. Existing
	// entries stay unchanged, except that an Unmeasured end is replaced.
	See(ctx context.Context, r Reader, inflows []Inflow) error
}
