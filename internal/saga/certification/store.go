package certification

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
)

// Filter selects certifications. Zero fields do not restrict the selection.
type Filter struct {
	State State
	Hosts []string
	// Latest selects, for each host, only the newest certification that says whether the host is
	// certified, and the newest one since then that was left incomplete. Certifications of deferred
	// answers are counted separately.
	Latest bool
}

// Store stores certifications. A tenant sees only its own.
type Store interface {
	// Create stores a certification. If its id exists, Create returns the stored one, with created
	// false.
	Create(ctx context.Context, c Certification, by operator.Action) (stored Certification, created bool, err error)
	// Get returns a certification with its report. Fault: NotFound.
	Get(ctx context.Context, tenant, id uuid.UUID) (Certification, error)
	// List returns certifications without reports and payloads, newest first.
	List(ctx context.Context, tenant uuid.UUID, f Filter, p page.ByTime) (page.Of[Certification], error)
	// Cancel cancels a certification. Faults: NotFound; Conflict.
	Cancel(ctx context.Context, tenant, id uuid.UUID, by operator.Action) (Certification, error)
}

// Queue gives nodes access to the certifications of all tenants. A node holds a certification that
// it has taken until its lease ends, and its writes succeed only while it holds it.
type Queue interface {
	// Take takes the next certification whose host is not being tested: one that is pending, or one
	// whose node has died. It returns nil if there is none.
	Take(ctx context.Context, token uuid.UUID, lease time.Duration) (*Certification, error)
	// Hold extends the lease and stores the progress. held is false if the certification was
	// canceled or another node has it.
	Hold(ctx context.Context, c *Certification, token uuid.UUID, lease time.Duration) (held bool, err error)
	// End stores the result.
	End(ctx context.Context, c *Certification, token uuid.UUID) error
	// Return puts the certification back because the node is stopping. That attempt does not count.
	Return(ctx context.Context, c *Certification, token uuid.UUID) error
}

// NotFound is the fault for a certification that does not exist.
func NotFound() error {
	return fault.New(fault.NotFound, CodeNotFound, "there is no such certification")
}
