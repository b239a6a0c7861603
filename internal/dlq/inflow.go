package dlq

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// LabelBacklog marks a letter whose record was in its topic before ingestion first saw
// the topic. It is not retried automatically, because it may be very old or already
// have been handled by other means.
const LabelBacklog = "backlog"

// Inflow is a partition of a life of a dead-letter topic, as a consumer group first
// saw it.
type Inflow struct {
	Topic     string
	TopicID   uuid.UUID
	Partition int32
	// BacklogEnd is the offset of the first record after the group first saw the
	// partition. BacklogBefore is when the group had last looked for topics: records
	// written later are not backlog. Zero: never, so that everything below BacklogEnd
	// is backlog.
	BacklogEnd    int64
	BacklogBefore time.Time
}

// lookSkew is how far the clocks of producers may be behind ours.
const lookSkew = 5 * time.Minute

// Backlog tells whether a record was there before the group looked. written is its
// timestamp, zero without one.
func (s Inflow) Backlog(offset int64, written time.Time) bool {
	if offset >= s.BacklogEnd {
		return false
	}
	return s.BacklogBefore.IsZero() || written.Before(s.BacklogBefore.Add(-lookSkew))
}

// Hold cancels the automatic retry of a letter that was never retried, and adds a label
// that says why.
func (l Letter) Hold() Letter {
	if l.Status != Pending {
		return l
	}
	l.NextRetryAt = nil
	l.Labels = append(l.Labels[:len(l.Labels):len(l.Labels)], LabelBacklog)
	return l
}

// Inflows is what consumer groups have seen of dead-letter topics.
type Inflows interface {
	// Looked returns what a group has seen, and when it last looked; zero: never, or
	// for other topics than those of the expression.
	Looked(ctx context.Context, group, expression string) (at time.Time, seen []Inflow, err error)
	// See adds what a group sees now, and records that it has looked. Existing entries
	// stay unchanged.
	See(ctx context.Context, group, expression string, inflows []Inflow) error
}
