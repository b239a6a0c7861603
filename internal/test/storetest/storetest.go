// Package storetest tests the contracts of saga.Store, saga.Ownership, statistics.Reports,
// saga.Archive, saga.Notes, callback.Store, trail.Trail, trail.Chain, workflow.Store and
// access.Store. Every store runs the suite, so that the in-memory store behaves like the PostgreSQL
// store. Package eventtest builds on it for webhooks and publications.
package storetest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback"
	"github.com/skald-saga/skald/internal/saga/statistics"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// WebhookStore combines all interfaces that a store implements for webhooks.
type WebhookStore interface {
	webhook.Store
	webhook.Log
	webhook.Queue
}

// Env is an empty store and its clock. All fields except OpenLetters and BriefErrors are required.
type Env struct {
	Sagas        saga.Store
	Ownership    saga.Ownership
	Archive      saga.Archive
	Notes        saga.Notes
	Callbacks    callback.Store
	Reports      statistics.Reports
	Workflows    workflow.Store
	Trail        trail.Trail
	Chain        trail.Chain
	Keys         access.Store
	Webhooks     WebhookStore
	Publications trail.Publications
	Participants ParticipantStore
	// Now reads the clock of the store's callers, which differs from the store's own clock by well
	// under a second.
	Now func() time.Time
	// Advance lets the duration d pass: leases, due times and deadlines end d earlier, and the last
	// change of each saga is d longer ago. A store may implement it by moving stored times back, so
	// a test that has called it must not compare stored times with what it wrote before.
	Advance func(d time.Duration)
	// OpenLetters returns the unresolved dead letters of a saga. Nil means that the store has no
	// dead letters.
	OpenLetters func(t *testing.T, saga uuid.UUID) []uuid.UUID
	// BriefErrors: the audit trail stores errors without the details from participants.
	BriefErrors bool
	// Sent returns the requests in a saga's logs, live or archived, as SQL shows them, keyed by
	// "step action attempt"; "" means that the log has no request. Nil means that the store has no
	// SQL, or keeps requests as they were sent.
	Sent func(t *testing.T, tenant, saga uuid.UUID) map[string]string
	// Settle returns once every transaction that is open now has ended: until then the feed may
	// hold back committed events.
	Settle func(t *testing.T)
}

// Contract is one sentence of a store's contract and its test. F is the type of the test's fixture.
type Contract[F any] struct {
	Name string
	Test func(f F)
}

// contract is a Contract that is tested on one tenant.
type contract = Contract[*fixture]

// Sagas tests saga.Store and statistics.Reports. open returns a new Env that lasts as long as its test.
func Sagas(t *testing.T, open func(t *testing.T) Env) {
	env := open(t) // one store for all contracts: each test has its own tenant
	run(t, map[string][]contract{
		"create":        creates,
		"business key":  businessKeys,
		"commit":        commits,
		"written":       written,
		"read":          reads,
		"list":          lists,
		"errors":        errorLists,
		"tenants":       tenants,
		"twins":         twins,
		"statistics":    ofStatistics,
		"reports":       aboutMany,
		"interventions": interventions,
	}, func(*testing.T) Env { return env })
}

// Ownership tests saga.Ownership. open returns a new or emptied Env that lasts as long as its
// test; it is called once per test, because the claims of a node cover all tenants.
func Ownership(t *testing.T, open func(t *testing.T) Env) {
	run(
		t,
		map[string][]contract{
			"leases":      leases,
			"claim":       claims,
			"turns":       turns,
			"duties":      duties,
			"twins":       twinsOwned,
			"suspensions": suspensions,
		},
		open,
	)
}

// Archive tests saga.Archive. open returns a new Env that lasts as long as its test.
func Archive(t *testing.T, open func(t *testing.T) Env) {
	env := open(t)
	run(t, map[string][]contract{"archive": archives, "restore": restores, "notes": notes, "requests": requests},
		func(*testing.T) Env { return env })
	run(t, map[string][]contract{"archive of all tenants": archivesOfAll}, open)
}

// Workflows tests workflow.Store. open returns a new Env that lasts as long as its test.
func Workflows(t *testing.T, open func(t *testing.T) Env) {
	env := open(t)
	run(t, map[string][]contract{"workflows": definitions}, func(*testing.T) Env { return env })
}

// Trail tests trail.Trail and trail.Chain. open returns a new Env that lasts as long as its test.
func Trail(t *testing.T, open func(t *testing.T) Env) {
	env := open(t)
	run(
		t,
		map[string][]contract{"feed": feeds, "of a saga": histories, "chain": chains},
		func(*testing.T) Env { return env },
	)
}

// Keys tests access.Store. open returns a new Env that lasts as long as its test.
func Keys(t *testing.T, open func(t *testing.T) Env) {
	env := open(t)
	run(t, map[string][]contract{"keys": keys}, func(*testing.T) Env { return env })
}

// Types returns the types of all events that the scenarios of the suite produce.
func Types(t *testing.T, open func(t *testing.T) Env) map[eventtype.Type]bool {
	f := begin(t, open(t))
	types := map[eventtype.Type]bool{}
	told(f)
	for _, e := range f.feed(trail.EventFilter{}, 1000) {
		types[e.Type] = true
	}
	return types
}

func run(t *testing.T, groups map[string][]contract, open func(t *testing.T) Env) {
	Run(t, groups, func(t *testing.T) *fixture { return begin(t, open(t)) })
}

// Run runs the contracts of each group as parallel subtests, each on its own fixture, which
// begin makes for that subtest.
func Run[F any](t *testing.T, groups map[string][]Contract[F], begin func(t *testing.T) F) {
	for group, contracts := range groups {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			for _, c := range contracts {
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					c.Test(begin(t))
				})
			}
		})
	}
}
