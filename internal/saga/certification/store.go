package certification

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
)

// Filter selects certifications; zero fields do not restrict.
type Filter struct {
	State State
	Hosts []string
	// Latest: only the newest of each host that says whether it is certified, and the newest that was left incomplete
	// since; those of answers that come later are counted apart.
	Latest bool
}

// Store keeps certifications. A tenant sees only its own.
type Store interface {
	// Create stores a certification. If its id is taken, Create returns the stored one, with created false.
	Create(ctx context.Context, c Certification, by operator.Action) (stored Certification, created bool, err error)
	// Get returns one with its report. Fault: NotFound.
	Get(ctx context.Context, tenant, id uuid.UUID) (Certification, error)
	// List returns certifications without reports and payloads, newest first.
	List(ctx context.Context, tenant uuid.UUID, f Filter, p page.ByTime) (page.Of[Certification], error)
	// Cancel cancels one. Faults: NotFound; Conflict.
	Cancel(ctx context.Context, tenant, id uuid.UUID, by operator.Action) (Certification, error)
}

// Queue is what nodes need to examine participants, of all tenants. A node holds what it has taken until its lease
// ends; each write by it succeeds only while it holds it.
type Queue interface {
	// Take takes the next certification whose host is not being examined: one that waits, or one whose node has
	// died. Nil: there is none.
	Take(ctx context.Context, token uuid.UUID, lease time.Duration) (*Certification, error)
	// Hold extends the lease and stores the progress. held is false if it was canceled or another node has it.
	Hold(ctx context.Context, c *Certification, token uuid.UUID, lease time.Duration) (held bool, err error)
	// End stores how it ended.
	End(ctx context.Context, c *Certification, token uuid.UUID) error
	// Return gives it back because the node stops. That attempt does not count.
	Return(ctx context.Context, c *Certification, token uuid.UUID) error
}

// NotFound is the fault of a certification that does not exist.
func NotFound() error {
	return fault.New(fault.NotFound, CodeNotFound, "there is no such certification")
}
