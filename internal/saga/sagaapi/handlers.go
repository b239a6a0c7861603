// Package sagaapi is the HTTP edge of sagas and their workflows: it turns requests
// into one rule and one store call, and their results into answers of the contract.
//
// Files, each on top of those before it: convert, actions, definitions, keys, handlers,
// read, workflows_convert, create, workflows, admission, archive, explain,
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

// Codes of problems that arise here; those of the rules stand in theirs.
const (
	CodeSagaExists = "SAGA_ALREADY_EXISTS"
	CodeNoStep     = "SAGA_NO_SUCH_STEP"
	CodeNoResult   = "SAGA_HAS_NO_RESULT"
)

// Engine is what the edge needs of the saga engine of this node.
type Engine interface {
	// Admit reserves room for one saga, waiting briefly when there is none.
	// owner is nil when there still is none: the saga is then stored unowned
	// and claimed later. done must be called exactly once: with the stored
	// run, which starts at once, or with nil to give the room back.
	Admit(ctx context.Context) (owner *int64, done func(*saga.Instance))
	// Wake makes the engine look at a saga now, because a flag was set.
	Wake(ref saga.Ref)
	// Watch returns a channel that is closed when the saga ends on this node;
	// its end on another node shows only in the store. stop must be called.
	Watch(ref saga.Ref) (ended <-chan struct{}, stop func())
}

// Handlers are the operations on sagas and their workflows. Fields are
// required unless said otherwise.
type Handlers struct {
	*rest.Kit
	Sagas     saga.Store
	Workflows workflow.Store
	Archive   saga.Archive
	Reports   saga.Reports
	// Create stores one saga and Commit writes one change, durably on return;
	// usually through a group commit. Their results are those of saga.Store.
	Create func(context.Context, saga.NewSaga) (saga.CreateResult, error)
	Commit func(context.Context, saga.Change) error
	Engine Engine
	// Node tells who drives a saga, see saga.Ownership. Optional: nobody knows.
	Node func(ctx context.Context, owner int64) (n saga.Node, known bool, err error)
	// Actions is the record of what operators do. Optional: there is none.
	Actions operator.Log
	// Tenant is the tenant of requests whose credential names none: keys of its
	// sagas' calls do not name it.
	Tenant saga.Tenant
	// SagaTimeout and CompensationTimeout stand in for what neither request
	// nor definition say; 0: no deadline.
	SagaTimeout         time.Duration
	CompensationTimeout time.Duration
	// Retention stands in for what workflows do not say of theirs;
	// RetentionBatch is how many sagas are archived in one transaction.
	Retention      saga.Retention
	RetentionBatch int
	// Jobs tells that there are job runs, which steps of workflows may need.
	Jobs bool

	definitions *definitions
	inUse       inUse
}

// New returns the handlers with their cache of definitions.
func New(h *Handlers) *Handlers {
	h.definitions = newDefinitions(h.Workflows, workflow.Limits{MaxSteps: h.Limits.MaxSteps}, h.runnable)
	return h
}
