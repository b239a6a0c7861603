// Package admission creates sagas: it chooses the definition, enforces limits and the
// Idempotency-Key, stores the saga in a slot that the engine reserves, and waits for its end if
// requested. The API only translates requests and results.
package admission

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/idempotency/claims"
	"github.com/skald-saga/skald/internal/longpoll"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Engine is the part of this node's saga engine that starts new sagas.
type Engine interface {
	// Admit reserves a slot for one saga. If no slot is free it waits briefly. owner is nil if
	// there is still no slot; the saga is then stored unowned and claimed later. done must be
	// called exactly once: with the stored run, which starts immediately, or with nil to release
	// the slot.
	Admit(ctx context.Context) (owner *int64, done func(*saga.Instance))
	// Drives reports whether the saga will end on this node unless the node loses it. If the saga
	// ends here, Service.Ends receives it and its step logs as they were committed.
	Drives(ref saga.Ref) bool
}

// Service creates sagas. All fields are required unless their comments say otherwise. It is safe
// for concurrent use.
type Service struct {
	Store       saga.Store
	Definitions *Definitions
	// Insert stores one saga durably before it returns, usually in a group commit.
	Insert func(context.Context, saga.NewSaga) (saga.CreateResult, error)
	// Load reads a saga with its logs. It returns nil if the saga does not exist or cannot be
	// read.
	Load   func(ctx context.Context, ref saga.Ref) (*saga.Loaded, error)
	Engine Engine
	InUse  *claims.Requests // the keys and ids of the requests that this node is processing
	Ends   *longpoll.Board  // the requests that wait for the end of a saga
	// Stopping is closed when the server begins to stop; nil means never.
	Stopping <-chan struct{}
	// Tenant is the tenant of requests whose credential names none. The idempotency keys of its
	// sagas' calls do not contain it.
	Tenant      uuid.UUID
	Budget      saga.Budget   // limits of a saga's content and its requests
	MaxSteps    int64         // maximum bytes of inline steps
	SagaTimeout time.Duration // for sagas for which neither request nor definition sets one; 0 means none
	Timeout     time.Duration // for processing a request, excluding the wait
	Now         func() time.Time
	NewID       func() uuid.UUID
	Log         *slog.Logger
}

// Request is a request for a new saga.
type Request struct {
	Spec     saga.Spec // a nil ID means that the client gave none; Create then sets it
	Workflow Workflow
	Key      *idempotency.Key // nil means none
	Join     bool             // accept an unfinished saga with the same business key instead
	Actor    string           // the caller who makes the request
	// ActorName is the actor's display name.
	ActorName string
	// RequestID is recorded in the audit event and in the log.
	RequestID string
	Wait      time.Duration // how long to wait for the saga's end; 0 means not at all
}

// Workflow is the workflow that a new saga runs: a registered one, or inline steps.
type Workflow struct {
	Name    string          // with Steps: the client's name for them, which may be empty
	Version *int            // nil means the latest
	Steps   json.RawMessage // canonical JSON; nil means the steps of the workflow
}

// Result is the result of a request.
type Result struct {
	ID       uuid.UUID
	Replayed bool // the saga belongs to an earlier request with the same Idempotency-Key
	Joined   bool // the saga is the unfinished one with the same business key
	// Saga is the first version, with its definition, unless the saga existed before.
	Saga       saga.Saga
	Definition *workflow.Definition
	// Ended is the saga at its end. It is nil if the saga has not ended or must be read separately,
	// perhaps from the archive.
	Ended  *saga.Loaded
	Waited bool // the wait was accepted, because not too many requests were already waiting
}

// Earlier reports whether the saga existed before the request.
func (r *Result) Earlier() bool { return r.Replayed || r.Joined }

// promised limits the time for a write. A write that has started continues even if the client
// disconnects, because a stored saga must reach its driver.
func (s *Service) promised(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.Timeout)
}

// readBack is how long a request whose own time is over may take to find out whether a write that
// returned an error was stored.
const readBack = 2 * time.Second

// ToReadBack returns a context for reading back after a failed write. ctx may have expired, which
// may be the cause of the error.
func ToReadBack(ctx context.Context) (context.Context, context.CancelFunc) {
	end := time.Now().Add(readBack)
	if own, limited := ctx.Deadline(); limited && own.After(end) {
		end = own
	}
	return context.WithDeadline(context.WithoutCancel(ctx), end)
}

// Prior looks up an Idempotency-Key. known means that the same request used it before, and id is
// its saga. Fault: Invalid with idempotency.CodeUsed if another request used it.
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
