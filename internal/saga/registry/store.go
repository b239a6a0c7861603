package registry

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
)

// Store stores participants. A tenant sees only its own; those of other tenants do not exist for
// it. Faults are as documented. Any other error is an outage, after which the outcome of a write is
// unknown. Implementations are safe for concurrent use, and record changes by people in the audit
// trail.
type Store interface {
	// Get returns one participant. Fault: NotFound.
	Get(ctx context.Context, tenant uuid.UUID, name string) (Participant, error)
	// List returns a page of participants, ordered by name.
	List(ctx context.Context, tenant uuid.UUID, f Filter) (page.Of[Participant], error)
	// Put stores p, with verb in the audit trail, if the stored version is p.Version-1 and the
	// epoch is still epoch; an epoch of 0 skips the check of the epoch. Faults: NotFound, Stale,
	// Taken, Full.
	Put(ctx context.Context, p Participant, epoch int64, verb string) error
	// Delete removes a participant and makes the sagas that wait for it due. Version 0 means any.
	// Faults: NotFound, Stale.
	Delete(ctx context.Context, tenant uuid.UUID, name string, version int64) error
}

// Filter selects participants. Zero fields do not restrict the selection.
type Filter struct {
	Name  string // exact name, or a prefix followed by *
	State State
	page.Request[string]
}

// Matches reports whether p is selected.
func (f *Filter) Matches(p *Participant) bool {
	prefix, is := strings.CutSuffix(f.Name, "*")
	return (f.Name == "" || p.Name == f.Name || is && strings.HasPrefix(p.Name, prefix)) &&
		(f.State == "" || p.Gate.State == f.State)
}

// Gates stores, for the nodes, the gates of the participants of all tenants and what waits at them.
type Gates interface {
	Rows
	// Count adds what a node has counted.
	Count(ctx context.Context, node string, sums []Sum) error
	// Fly records how many calls a node has in flight.
	Fly(ctx context.Context, node string, flights []Flight) error
	// Look returns, for each of these participants, what all nodes have counted so far, and whether
	// anything waits for it.
	Look(ctx context.Context, all []*Participant, now time.Time) ([]Seen, error)
	// Decide stores a decision that was made on p and lets up to d.Grants of the callers waiting
	// for p through, longest-waiting first. If d.Changed is false, it only lets callers through. If
	// the gate is no longer at p.Epoch, it does nothing and stored is false.
	Decide(ctx context.Context, p *Participant, d Decision, now time.Time) (granted int, stored bool, err error)
	// Take uses up grants of different sagas, and reports for each whether the grant existed. A
	// grant that another transaction is withdrawing counts as absent.
	Take(ctx context.Context, grants []Grant) ([]bool, error)
	// TakeTurn uses up the grant of a caller that is not a saga. false means that the caller had
	// none and waits from now on.
	TakeTurn(ctx context.Context, participant string, c Caller) (let bool, err error)
	// Wait returns the gate at which a saga waits, or nil if it waits at none.
	Wait(ctx context.Context, of saga.Ref) (*Wait, error)
	// Waits returns the participants at whose gates these sagas of a tenant wait. Sagas that do not
	// wait are missing from the map.
	Waits(ctx context.Context, tenant uuid.UUID, sagas []uuid.UUID) (map[uuid.UUID]string, error)
	// Figures returns statistics about the calls to a participant since the given time, and what is
	// waiting and in flight now.
	Figures(ctx context.Context, tenant uuid.UUID, name string, since time.Time) (Figures, error)
	// Past returns the most recent outages of a participant, at most Shown, newest first.
	Past(ctx context.Context, tenant uuid.UUID, name string) ([]Past, error)
	// Sweep removes entries that no longer wait, withdraws unused grants, and deletes counts of
	// calls that are older than an hour.
	Sweep(ctx context.Context) error
	// Nodes returns the number of nodes.
	Nodes(ctx context.Context) (int, error)
}

// Grant lets one call of a saga through at the gate of a participant.
type Grant struct {
	Of          saga.Ref
	Participant string
	Call        saga.CallID
}

// Wait describes a saga that waits at a gate.
type Wait struct {
	Participant string
	Call        saga.CallID
	Since       time.Time
	Waiting     int64 // number of sagas that wait for the participant
}

// Since returns the times from which Look counts calls: the start of the window, and the start of
// the present state for calls that were let through.
func (p *Participant) Since(now time.Time) (window, state time.Time) {
	state = p.Gate.CountedFrom.Truncate(time.Second)
	return later(now.Add(-p.Settings.Outage.Window()), state), state
}

// Rows reads the participants of all tenants, for use by nodes.
type Rows interface {
	// Changed returns all participants and the next mark if a participant has changed since the
	// given mark. Otherwise changed is false and all is nil.
	Changed(ctx context.Context, since Mark) (all []Participant, next Mark, changed bool, err error)
}

// Mark identifies what a node has read. Only stores interpret its content.
type Mark string
