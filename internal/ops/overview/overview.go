// Package overview has the rules for the overview (a list of everything that needs a person, with
// one line per cause), for the search by ID or key, and for the streams of changing states.
//
// Files, each on top of those before it: parts, causes, words, search, watch, places, minutes, overview, listed.
package overview

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
)

// Node is a process that drives sagas.
type Node struct {
	Name       string
	Alive      bool
	LeaseUntil time.Time
}

// Leader is the leader of the job runs.
type Leader struct {
	Node      string
	Epoch     int64
	Holds     bool
	ExpiresAt time.Time
	SweptAt   *time.Time
}

// Slot is a time at which a job is due.
type Slot struct {
	Definition string
	DueAt      time.Time
}

// Topic is a topic that exceeds the alert of its policy.
type Topic struct {
	Topic  string
	Alerts []string
	Open   Count
	Oldest *time.Time
}

// FlowOver is the period over which current traffic is counted.
const FlowOver = 5 * time.Minute

// Flow counts the arrivals during the last FlowOver or, if there are more than Most, the newest
// Most arrivals and the time span in which they arrived.
type Flow struct {
	N             int
	Over          time.Duration
	Ended, Failed int // number out of N
}

// PerMinute is the rate of arrivals per minute.
func (f Flow) PerMinute() float64 {
	if f.N == 0 {
		return 0
	}
	return float64(f.N) / max(f.Over, time.Millisecond).Minutes()
}

// Traffic is the current activity.
type Traffic struct{ Sagas, Letters, Runs Flow }

// Overview lists what needs a person. The figures of a missing part are zero.
type Overview struct {
	At time.Time

	Active, Attention, Stuck         Count
	LettersOpen                      Count
	GroupsNew, GroupsRegressed       Count
	RedrivesHalted, RedrivesWaiting  Count
	RunsFailed, RunsSkipped          Count
	RunsLate, RunsUnclaimable        Count
	Paused                           Count
	WorkersLost                      Count
	WebhooksDisabled, WebhooksFailed Count

	Traffic  Traffic
	Minutes  []Minute // oldest first; nil: the store does not count them
	Causes   []Cause
	Topics   []Topic
	Nodes    []Node
	Leader   *Leader
	SealedAt *time.Time
	Next     []Slot
}

// Sort puts the causes in the order in which people should look at them: by urgency, then by age
// times count, and finally by key, so that the order is stable.
func (o *Overview) Sort() {
	slices.SortFunc(o.Causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(a.urgency(), b.urgency()), cmp.Compare(b.weight(o.At), a.weight(o.At)),
			cmp.Compare(a.Key(), b.Key()))
	})
}

// urgency ranks a kind; lower is more urgent. Causes that block progress until a person acts come
// first, then other failures, and unacknowledged errors come last, because a backlog of them would
// push everything else off the screen.
func (c *Cause) urgency() int {
	switch c.Kind {
	case SagasAttention, SagasStuck, ParticipantHeld, NoLeader, SweepLate:
		return 0
	case GroupNew:
		return 2
	}
	return 1
}

func (c *Cause) weight(now time.Time) float64 {
	return max(now.Sub(c.Since).Seconds(), 1) * float64(c.Count.N)
}

// How late the leader or a run may be before it counts as a cause.
const (
	sweepGrace = time.Minute
	LateAfter  = time.Minute
)

// Judge adds the causes that concern the leader: there are job definitions but no leader, or the
// leader does not sweep.
func (o *Overview) Judge(hasDefinitions bool) {
	l := o.Leader
	switch {
	case !hasDefinitions || l == nil:
	case !l.Holds:
		o.Causes = append(o.Causes, Cause{Kind: NoLeader, Name: l.Node, Count: Count{N: 1}, Since: l.ExpiresAt})
	case l.SweptAt != nil && o.At.Sub(*l.SweptAt) > sweepGrace:
		o.Causes = append(o.Causes, Cause{Kind: SweepLate, Name: l.Node, Count: Count{N: 1}, Since: *l.SweptAt})
	}
}

// Store reads overviews, searches for resources and reads their states. A tenant sees only its own data.
type Store interface {
	Overview(ctx context.Context, tenant uuid.UUID) (Overview, error)
	// Search returns at most MostHits hits of each kind, newest first.
	Search(ctx context.Context, tenant uuid.UUID, q Query) ([]Hit, error)
	// States returns the states of the resources that exist, in any order.
	States(ctx context.Context, tenant uuid.UUID, w *Watched) ([]State, error)
	// Nodes returns the latest incarnation of each node, live ones first.
	Nodes(ctx context.Context) ([]Incarnation, error)
	// Tenants returns a page of the list of all tenants, ordered by ID.
	Tenants(ctx context.Context, r page.Request[uuid.UUID]) (page.Of[Tenant], error)
	// Missing lists the parts that the store does not have.
	Missing() []Part
}
