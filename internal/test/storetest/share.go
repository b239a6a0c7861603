package storetest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/fault"
)

// Fixture is the base of the suites in other packages: a tenant with one workflow and one node for
// a single test.
type Fixture = fixture

// Begin creates a tenant in the store of env.
func Begin(t *testing.T, env Env) *Fixture {
	t.Helper()
	return begin(t, env)
}

// In returns the fixture for a subtest.
func (f *fixture) In(t *testing.T) *Fixture { return f.in(t) }

// TenantID returns the id of the fixture's tenant.
func (f *fixture) TenantID() uuid.UUID { return f.tenant.ID }

// Tick returns the current time to the microsecond, a different time at each call.
func (f *fixture) Tick() time.Time { return f.now() }

// Happens stores a saga, which writes an event for its start, and waits until the feed contains the
// event.
func (f *fixture) Happens() uuid.UUID {
	f.t.Helper()
	id := f.stored(f.unowned())[0].ID
	f.Settle(f.t)
	return id
}

// All returns all events of the tenant.
func (f *fixture) All() []trail.StoredEvent {
	f.t.Helper()
	return f.feed(trail.EventFilter{}, 1000)
}

// WantFault checks an error's kind and code.
func (f *fixture) WantFault(err error, kind fault.Kind, code string) {
	f.t.Helper()
	f.wantFault(err, kind, code)
}

// Together calls f n times concurrently and returns when all calls have returned.
func Together(n int, f func(i int)) { together(n, f) }
