package sagaapi

import (
	"context"
	"log/slog"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/waiting"
)

// created is the result of a request for a new saga.
type created struct {
	id       uuid.UUID
	replayed bool // id is the saga of an earlier request; the rest is not set
	joined   bool // id is the unfinished saga of the business key; the rest is not set
	saga     saga.Saga
	def      *workflow.Definition
	waiter   *waiting.Waiter // for its end; must be stopped; nil unless watched
}

// create stores a saga and starts it. Whatever can be refused before the group commit of
// new sagas is refused before it: a refusal inside costs the other sagas of the batch time.
func (s *Handlers) create(ctx context.Context, b *api.SagaInput, spec saga.Spec, key *idempotency.Key,
	watch bool) (created, error) {
	release, err := s.inUse.Hold(spec.Tenant.ID, spec.ID, key)
	if err != nil {
		return created{}, err
	}
	defer release()
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	if key != nil {
		if id, known, err := s.prior(ctx, key); err != nil || known {
			return created{id: id, replayed: known}, err
		}
	}
	if limit := s.Budget.Saga; limit > 0 && int64(len(spec.Payload)) > limit {
		return created{}, fault.New(fault.TooLarge, httpkit.CodeTooLarge, "the payload has more than %d bytes", limit)
	}
	if spec.ID != uuid.Nil {
		switch _, err := s.Store.Get(ctx, spec.Tenant.ID, spec.ID); {
		case err == nil:
			return created{}, sagaExists(spec.ID)
		case fault.KindOf(err) != fault.NotFound:
			return created{}, err
		}
	} else {
		spec.ID = s.NewID()
	}
	c, err := s.choose(ctx, spec.Tenant.ID, b, false)
	if err != nil {
		return created{}, err
	}
	out := created{id: spec.ID}
	if watch {
		// before it starts, so that its end is not missed
		out.waiter = s.watch(saga.Ref{Tenant: spec.Tenant.ID, ID: spec.ID})
	}
	if err := s.admit(ctx, b, spec, c, key, &out); err != nil {
		out.waiter.Stop()
		return created{}, err
	}
	return out, nil
}

// admit reserves room in the engine, stores the saga, and starts it in that room, or
// gives the room back.
func (s *Handlers) admit(ctx context.Context, b *api.SagaInput, spec saga.Spec, c chosen, key *idempotency.Key,
	out *created) error {
	owner, done := s.Engine.Admit(ctx)
	var run *saga.Instance
	defer func() { done(run) }()
	for retried := false; ; retried = true {
		n := s.newSaga(httpkit.RequestOf(ctx), spec, c, owner, s.Now(), key, joins(b))
		result, err := s.Create(ctx, n)
		if err != nil || result.Created == saga.IDTaken {
			result, err = s.unlessStored(ctx, n, result, err)
		}
		switch {
		case err != nil:
			return err
		case result.Created == saga.Stored:
			out.saga, out.def = result.Saga, c.def
			if owner != nil && sameOwner(&result.Saga, owner) && result.Saga.Version == 1 {
				r := saga.NewInstance(result.Saga, c.def)
				run = &r
			}
			return nil
		case result.Created == saga.Replayed:
			out.id, out.replayed = result.Prior, true
			return nil
		case result.Created == saga.Joined:
			out.id, out.joined = result.Prior, true
			return nil
		case result.Created == saga.KeyActive:
			return saga.BusinessKeyActive(*spec.BusinessKey, result.Prior)
		case result.Created == saga.KeyReused:
			return idempotency.Used()
		case result.Created == saga.IDTaken:
			return sagaExists(spec.ID)
		case result.Created == saga.Unstorable:
			return fault.New(fault.Invalid, saga.CodeUnstorable, "the database cannot store this payload or metadata")
		}
		// NotCurrent or NotRunnable: the cached definition was outdated. After it is read
		// again it is current or gone, unless it changes faster than it can be read.
		if retried {
			return fault.New(fault.Unavailable, httpkit.CodeUnavailable, "the workflow keeps changing; try again")
		}
		if c, err = s.choose(ctx, spec.Tenant.ID, b, true); err != nil {
			return err
		}
	}
}

// unlessStored checks whether a saga was stored although storing it returned err or found
// its id taken: a commit whose result is lost may have happened, and the store may have
// tried it again. Such a saga proceeds normally; otherwise result and err are returned
// unchanged.
func (s *Handlers) unlessStored(ctx context.Context, n saga.NewSaga, result saga.CreateResult,
	err error) (saga.CreateResult, error) {
	if fault.As(err) != nil {
		return result, err
	}
	ctx, cancel := s.Promised(ctx) // ctx may have expired: that may be the error
	defer cancel()
	found, getErr := s.Store.Get(ctx, n.Tenant.ID, n.ID)
	if getErr != nil || !found.CreatedAt.Equal(n.CreatedAt) || !sameOwner(&found, n.LeaseOwner) {
		return result, err
	}
	s.Log.WarnContext(ctx, "saga was stored although its commit reported an error",
		slog.String("request_id", httpkit.RequestOf(ctx).ID), slog.String("saga_id", n.ID.String()), slog.Any("error", err))
	return saga.CreateResult{Created: saga.Stored, Saga: found}, nil
}

// joins reports whether the client accepts an unfinished saga with the same business key.
func joins(b *api.SagaInput) bool {
	return b.OnConflict != nil && *b.OnConflict == api.SagaInputOnConflictReturnExisting
}

// sameOwner reports whether a saga still has the owner for which it was stored.
func sameOwner(s *saga.Saga, owner *int64) bool {
	if s.LeaseOwner == nil || owner == nil {
		return s.LeaseOwner == owner
	}
	return *s.LeaseOwner == *owner
}

func sagaExists(id uuid.UUID) error {
	return fault.New(fault.Conflict, CodeSagaExists, "saga %s already exists", id).
		With(fault.Field{Pointer: "/saga_id", Code: "exists", Message: "is taken"})
}
