// Package admission makes new sagas: it chooses the definition, holds the request to its limits
// and its Idempotency-Key, stores the saga in the room that the engine reserves for it, and waits
// for its end where the request asks for that. The API translates to and from it.
package admission

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/idempotency/claims"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/waiting"
)

// Engine is the part of this node's saga engine that starts new sagas.
type Engine interface {
	// Admit reserves room for one saga, waiting briefly when there is none. owner is nil
	// when there is still none: the saga is then stored unowned and claimed later. done
	// must be called exactly once: with the stored run, which starts at once, or with nil
	// to give the room back.
	Admit(ctx context.Context) (owner *int64, done func(*saga.Instance))
	// Drives reports whether the saga will end on this node, unless the node loses it: then
	// Service.Ends gets the saga and its step logs as they were committed.
	Drives(ref saga.Ref) bool
}

// Service makes new sagas. All fields are required unless their comment says otherwise. It is
// safe for concurrent use.
type Service struct {
	Store       saga.Store
	Definitions *Definitions
	// Insert stores one saga durably before it returns, usually in a group commit.
	Insert func(context.Context, saga.NewSaga) (saga.CreateResult, error)
	// Load reads a saga with its logs. Nil: it is not there, or cannot be read.
	Load   func(ctx context.Context, ref saga.Ref) (*saga.Loaded, error)
	Engine Engine
	InUse  *claims.Requests // the keys and ids of the requests that this node is working on
	Ends   *waiting.Board   // who waits for the end of what
	// Stopping is closed when the server begins to stop; nil: never.
	Stopping <-chan struct{}
	// Tenant is the one of requests whose credential names none; the idempotency keys of its
	// sagas' calls do not contain it.
	Tenant      uuid.UUID
	Budget      saga.Budget   // what a saga may hold and send
	MaxSteps    int64         // bytes of inline steps
	SagaTimeout time.Duration // of sagas for which neither request nor definition has one; 0: none
	Timeout     time.Duration // for the work on a request, without the wait
	Now         func() time.Time
	NewID       func() uuid.UUID
	Log         *slog.Logger
}

// Request is a request for a new saga.
type Request struct {
	Spec     saga.Spec // ID nil: the client gave none, and Create sets it
	Workflow Workflow
	Key      *idempotency.Key // nil: none
	Join     bool             // an unfinished saga with the same business key is as good
	Actor    string           // who makes the request
	// RequestID is in the audit event and in the log.
	RequestID string
	Wait      time.Duration // for the saga's end; 0: not at all
}

// Workflow is what a new saga is to run: a registered workflow, or steps of its own.
type Workflow struct {
	Name    string          // with Steps the client's name for them, which may be empty
	Version *int            // nil: the latest
	Steps   json.RawMessage // canonical JSON; nil: those of the workflow
}

// Result is the saga of a request.
type Result struct {
	ID       uuid.UUID
	Replayed bool // it is the saga of an earlier request with the same Idempotency-Key
	Joined   bool // it is the unfinished saga with the same business key
	// Saga is the first version, with its definition, unless the saga existed before.
	Saga       saga.Saga
	Definition *workflow.Definition
	// Ended is the saga as it ended; nil: it has not, or must be read separately, perhaps from
	// the archive.
	Ended  *saga.Loaded
	Waited bool // the wait was honoured: not too many requests were waiting already
}

// Earlier reports that the saga existed before the request.
func (r *Result) Earlier() bool { return r.Replayed || r.Joined }

// promised limits the work on a write. One that has begun is not given up because the client
// left: a saga that is stored must reach its driver.
func (s *Service) promised(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.Timeout)
}

// Prior looks up an Idempotency-Key. known: it was used by the same request, whose saga
// is id. Fault: Invalid with idempotency.CodeUsed when it was used by another request.
func Prior(ctx context.Context, store saga.Store, key *idempotency.Key) (id uuid.UUID, known bool, err error) {
	state, id, err := store.Key(ctx, *key)
	switch {
	case err != nil:
		return uuid.Nil, false, err
	case state == saga.KeyOther:
		return uuid.Nil, false, idempotency.Used()
	}
	return id, state == saga.KeySame, nil
}
