// Package sagaapi is the HTTP edge of sagas and their workflows: it turns each request into one
// rule and one store call, and their results into responses that follow the contract.
//
// Files, each on top of those before it: convert, read, actions, report, callbacks, examined, handlers,
// workflows_convert, create, workflows, list, archive, bulks, bulks_preview, certifications, erase, errors,
// explain, interventions, notes, retention, simulate, statistics, series.
package sagaapi

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/erasure"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/idempotency/claims"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/admission"
	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/sagabulk"
	"github.com/skald-saga/skald/internal/saga/secrets"
	"github.com/skald-saga/skald/internal/saga/simulate"
	"github.com/skald-saga/skald/internal/saga/statistics"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/tenant"
)

// Engine is the part of this node's saga engine that the edge uses.
type Engine interface {
	admission.Engine
	// Wake makes the engine read a saga immediately, because a flag was set.
	Wake(ref saga.Ref)
}

// Sagas holds the edge's dependencies on sagas and workflows. Fields are required unless
// their comment says otherwise.
type Sagas struct {
	Store     saga.Store
	Workflows workflow.Store
	Archive   saga.Archive
	Notes     saga.Notes
	Reports   statistics.Reports
	// Eraser erases content. nil means that nothing can be erased.
	Eraser erasure.Eraser
	// Bulks stores bulk operations, which the leader of the job runs executes. nil means that there
	// are no bulk operations and no job runs.
	Bulks sagabulk.Store
	// Certifications stores the certifications of participants, which nodes run. nil means that
	// there are none and no job runs.
	Certifications certification.Store
	// Certified is called when a certification was requested. It may be nil.
	Certified func()
	// Create stores one saga and Commit writes one change. Both are durable on return, usually
	// through a group commit. Their results are those of saga.Store.
	Create func(context.Context, saga.NewSaga) (saga.CreateResult, error)
	Commit func(context.Context, saga.Change) error
	Engine Engine
	// Load reads a saga with its logs, usually batched with the reads of other requests. It returns
	// nil if the saga does not exist or cannot be read. A nil Load reads each saga separately.
	Load func(ctx context.Context, ref saga.Ref) (*saga.Loaded, error)
	// Node returns the node that drives a saga (see saga.Ownership). nil means that the nodes are
	// unknown.
	Node func(ctx context.Context, owner int64) (n saga.Node, known bool, err error)
	// CheckParticipant returns why a step could never call a URL, in words that the tenant may see,
	// or "" if it can. nil allows every URL.
	CheckParticipant func(url string) (reason string)
	// Participant returns a registered participant, for definitions that name one. Fault: NotFound.
	// nil means that none is registered.
	Participant func(ctx context.Context, tenant uuid.UUID, name string) (registry.Participant, error)
	// Secrets are the secrets that participants may receive. nil means none.
	Secrets *secrets.Bound
	// Written builds requests and reads answers for simulations, as the calls of participants do.
	// StepTimeout applies to a step that does not specify a timeout.
	Written     simulate.Transport
	StepTimeout time.Duration
	// Callbacks holds the dependencies for reports from participants.
	Callbacks Callbacks
	// AtGate returns the gate at which a saga waits, or nil if it waits at none. A nil AtGate means
	// that there are no gates.
	AtGate func(ctx context.Context, of saga.Ref, now time.Time) (*saga.AtGate, error)
	// AtGates returns the participants at whose gates these sagas wait. nil means that there are no
	// gates.
	AtGates func(ctx context.Context, tenant uuid.UUID, sagas []uuid.UUID) (map[uuid.UUID]string, error)
	// Timeout and CompensationTimeout apply if neither the request nor the definition specifies
	// them. 0 means no deadline.
	Timeout             time.Duration
	CompensationTimeout time.Duration
	Budget              saga.Budget // limits of a saga's content and of its requests
	// Retention applies to workflows that do not specify their own. RetentionBatch is how many
	// sagas are archived in one transaction; 0 means 500.
	Retention      saga.Retention
	RetentionBatch int
}

// Complete sets the defaults and reports whether all required fields are set.
func (s *Sagas) Complete() bool {
	if s.RetentionBatch == 0 {
		s.RetentionBatch = 500
	}
	if s.Load == nil && s.Store != nil {
		s.Load = func(ctx context.Context, ref saga.Ref) (*saga.Loaded, error) {
			found, err := s.Store.Load(ctx, []saga.Ref{ref})
			if err != nil || len(found) == 0 {
				return nil, err
			}
			return &found[0], nil
		}
	}
	return s.Store != nil && s.Workflows != nil && s.Archive != nil && s.Notes != nil && s.Reports != nil &&
		s.Create != nil && s.Commit != nil && s.Engine != nil
}

// Handlers implements the operations on sagas and their workflows.
type Handlers struct {
	*httpkit.Kit
	Sagas
	// Actions records operators' actions. nil records nothing.
	Actions operator.Log
	// Tenant is the tenant of requests whose credential names none. The idempotency keys of its
	// sagas' calls do not contain it.
	Tenant tenant.Tenant
	// Jobs says whether job runs are configured. The steps of a workflow may require them.
	Jobs bool

	admission *admission.Service
	inUse     claims.Requests
}

// New returns the handlers together with the service that creates sagas.
func New(h *Handlers) *Handlers {
	h.admission = &admission.Service{
		Store: h.Store, Insert: h.Create, Load: h.Load, Engine: h.Engine, InUse: &h.inUse,
		Definitions: admission.NewDefinitions(h.Workflows, workflow.Limits{MaxSteps: h.Limits.MaxSteps}, h.runnable),
		Ends:        h.Ends, Stopping: h.Stopping, Tenant: h.Tenant.ID, Budget: h.Budget,
		MaxSteps: h.Limits.MaxWorkflowBytes, SagaTimeout: h.Timeout, Timeout: h.Limits.RequestTimeout,
		Now: h.Now, NewID: h.NewID, Log: h.Log,
	}
	return h
}
