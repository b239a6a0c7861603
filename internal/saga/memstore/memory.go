package memstore

import (
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/saga/workflow"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// hook is a subscription with the data that the store keeps for it.
type hook struct {
	webhook.Subscription
	cursor     trail.Position
	deliveries map[uuid.UUID]*leasedDelivery
}

type publication struct {
	owner   string
	epoch   int64
	until   time.Time
	cursors map[uuid.UUID]trail.Position
}

// memory is the database; one lock serves as its transaction.
type memory struct {
	now func() time.Time

	mu       sync.Mutex
	sagas    map[saga.Ref]*saga.Saga
	troubles map[saga.Ref]saga.Trouble
	logs     map[saga.Ref][]saga.StepLog
	archive  map[saga.Ref]*saga.Archived
	notes    map[saga.Ref]saga.Note
	restored map[saga.Ref]time.Time // restored live sagas, with the times of their restores
	keys     map[keyID]keyRow
	answers  map[keyID]answerRow
	nodes    map[int64]*nodeRow
	lastTurn uuid.UUID // the tenant served last by a claim
	heads    map[nameID]*head
	audit    []saga.AuditEvent // in the order in which it was written
	seals    map[uuid.UUID][]trail.Seal

	participants map[nameID]registry.Participant
	parked       map[saga.Ref]parkedSaga
	calls        []registry.Sum
	past         map[nameID][]registry.Past // the last one first; an entry that is not over has no ReleasedAt
	flights      map[nodeFlight]registry.Flight
	callers      map[registry.Caller]parkedSaga // the waiting callers other than sagas, by caller
	hooks        map[uuid.UUID]*hook
	publications map[string]*publication
}

// nodeFlight is the key for a node and a participant.
type nodeFlight struct {
	node string
	of   nameID
}

// parkedSaga is a saga's place at a gate.
type parkedSaga struct {
	participant string
	call        saga.CallID
	at          time.Time
	granted     *time.Time
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

type answerRow struct {
	request   uuid.UUID
	hash      []byte
	answer    idempotency.Answer
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

func keyOf(k *idempotency.Key) keyID { return keyID{k.TenantID, k.Principal, k.Route, k.Key} }

// micro truncates a time to PostgreSQL's precision, microseconds.
func micro(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	m := t.Truncate(time.Microsecond)
	return &m
}

// leasedDelivery is a delivery and its lease.
type leasedDelivery struct {
	webhook.Delivery
	leaseUntil time.Time
}
