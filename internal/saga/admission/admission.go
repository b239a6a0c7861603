package admission

import (
	"context"
	"log/slog"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/longpoll"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// Create stores a saga and passes it to the engine. On request it then waits for the saga's end.
// Its faults concern the definition, the limits, the Idempotency-Key, and an id or business key
// that is taken.
func (s *Service) Create(ctx context.Context, r *Request) (Result, error) {
	out, w, err := s.store(ctx, r)
	if err != nil || r.Wait == 0 {
		return out, err
	}
	ref := saga.Ref{Tenant: r.Spec.Tenant.ID, ID: out.ID}
	if out.Earlier() {
		w.Stop() // the waiter is for a saga that was not stored
		out.Ended, out.Waited, err = s.End(ctx, ref, r.Wait)
		return out, err
	}
	defer w.Stop()
	if out.Waited = w != nil; out.Waited {
		out.Ended, err = s.await(ctx, w, ref, r.Wait, true)
	}
	return out, err
}

// store makes the saga durable and starts it. It rejects as much as possible before the group
// commit of new sagas, because a rejection inside the group commit delays the other sagas of the
// batch. w waits for the saga's end, and must be stopped.
func (s *Service) store(ctx context.Context, r *Request) (out Result, w *longpoll.Waiter, err error) {
	if err := saga.CheckPayload(r.Spec.Payload); err != nil {
		return out, nil, err
	}
	tenant := r.Spec.Tenant.ID
	release, err := s.InUse.Hold(tenant, r.Spec.ID, r.Key)
	if err != nil {
		return out, nil, err
	}
	defer release()
	ctx, cancel := s.promised(ctx)
	defer cancel()
	if r.Key != nil {
		if id, known, err := Prior(ctx, s.Store, r.Key); err != nil || known {
			return Result{ID: id, Replayed: known}, nil, err
		}
	}
	if err := s.inBudget(&r.Spec); err != nil {
		return out, nil, err
	}
	if err := s.name(ctx, &r.Spec); err != nil {
		return out, nil, err
	}
	c, err := s.choose(ctx, tenant, &r.Workflow, false)
	if err != nil {
		return out, nil, err
	}
	if r.Wait > 0 {
		// before it starts, so that its end is not missed
		w = s.watch(saga.Ref{Tenant: tenant, ID: r.Spec.ID})
	}
	if out, err = s.admit(ctx, r, c); err != nil {
		w.Stop()
		return Result{}, nil, err
	}
	return out, w, nil
}

// inBudget rejects a payload that is too large.
func (s *Service) inBudget(spec *saga.Spec) error {
	if limit := s.Budget.Saga; limit > 0 && int64(len(spec.Payload)) > limit {
		return fault.New(fault.TooLarge, fault.CodeTooLarge, "the payload has more than %d bytes", limit)
	}
	return nil
}

// name gives the saga an id, or checks that the client's id is free.
func (s *Service) name(ctx context.Context, spec *saga.Spec) error {
	if spec.ID == uuid.Nil {
		spec.ID = s.NewID()
		return nil
	}
	switch _, err := s.Store.Get(ctx, spec.Tenant.ID, spec.ID); {
	case err == nil:
		return taken(spec.ID)
	case fault.KindOf(err) != fault.NotFound:
		return err
	}
	return nil
}

// admit reserves a slot in the engine, stores the saga, and starts it in that slot or releases
// the slot.
func (s *Service) admit(ctx context.Context, r *Request, c chosen) (Result, error) {
	if err := fits(r, c); err != nil {
		return Result{}, err
	}
	owner, done := s.Engine.Admit(ctx)
	var run *saga.Instance
	defer func() { done(run) }()
	for retried := false; ; retried = true {
		n := s.newSaga(r, c, owner)
		result, err := s.Insert(ctx, n)
		if err != nil || result.Created == saga.IDTaken {
			result, err = s.unlessStored(ctx, n, result, err)
		}
		switch {
		case err != nil:
			return Result{}, err
		case result.Created == saga.Stored:
			if owner != nil && sameOwner(&result.Saga, owner) && result.Saga.Version == 1 {
				run = new(saga.NewInstance(result.Saga, c.def))
			}
			return Result{ID: r.Spec.ID, Saga: result.Saga, Definition: c.def}, nil
		case result.Created == saga.Replayed:
			return Result{ID: result.Prior, Replayed: true}, nil
		case result.Created == saga.Joined:
			return Result{ID: result.Prior, Joined: true}, nil
		case result.Created != saga.NotCurrent && result.Created != saga.NotRunnable:
			return Result{}, refusal(&r.Spec, result)
		}
		// The cached definition was outdated. A second read returns it as current or deleted,
		// unless it changes faster than it can be read.
		if retried {
			return Result{}, fault.New(fault.Unavailable, fault.CodeUnavailable, "the workflow keeps changing; try again")
		}
		if c, err = s.choose(ctx, r.Spec.Tenant.ID, &r.Workflow, true); err != nil {
			return Result{}, err
		}
		if err := fits(r, c); err != nil {
			return Result{}, err
		}
	}
}

// fits rejects a payload that the definition's schema does not allow.
func fits(r *Request, c chosen) error {
	wrong := c.def.Unfit("/payload", r.Spec.Payload)
	if wrong == nil {
		return nil
	}
	return fault.New(fault.Invalid, saga.CodePayload, "%s: %s", wrong[0].Pointer, wrong[0].Message).With(wrong...)
}

// refusal returns the fault of a saga that the store rejected for a reason other than its
// definition.
func refusal(spec *saga.Spec, result saga.CreateResult) error {
	switch result.Created {
	case saga.KeyActive:
		return saga.BusinessKeyActive(*spec.BusinessKey, result.Prior)
	case saga.KeyReused:
		return idempotency.Used()
	case saga.IDTaken:
		return taken(spec.ID)
	}
	return fault.New(fault.Invalid, saga.CodeUnstorable, "the database cannot store this payload or metadata")
}

// newSaga returns the first version of the requested saga.
func (s *Service) newSaga(r *Request, c chosen, owner *int64) saga.NewSaga {
	spec := r.Spec
	spec.TenantInKeys = spec.Tenant.ID != s.Tenant
	return saga.NewSaga{
		Saga:     saga.New(spec, c.def, c.version, owner, s.Now(), s.SagaTimeout),
		Floating: c.floating,
		Key:      r.Key,
		Join:     r.Join,
		Actor:    r.Actor, ActorName: r.ActorName, RequestID: r.RequestID,
	}
}

// unlessStored checks whether a saga was stored although the attempt to store it returned err or
// found its id taken. A commit whose result is lost may have happened, and the store may have tried
// it again. A saga that was stored proceeds normally; otherwise result and err are returned
// unchanged.
func (s *Service) unlessStored(ctx context.Context, n saga.NewSaga, result saga.CreateResult,
	err error) (saga.CreateResult, error) {
	if fault.As(err) != nil {
		return result, err
	}
	ctx, cancel := ToReadBack(ctx)
	defer cancel()
	found, getErr := s.Store.Get(ctx, n.Tenant.ID, n.ID)
	if getErr != nil || !found.CreatedAt.Equal(n.CreatedAt) || !sameOwner(&found, n.LeaseOwner) {
		return result, err
	}
	s.Log.WarnContext(ctx, "saga was stored although the commit reported an error",
		slog.String("request_id", n.RequestID), slog.String("saga_id", n.ID.String()), slog.Any("error", err))
	return saga.CreateResult{Created: saga.Stored, Saga: found}, nil
}

// sameOwner reports whether a saga still has the owner with which it was stored.
func sameOwner(s *saga.Saga, owner *int64) bool {
	if s.LeaseOwner == nil || owner == nil {
		return s.LeaseOwner == owner
	}
	return *s.LeaseOwner == *owner
}

func taken(id uuid.UUID) error {
	return fault.New(fault.Conflict, saga.CodeExists, "saga %s already exists", id).
		With(fault.Field{Pointer: "/saga_id", Code: "exists", Message: "is taken"})
}

// maxShown is the number of bytes of an invalid name that are returned to the client.
const maxShown = 1000

// chosen is the definition for a new saga.
type chosen struct {
	def      *workflow.Definition
	version  int
	floating bool // the latest version was requested
}

// choose finds the definition; fresh bypasses the cache. A workflow that does not exist is a 422,
// and a disabled one is a 409.
func (s *Service) choose(ctx context.Context, tenant uuid.UUID, of *Workflow, fresh bool) (chosen, error) {
	switch {
	case of.Steps != nil:
		if err := s.stepsFit(of); err != nil {
			return chosen{}, err
		}
		w, err := s.Definitions.Inline(ctx, tenant, of.Name, of.Steps, fresh, s.Now())
		return chosen{w.Definition, w.Version, false}, err
	case !workflow.ValidName(of.Name):
		shown := plaintext.Text(of.Name, plaintext.Bytes(maxShown))
		return chosen{}, noWorkflow("/workflow_name", "there is no workflow %q", shown)
	case of.Version != nil:
		def, err := s.Definitions.Pinned(ctx, tenant, of.Name, *of.Version, fresh)
		if fault.KindOf(err) == fault.NotFound {
			err = noWorkflow("/workflow_version", "there is no version %d of workflow %q", *of.Version, of.Name)
		}
		return chosen{def, *of.Version, false}, err
	}
	w, err := s.Definitions.Latest(ctx, tenant, of.Name, fresh)
	if fault.KindOf(err) == fault.NotFound {
		err = noWorkflow("/workflow_name", "there is no workflow %q", of.Name)
	}
	return chosen{w.Definition, w.Version, true}, err
}

// stepsFit rejects inline steps that are too large.
func (s *Service) stepsFit(of *Workflow) error {
	if limit := s.MaxSteps; int64(len(of.Steps)) > limit {
		return fault.New(fault.TooLarge, fault.CodeTooLarge, "the steps have more than %d bytes", limit)
	}
	return nil
}

func noWorkflow(pointer, format string, args ...any) error {
	f := fault.New(fault.Invalid, workflow.CodeNotFound, format, args...)
	return f.With(fault.Field{Pointer: pointer, Code: "not_found", Message: f.Detail})
}
