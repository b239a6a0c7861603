package registry

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
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

// Gates are the gates of the participants of all tenants, for nodes, with what waits at them.
type Gates interface {
	Rows
	// Count adds what a node has counted.
	Count(ctx context.Context, node string, sums []Sum) error
	// Fly records how many calls a node has in flight.
	Fly(ctx context.Context, node string, flights []Flight) error
	// Look returns what all nodes have counted of each of these participants until now, and whether sagas wait
	// for it.
	Look(ctx context.Context, all []*Participant, now time.Time) ([]Seen, error)
	// Decide stores a decision that was made on p, and lets up to d.Grants of those through that wait for p,
	// those first that have waited longest. Unless d has changed something, only the latter. stored is
	// false, and nothing is done, if the gate is no longer at p.Epoch.
	Decide(ctx context.Context, p *Participant, d Decision, now time.Time) (granted int, stored bool, err error)
	// Take uses up grants of different sagas, and returns for each whether there was one. A grant that another
	// transaction is withdrawing is none.
	Take(ctx context.Context, grants []Grant) ([]bool, error)
	// TakeTurn uses up the grant of a caller that is not a saga; false: it has none, and waits from now on.
	TakeTurn(ctx context.Context, participant string, c Caller) (let bool, err error)
	// Wait returns at which participant a saga waits, nil: at none.
	Wait(ctx context.Context, of saga.Ref) (*Wait, error)
	// Waits returns at which participants these sagas of a tenant wait; those that wait at none are missing.
	Waits(ctx context.Context, tenant uuid.UUID, sagas []uuid.UUID) (map[uuid.UUID]string, error)
	// Figures returns the calls of a participant since a time, and what waits and is in flight now.
	Figures(ctx context.Context, tenant uuid.UUID, name string, since time.Time) (Figures, error)
	// Past returns the last times in which a participant was held, at most Shown, the last one first.
	Past(ctx context.Context, tenant uuid.UUID, name string) ([]Past, error)
	// Sweep removes what waits no longer, gives back grants that were not used, and removes counts of
	// calls that are older than an hour.
	Sweep(ctx context.Context) error
	// Nodes returns how many nodes there are.
	Nodes(ctx context.Context) (int, error)
}

// Grant is what lets a call of a saga through at the gate of a participant.
type Grant struct {
	Of          saga.Ref
	Participant string
	Call        saga.CallID
}

// Wait is a saga's place at a gate.
type Wait struct {
	Participant string
	Call        saga.CallID
	Since       time.Time
	Waiting     int64 // sagas that wait for the participant
}

// Since is from when the calls count that Look returns: those in the window, and those that were
// let through in the present state.
func (p *Participant) Since(now time.Time) (window, state time.Time) {
	state = p.Gate.CountedFrom.Truncate(time.Second)
	return later(now.Add(-p.Settings.Outage.Window()), state), state
}

// Rows reads the participants of all tenants, for nodes.
type Rows interface {
	// Changed returns all participants if one of them is not as it was at the mark, with the
	// next mark; changed is false, and all is nil, if none has changed.
	Changed(ctx context.Context, since Mark) (all []Participant, next Mark, changed bool, err error)
}

// Mark identifies what a node has read. Its content is opaque to all but stores.
type Mark string
