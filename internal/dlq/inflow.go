package dlq

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// LabelBacklog marks a letter whose record lay in its topic before ingestion first
// saw the topic. Nothing retries it unasked: nobody knows how old it is, or whether
// it was driven by other means.
const LabelBacklog = "backlog"

// Inflow is a partition of a life of a dead-letter topic, as a consumer group first
// saw it.
type Inflow struct {
	Topic     string
	TopicID   uuid.UUID
	Partition int32
	// BacklogEnd is the offset of the first record that came after the group saw the
	// partition. BacklogBefore is when the group had last looked for topics; zero:
	// never, so that everything below BacklogEnd is backlog. What was written after
	// that is what the group would have read all along.
	BacklogEnd    int64
	BacklogBefore time.Time
}

// lookSkew is how far clocks of whoever writes records may be behind ours.
const lookSkew = 5 * time.Minute

// Backlog tells whether a record lay there before the group looked. written is zero
// for one without a timestamp.
func (s Inflow) Backlog(offset int64, written time.Time) bool {
	if offset >= s.BacklogEnd {
		return false
	}
	return s.BacklogBefore.IsZero() || written.Before(s.BacklogBefore.Add(-lookSkew))
}

// Hold takes the automatic retry of a letter that nobody has retried, and says why
// with a label.
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
	// See stores what a group sees now besides, and that it has looked. What is there
	// already stays as it is.
	See(ctx context.Context, group, expression string, inflows []Inflow) error
}
