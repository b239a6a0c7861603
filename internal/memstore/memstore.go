// Package memstore keeps the stores' contracts in memory: for trying things out
// (serve --store memory), for tests of the loops and the edge, and as a second
// reading of what the contracts mean. Nothing survives the process.
package memstore

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Store holds everything. Safe for concurrent use.
type Store struct {
	Sagas        *Sagas
	Workflows    *Workflows
	Trail        *Trail
	Keys         *Keys
	Webhooks     *Webhooks
	Publications *Publications
}

// New returns an empty store whose clock, the one of leases and deadlines, is now.
func New(now func() time.Time) *Store {
	m := &memory{
		now:   now,
		sagas: map[saga.Ref]*saga.Saga{}, logs: map[saga.Ref][]saga.StepLog{},
		archive: map[saga.Ref]*saga.Archived{}, restored: map[saga.Ref]time.Time{},
		seals: map[uuid.UUID][]saga.Seal{}, keys: map[keyID]keyRow{}, nodes: map[int64]*nodeRow{},
		heads: map[nameID]*head{},
		hooks: map[uuid.UUID]*hook{}, publications: map[string]*publication{},
	}
	return &Store{
		Sagas:        &Sagas{m},
		Workflows:    &Workflows{m},
		Trail:        &Trail{m},
		Keys:         &Keys{byID: map[uuid.UUID]*access.Key{}},
		Webhooks:     &Webhooks{m},
		Publications: &Publications{m},
	}
}

// memory is the database; one lock stands for a transaction.
type memory struct {
	now func() time.Time

	mu       sync.Mutex
	sagas    map[saga.Ref]*saga.Saga
	logs     map[saga.Ref][]saga.StepLog
	archive  map[saga.Ref]*saga.Archived
	restored map[saga.Ref]time.Time // live ones that came back, and when
	keys     map[keyID]keyRow
	nodes    map[int64]*nodeRow
	lastTurn uuid.UUID // the tenant that a claim served last
	heads    map[nameID]*head
	audit    []saga.AuditEvent // in the order in which it was written
	seals    map[uuid.UUID][]saga.Seal

	hooks        map[uuid.UUID]*hook
	publications map[string]*publication
}

type keyID struct {
	tenant                uuid.UUID
	principal, route, key string
}

type keyRow struct {
	hash      string
	sagaID    uuid.UUID
	createdAt time.Time
}

type nodeRow struct {
	name, process string
	until         time.Time
}

type nameID struct {
	tenant uuid.UUID
	name   string
}

type head struct {
	enabled, inline bool
	revision        int64
	updatedAt       time.Time
	versions        []version // versions[i] is version i+1
}

type version struct {
	def       *workflow.Definition
	hash      string
	createdAt time.Time
}

func keyOf(k *saga.IdempotencyKey) keyID { return keyID{k.TenantID, k.Principal, k.Route, k.Key} }

// micro truncates to what PostgreSQL keeps.
func micro(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	m := t.Truncate(time.Microsecond)
	return &m
}
