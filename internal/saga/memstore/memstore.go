// Package memstore implements the store contracts in memory. It is used for trials (serve --store
// memory) and for tests of the loops and the HTTP edge, and is a second implementation of the
// contracts. All data is lost with the process.
//
// Files, each on top of those before it: memory, copy, gates, sagas, webhooks, answers, keys,
// notes, list, participants, publications, sessions, trail, workflows, archive, callbacks, chain,
// errors, memstore, ownership, statistics, series, webhook_deliveries.
package memstore

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// Store contains all the stores. It is safe for concurrent use.
type Store struct {
	Sagas        *Sagas
	Workflows    *Workflows
	Trail        *Trail
	Keys         *Keys
	Sessions     *Sessions
	Webhooks     *Webhooks
	Publications *Publications
	Answers      *Answers
	Participants *Participants
}

// New returns an empty store that uses now as its clock for leases and deadlines.
func New(now func() time.Time) *Store {
	m := &memory{
		now:   now,
		sagas: map[saga.Ref]*saga.Saga{}, troubles: map[saga.Ref]saga.Trouble{},
		logs:    map[saga.Ref][]saga.StepLog{},
		archive: map[saga.Ref]*saga.Archived{}, restored: map[saga.Ref]time.Time{},
		notes: map[saga.Ref]saga.Note{},
		seals: map[uuid.UUID][]trail.Seal{}, keys: map[keyID]keyRow{},
		answers: map[keyID]answerRow{}, nodes: map[int64]*nodeRow{},
		heads:        map[nameID]*head{},
		participants: map[nameID]registry.Participant{}, parked: map[saga.Ref]parkedSaga{},
		past: map[nameID][]registry.Past{}, flights: map[nodeFlight]registry.Flight{},
		callers: map[registry.Caller]parkedSaga{},
		hooks:   map[uuid.UUID]*hook{}, publications: map[string]*publication{},
	}
	return &Store{
		Sagas:        &Sagas{m},
		Workflows:    &Workflows{m},
		Trail:        &Trail{m},
		Keys:         &Keys{byID: map[uuid.UUID]*access.Key{}},
		Sessions:     &Sessions{byID: map[uuid.UUID]*access.Session{}},
		Webhooks:     &Webhooks{m},
		Publications: &Publications{m},
		Answers:      &Answers{m},
		Participants: &Participants{m},
	}
}
