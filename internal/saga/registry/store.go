package registry

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
)

// Store stores participants. A tenant sees only its own; others do not exist for it. Faults are
// as stated; any other error is an outage, after which the outcome of a write is unknown.
// Implementations are safe for concurrent use, and record what people change in the audit trail.
type Store interface {
	// Get returns one participant. Fault: NotFound.
	Get(ctx context.Context, tenant uuid.UUID, name string) (Participant, error)
	// List returns a page in the order of names.
	List(ctx context.Context, tenant uuid.UUID, f Filter) (page.Of[Participant], error)
	// Put stores p, as verb, if the stored version is p.Version-1 and, unless that is 0, the
	// epoch is still epoch. Faults: NotFound, Stale, Taken, Full.
	Put(ctx context.Context, p Participant, epoch int64, verb string) error
	// Delete removes a participant and makes the sagas that wait for it due; version 0 means any.
	// Faults: NotFound, Stale.
	Delete(ctx context.Context, tenant uuid.UUID, name string, version int64) error
}

// Filter selects participants; zero fields do not restrict.
type Filter struct {
	Name  string // exact, or a prefix followed by *
	State State
	page.Request[string]
}

// Matches reports whether p is selected.
func (f *Filter) Matches(p *Participant) bool {
	prefix, is := strings.CutSuffix(f.Name, "*")
	return (f.Name == "" || p.Name == f.Name || is && strings.HasPrefix(p.Name, prefix)) &&
		(f.State == "" || p.Gate.State == f.State)
}

// Rows reads the participants of all tenants, for nodes.
type Rows interface {
	// Changed returns all participants if one of them is not as it was at the mark, with the
	// next mark; changed is false, and all is nil, if none has changed.
	Changed(ctx context.Context, since Mark) (all []Participant, next Mark, changed bool, err error)
}

// Mark identifies what a node has read. Its content is opaque to all but stores.
type Mark string
