package dlq

import (
	"time"

	"github.com/google/uuid"
)

// Event is something that happened to a letter or that an operator requests. The only events are
// the types below, DriveEnded and SourceReported.
type Event interface{ event() }

// ConsumerReported is a consumer's report on a redriven letter of this generation: it was
// processed, or it failed again.
type ConsumerReported struct {
	Generation int
	Processed  bool
	Policy     *Policy
}

// EditRequested changes the fields of a letter that operators may set.
type EditRequested struct{ Edit }

// Edit holds the changes of a PATCH. Nil members change nothing.
type Edit struct {
	MaxRetries  *int
	NextRetryAt *time.Time
	Labels      []string // nil: unchanged; empty: none
	Assignee    *string
	Note        *string
}

// RequeueRequested makes a DEAD letter PENDING again. MaxRetries is its new limit, unless nil;
// Reset sets its retry count to 0. Without Reset and without a higher limit, one more retry is
// granted: a PENDING letter can always be retried (invariant D3).
type RequeueRequested struct {
	Reset      bool
	MaxRetries *int
	Policy     *Policy
}

// DiscardRequested abandons a PENDING letter.
type DiscardRequested struct{}

// ResolveRequested means that the letter was handled elsewhere.
type ResolveRequested struct{}

// RestoreRequested moves an archived letter back to the live ones. It becomes PENDING with a retry
// left (invariant D3), but without an automatic one.
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
	Token   uuid.UUID // for DriveEnded: the retry that must still hold the letter
}

// Change describes how an event changes a letter. A store writes all of it in one transaction if
// Before still holds, and nothing otherwise.
type Change struct {
	Before Precondition
	After  Letter // the letter after the change
	// Attempt is the retry that ended, or nil if there is none. If the letter's source made the
	// attempt, the store sets its Number.
	Attempt *Attempt
}

// Changes reports whether there is anything to write.
func (c *Change) Changes() bool { return c.After.Version != c.Before.Version }
