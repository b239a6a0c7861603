package sagaapi

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/admission"
)

// action is a request by an operator to change a saga.
type action struct {
	id         uuid.UUID
	key, match *string // Idempotency-Key and If-Match
	dryRun     *bool
	// event returns the requested event for the current saga. Its faults are mistakes in the
	// request.
	event func(run *saga.Instance, logs []saga.StepLog) (saga.Event, error)
}

// always returns an event that does not depend on the saga.
func always(e saga.Event) func(*saga.Instance, []saga.StepLog) (saga.Event, error) {
	return func(*saga.Instance, []saga.StepLog) (saga.Event, error) { return e, nil }
}

// CancelSaga flags a saga to be compensated and to end as cancelled.
func (s *Handlers) CancelSaga(ctx context.Context, in api.CancelSagaRequestObject) (api.Response, error) {
	by, reason := words(ctx, in.Body)
	return s.act(ctx, action{in.SagaID, in.Params.IdempotencyKey, in.Params.IfMatch, in.Params.DryRun,
		always(saga.CancelRequested{By: by, Reason: reason})})
}

// CompensateSaga flags a saga to be compensated at an operator's request.
func (s *Handlers) CompensateSaga(ctx context.Context, in api.CompensateSagaRequestObject) (api.Response, error) {
	by, reason := words(ctx, in.Body)
	return s.act(ctx, action{in.SagaID, in.Params.IdempotencyKey, in.Params.IfMatch, in.Params.DryRun,
		always(saga.CompensateRequested{By: by, Reason: reason})})
}

// ResumeCompensation reopens a saga whose compensation failed permanently.
func (s *Handlers) ResumeCompensation(ctx context.Context,
	in api.ResumeCompensationRequestObject) (api.Response, error) {
	by, reason := words(ctx, in.Body)
	return s.act(ctx, action{in.SagaID, in.Params.IdempotencyKey, in.Params.IfMatch, in.Params.DryRun,
		always(saga.ResumeRequested{By: by, Reason: reason})})
}

// words returns the actor and the reason of an action. The body is optional.
func words(ctx context.Context, b *api.ActionInput) (by, reason string) {
	if b == nil {
		b = &api.ActionInput{}
	}
	return wordsOf(ctx, b.RequestedBy, b.Reason)
}

func wordsOf(ctx context.Context, requestedBy, why *string) (by, reason string) {
	by = httpkit.RequestOf(ctx).Principal
	if requestedBy != nil {
		by = *requestedBy
	}
	return by, httpkit.Text(why)
}

// act applies an operator's event and returns the changed saga.
func (s *Handlers) act(ctx context.Context, a action) (httpkit.Answer, error) {
	if a.dryRun != nil && *a.dryRun {
		return s.dryRunOf(ctx, a)
	}
	req := httpkit.RequestOf(ctx)
	key := httpkit.KeyOf(req, a.key)
	release, err := s.inUse.Hold(req.Tenant.ID, uuid.Nil, key)
	if err != nil {
		return httpkit.Answer{}, err
	}
	defer release()
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	replayed := false
	var made saga.Change
	if key != nil {
		if _, replayed, err = admission.Prior(ctx, s.Store, key); err != nil {
			return httpkit.Answer{}, err
		}
	}
	if !replayed {
		if made, replayed, err = s.apply(ctx, a, key); err != nil {
			return httpkit.Answer{}, err
		}
		s.Engine.Wake(saga.Ref{Tenant: req.Tenant.ID, ID: a.id})
	}
	run, _, err := s.load(ctx, req.Tenant.ID, a.id)
	if err != nil {
		return httpkit.Answer{}, err
	}
	if !replayed && run.Version > made.After.Version {
		run = made.After // respond with what this request wrote, not with a later change (invariant I12)
	}
	f := sagaWithLogs{saga: run.Saga}
	if err := s.withNote(ctx, &f); err != nil {
		return httpkit.Answer{}, err
	}
	out := f.convert(&run)
	out.AllowedActions = actionsOf(run.AllowedActions())
	return httpkit.Answer{Status: http.StatusAccepted, Body: out, ETag: f.notedETag(), Replayed: replayed}, nil
}

// decide returns the change that an action would make now, and the run before it.
func (s *Handlers) decide(ctx context.Context,
	a action) (change saga.Change, run saga.Instance, m saga.Moment, err error) {
	req := httpkit.RequestOf(ctx)
	run, logs, err := s.load(ctx, req.Tenant.ID, a.id)
	if err != nil {
		return change, run, m, err
	}
	switch fits, err := httpkit.IfMatch(httpkit.WithoutNote(a.match), run.Version); {
	case err != nil:
		return change, run, m, err
	case !fits:
		return change, run, m, httpkit.Stale(saga.CodeStale, "saga", run.Version)
	}
	e, err := a.event(&run, logs)
	if refused := run.Unreadable(); err != nil && refused != nil {
		err = refused // such as a step whose name is only in the definition
	}
	if err != nil {
		return change, run, m, err
	}
	m = saga.Moment{Now: s.Now(), NewID: s.NewID, CompensationTimeout: s.CompensationTimeout, Budget: s.Budget,
		Actor: req.Principal, ActorName: req.Who.Name, RequestID: req.ID}
	change, err = saga.Apply(run, e, m)
	return change, run, m, err
}

// apply decides and commits, and starts over if the saga has changed. change is the committed one.
// used reports that another node has already committed the same request.
func (s *Handlers) apply(ctx context.Context, a action,
	key *idempotency.Key) (change saga.Change, used bool, err error) {
	for range httpkit.Reloads(ctx) {
		change, _, _, err := s.decide(ctx, a)
		if err != nil {
			return change, false, err
		}
		change.Key = key
		switch err := s.Commit(ctx, change); {
		case err == nil:
			return change, false, nil
		case fault.IsCode(err, idempotency.CodeUsed):
			_, used, err := admission.Prior(ctx, s.Store, key)
			if err == nil && !used {
				err = fault.New(fault.Unavailable, fault.CodeUnavailable, "the Idempotency-Key was used moments ago: retry")
			}
			return change, used, err
		case !fault.IsCode(err, saga.CodeStale):
			return change, false, s.afterUnknownChange(ctx, change, err)
		}
	}
	return change, false, httpkit.KeepsChanging("saga")
}

// afterUnknownChange returns nil if a change was stored although its commit returned err.
func (s *Handlers) afterUnknownChange(ctx context.Context, change saga.Change, err error) error {
	if fault.As(err) != nil {
		return err
	}
	ctx, cancel := admission.ToReadBack(ctx)
	defer cancel()
	after := change.After
	found, getErr := s.Store.Get(ctx, after.Tenant.ID, after.ID)
	if getErr != nil || found.Version != after.Version || !found.UpdatedAt.Equal(after.UpdatedAt) {
		return err
	}
	s.Log.WarnContext(ctx, "action was stored although the commit reported an error",
		slog.String("request_id", httpkit.RequestOf(ctx).ID), slog.String("saga_id", after.ID.String()),
		slog.Any("error", err))
	return nil
}
