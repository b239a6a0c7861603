// Package eventtest tests the contracts of webhook.Store, webhook.Log, webhook.Queue and
// trail.Publications, for every store.
package eventtest

import (
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/test/storetest"
)

// fixture is a tenant whose events are delivered and published.
type fixture struct {
	*storetest.Fixture
	t *testing.T
}

func begin(t *testing.T, env storetest.Env) *fixture {
	t.Helper()
	return &fixture{storetest.Begin(t, env), t}
}

// in returns the fixture for a subtest.
func (f *fixture) in(t *testing.T) *fixture { return &fixture{f.In(t), t} }

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// contract is a contract that is tested on one tenant.
type contract = storetest.Contract[*fixture]

func run(t *testing.T, groups map[string][]contract, open func(t *testing.T) storetest.Env) {
	storetest.Run(t, groups, func(t *testing.T) *fixture { return begin(t, open(t)) })
}
