package memstore_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/memstore"
	"github.com/skald-saga/skald/internal/saga/statistics"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/test/eventtest"
	"github.com/skald-saga/skald/internal/test/storetest"
)

var (
	_ saga.Store         = (*memstore.Sagas)(nil)
	_ saga.Ownership     = (*memstore.Sagas)(nil)
	_ saga.Archive       = (*memstore.Sagas)(nil)
	_ statistics.Reports = (*memstore.Sagas)(nil)
	_ workflow.Store     = (*memstore.Workflows)(nil)
	_ trail.Trail        = (*memstore.Trail)(nil)
	_ trail.Chain        = (*memstore.Trail)(nil)
	_ access.Store       = (*memstore.Keys)(nil)
)

// open returns an empty store whose clock is the system clock plus the time added by Advance.
func open(*testing.T) storetest.Env {
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().UTC().Add(time.Duration(ahead.Load())) }
	m := memstore.New(now)
	return storetest.Env{
		Sagas:        m.Sagas,
		Ownership:    m.Sagas,
		Archive:      m.Sagas,
		Notes:        m.Sagas,
		Callbacks:    m.Sagas,
		Reports:      m.Sagas,
		Workflows:    m.Workflows,
		Trail:        m.Trail,
		Chain:        m.Trail,
		Keys:         m.Keys,
		Webhooks:     m.Webhooks,
		Publications: m.Publications,
		Participants: m.Participants,
		Now:          now,
		Advance:      func(d time.Duration) { ahead.Add(int64(d)) },
		Settle:       func(*testing.T) {},
	}
}

func TestSagasKeepTheContract(t *testing.T)        { storetest.Sagas(t, open) }
func TestOwnershipKeepsTheContract(t *testing.T)   { storetest.Ownership(t, open) }
func TestWorkflowsKeepTheContract(t *testing.T)    { storetest.Workflows(t, open) }
func TestTrailKeepsTheContract(t *testing.T)       { storetest.Trail(t, open) }
func TestKeysKeepTheContract(t *testing.T)         { storetest.Keys(t, open) }
func TestTheArchiveKeepsTheContract(t *testing.T)  { storetest.Archive(t, open) }
func TestCallbacksKeepTheContract(t *testing.T)    { storetest.Callbacks(t, open) }
func TestWebhooksKeepTheContract(t *testing.T)     { eventtest.Webhooks(t, open) }
func TestParticipantsKeepTheContract(t *testing.T) { storetest.Participants(t, open) }
func TestPublicationsKeepTheContract(t *testing.T) { eventtest.Publications(t, open) }

func TestSessionsKeepTheContract(t *testing.T) {
	storetest.Sessions(t, memstore.New(time.Now).Sessions)
}
