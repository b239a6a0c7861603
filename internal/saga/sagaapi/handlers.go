// Package sagaapi is the HTTP edge of sagas and their workflows: it turns requests into
// one rule and one store call, and their results into responses of the contract.
//
// Files, each on top of those before it: convert, actions, definitions, keys, handlers,
// read, workflows_convert, create, workflows, admission, archive, erase, explain,
// interventions, list, retention, statistics, wait.
package sagaapi

import (
	"context"
	"time"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/rest"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Codes of problems that are reported here; the rules define those of their faults.
const (
	CodeSagaExists = "SAGA_ALREADY_EXISTS"
	CodeNoStep     = "SAGA_NO_SUCH_STEP"
	CodeNoResult   = "SAGA_HAS_NO_RESULT"
)

// Engine is the part of this node's saga engine that the edge uses.
type Engine interface {
	// Admit reserves room for one saga, waiting briefly when there is none. owner is nil
	// when there is still none: the saga is then stored unowned and claimed later. done
	// must be called exactly once: with the stored run, which starts at once, or with nil
	// to give the room back.
	Admit(ctx context.Context) (owner *int64, done func(*saga.Instance))
	// Wake makes the engine read a saga now, because a flag was set.
	Wake(ref saga.Ref)
	// Watch returns a channel that is closed when the saga ends on this node; its end on
	// another node is visible only in the store. stop must be called.
	Watch(ref saga.Ref) (ended <-chan struct{}, stop func())
}

// Handlers are the operations on sagas and their workflows. Fields are required unless
// their comment says otherwise.
type Handlers struct {
	*rest.Kit
	Sagas     saga.Store
	Workflows workflow.Store
	Archive   saga.Archive
	Reports   saga.Reports
	// Create stores one saga and Commit writes one change, both durably before they
	// return, usually through a group commit. Their results are those of saga.Store.
	Create func(context.Context, saga.NewSaga) (saga.CreateResult, error)
	Commit func(context.Context, saga.Change) error
	Engine Engine
	// Node returns the node that drives a saga, see saga.Ownership. Nil: nodes are unknown.
	Node func(ctx context.Context, owner int64) (n saga.Node, known bool, err error)
	// Eraser erases content. Nil: nothing can be erased.
	Eraser saga.Eraser
	// Actions records what operators do. Nil: nothing is recorded.
	Actions operator.Log
	// Tenant is the tenant of requests whose credential names none; the idempotency keys
	// of its sagas' calls do not contain it.
	Tenant saga.Tenant
	// SagaTimeout and CompensationTimeout apply when neither the request nor the
	// definition specifies them; 0: no deadline.
	SagaTimeout         time.Duration
	CompensationTimeout time.Duration
	Budget              saga.Budget
	// Retention applies to workflows that do not specify theirs; RetentionBatch is how
	// many sagas are archived in one transaction.
	Retention      saga.Retention
	RetentionBatch int
	// CheckParticipant returns why a URL could never be called, in words fit for the
	// tenant; "": it may be. Nil: every URL may.
	CheckParticipant func(url string) (reason string)
	// Jobs reports that job runs are configured; steps of workflows may require them.
	Jobs bool

	definitions *definitions
	inUse       rest.InUse
}

// New returns the handlers with their cache of definitions.
func New(h *Handlers) *Handlers {
	h.definitions = newDefinitions(h.Workflows, workflow.Limits{MaxSteps: h.Limits.MaxSteps}, h.runnable)
	return h
}
