package httpapi

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
)

// maxReloads bounds how often an action is decided anew because its saga
// moved on meanwhile.
const maxReloads = 5

// CancelSaga flags a saga to be undone and to end as cancelled.
func (s *server) CancelSaga(ctx context.Context, in api.CancelSagaRequestObject) (api.CancelSagaResponseObject, error) {
	by, reason := words(ctx, in.Body)
	return s.act(ctx, in.SagaID, in.Params.IdempotencyKey, in.Params.IfMatch, saga.CancelRequested{By: by, Reason: reason})
}

// CompensateSaga flags a saga to be undone on an operator's account.
func (s *server) CompensateSaga(ctx context.Context, in api.CompensateSagaRequestObject) (api.CompensateSagaResponseObject, error) {
	by, reason := words(ctx, in.Body)
	return s.act(ctx, in.SagaID, in.Params.IdempotencyKey, in.Params.IfMatch, saga.CompensateRequested{By: by, Reason: reason})
}

// ResumeCompensation reopens a saga whose undo gave up.
func (s *server) ResumeCompensation(ctx context.Context, in api.ResumeCompensationRequestObject) (api.ResumeCompensationResponseObject, error) {
	by, reason := words(ctx, in.Body)
	return s.act(ctx, in.SagaID, in.Params.IdempotencyKey, in.Params.IfMatch, saga.ResumeRequested{By: by, Reason: reason})
}

// words returns who acts and why; a body is optional.
func words(ctx context.Context, b *api.ActionInput) (by, reason string) {
	by = requestOf(ctx).principal
	if b == nil {
		return by, ""
	}
	if b.RequestedBy != nil {
		by = *b.RequestedBy
	}
	return by, text(b.Reason)
}

// act applies an operator's event and answers with the saga as it then is.
func (s *server) act(ctx context.Context, id uuid.UUID, keyHeader, match *string, e saga.Event) (answer, error) {
	req := requestOf(ctx)
	key := keyOf(req, keyHeader)
	release, err := s.inUse.hold(req.tenant.ID, uuid.Nil, key)
	if err != nil {
		return answer{}, err
	}
	defer release()
	ctx, cancel := s.promised(ctx)
	defer cancel()
	replayed := false
	if key != nil {
		if _, replayed, err = s.prior(ctx, key); err != nil {
			return answer{}, err
		}
		key.SagaID = id
	}
	if !replayed {
		if replayed, err = s.apply(ctx, id, key, match, e); err != nil {
			return answer{}, err
		}
		s.Engine.Wake(id)
	}
	a, err := s.head(ctx, req.tenant.ID, id, http.StatusAccepted)
	a.replayed = replayed
	return a, err
}

// apply decides and commits, and decides anew when the saga moved on. used
// tells that the same request was committed by another node meanwhile.
func (s *server) apply(ctx context.Context, id uuid.UUID, key *saga.IdempotencyKey, match *string, e saga.Event) (used bool, err error) {
	req := requestOf(ctx)
	for range maxReloads {
		run, _, err := s.load(ctx, req.tenant.ID, id)
		if err != nil {
			return false, err
		}
		switch fits, err := ifMatch(match, run.Version); {
		case err != nil:
			return false, err
		case !fits:
			return false, stale(saga.CodeStale, "saga", run.Version)
		}
		change, err := saga.Apply(run, e, saga.Moment{
			Now: s.now(), NewID: s.NewID, CompensationTimeout: s.CompensationTimeout, Actor: req.principal, RequestID: req.id,
		})
		if err != nil {
			return false, err
		}
		change.Key = key
		switch err := s.Commit(ctx, change); {
		case err == nil:
			return false, nil
		case fault.IsCode(err, saga.CodeKeyUsed):
			_, used, err := s.prior(ctx, key)
			if err == nil && !used {
				err = fault.New(fault.Unavailable, codeUnavailable, "the Idempotency-Key was used a moment ago; try again")
			}
			return used, err
		case !fault.IsCode(err, saga.CodeStale):
			return false, s.afterUnknownChange(ctx, change, err)
		}
	}
	return false, fault.New(fault.Unavailable, codeUnavailable, "the saga keeps changing; try again")
}

// afterUnknownChange returns nil when a change was stored though its commit
// ended in err.
func (s *server) afterUnknownChange(ctx context.Context, change saga.Change, err error) error {
	if fault.As(err) != nil {
		return err
	}
	ctx, cancel := s.promised(ctx)
	defer cancel()
	after := change.After
	found, getErr := s.Sagas.Get(ctx, after.Tenant.ID, after.ID)
	if getErr != nil || found.Version != after.Version || !found.UpdatedAt.Equal(after.UpdatedAt) {
		return err
	}
	s.Log.WarnContext(ctx, "action was stored though its commit reported an error",
		slog.String("request_id", requestOf(ctx).id), slog.String("saga_id", after.ID.String()), slog.Any("error", err))
	return nil
}
