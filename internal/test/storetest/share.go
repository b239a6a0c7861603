package storetest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
)

// Fixture is what the suites of other packages stand on: a tenant with one
// workflow and one node, in the hands of one test.
type Fixture = fixture

// Begin makes a tenant in the store of env.
func Begin(t *testing.T, env Env) *Fixture {
	t.Helper()
	return begin(t, env)
}

// In is the same tenant in a subtest.
func (f *fixture) In(t *testing.T) *Fixture { return f.in(t) }

// TenantID is the fixture's tenant.
func (f *fixture) TenantID() uuid.UUID { return f.tenant.ID }

// Tick is the clock to the microsecond, and never the same twice.
func (f *fixture) Tick() time.Time { return f.now() }

// Happens stores a saga, which tells of its start, and waits until the feed shows it.
func (f *fixture) Happens() uuid.UUID {
	f.t.Helper()
	id := f.stored(f.unowned())[0].ID
	f.Settle(f.t)
	return id
}

// All returns the tenant's events.
func (f *fixture) All() []saga.StoredEvent {
	f.t.Helper()
	return f.feed(saga.EventFilter{}, 1000)
}

// WantFault checks an error's kind and code.
func (f *fixture) WantFault(err error, kind fault.Kind, code string) {
	f.t.Helper()
	f.wantFault(err, kind, code)
}

// Together runs f n times at once and returns when all are done.
func Together(n int, f func(i int)) { together(n, f) }
