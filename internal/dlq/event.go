package dlq

import (
	"time"

	"github.com/google/uuid"
)

// Event is something that has happened to a letter, or that an operator asks for. Exactly the
// types below, DriveEnded and SourceReported are events.
type Event interface{ event() }

// ConsumerReported is a consumer's report on a redriven letter of this generation: processed, or
// failed again.
type ConsumerReported struct {
	Generation int
	Processed  bool
	Policy     *Policy
}

// EditRequested changes what operators keep of a letter.
type EditRequested struct{ Edit }

// Edit is what PATCH changes; nil members stay as they are.
type Edit struct {
	MaxRetries  *int
	NextRetryAt *time.Time
	Labels      []string // nil: as they are; empty: none
	Assignee    *string
	Note        *string
}

// RequeueRequested makes a DEAD letter PENDING again. MaxRetries, unless nil, is its new limit;
// Reset sets its count to 0. Without Reset and without a higher limit, one more retry is
// granted: a PENDING letter can always be retried (invariant D3).
type RequeueRequested struct {
	Reset      bool
	MaxRetries *int
	Policy     *Policy
}

// DiscardRequested gives a PENDING letter up.
type DiscardRequested struct{}

// ResolveRequested means that the letter was dealt with elsewhere.
type ResolveRequested struct{}

// RestoreRequested moves an archived letter back among the live ones: PENDING, with a retry left
// (invariant D3), and without an automatic one.
type RestoreRequested struct{}

func (ConsumerReported) event() {}
func (EditRequested) event()    {}
func (RequeueRequested) event() {}
func (DiscardRequested) event() {}
func (ResolveRequested) event() {}
func (RestoreRequested) event() {}

// Precondition is what must still hold when a change is written.
type Precondition struct {
	Version int64
	Token   uuid.UUID // of DriveEnded: the retry that must still hold the letter
}

// Change is how an event changes a letter. A store writes all of it in one transaction if Before
// still holds, and otherwise nothing.
type Change struct {
	Before Precondition
	After  Letter // as it is then
	// Attempt is the retry that has ended, nil: none. The store sets the Number of one that
	// the letter's source made.
	Attempt *Attempt
}

// Changes reports whether there is anything to write.
func (c *Change) Changes() bool { return c.After.Version != c.Before.Version }
