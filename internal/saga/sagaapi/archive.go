package sagaapi

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/admission"
)

// find reads a saga of the tenant, from the archive if it is not live. It tries both twice, because
// the saga may be moved between two reads. Fault: NotFound.
func (s *Handlers) find(ctx context.Context, tenant, id uuid.UUID, want saga.Logs) (sagaWithLogs, error) {
	for range 2 {
		f, err := s.findLive(ctx, tenant, id, want)
		if fault.KindOf(err) != fault.NotFound {
			return f, err
		}
		a, err := s.Archive.GetArchived(ctx, tenant, id, want)
		if fault.KindOf(err) != fault.NotFound {
			return sagaWithLogs{saga: a.Saga, logs: a.Logs, archivedAt: &a.ArchivedAt}, err
		}
	}
	return sagaWithLogs{}, saga.NotFound(id)
}

// findLive reads a live saga and then its logs, so that the logs are never older than the state.
func (s *Handlers) findLive(ctx context.Context, tenant, id uuid.UUID, want saga.Logs) (sagaWithLogs, error) {
	sg, err := s.Store.Get(ctx, tenant, id)
	if err != nil {
		return sagaWithLogs{}, err
	}
	logs, err := s.Store.StepLogs(ctx, tenant, id, want)
	if err == nil && len(logs) == 0 && sg.State.Terminal() {
		_, err = s.Store.Get(ctx, tenant, id) // it may have been archived since then, together with its logs
	}
	return sagaWithLogs{saga: sg, logs: logs}, err
}

// notLive returns the fault for an action on a saga that is archived or unknown.
func (s *Handlers) notLive(ctx context.Context, tenant, id uuid.UUID) error {
	if _, err := s.Archive.GetArchived(ctx, tenant, id, saga.Logs{Brief: true}); err != nil {
		return err
	}
	return saga.IsArchived(id)
}

// listArchived returns a page of the archive, in the order of filter.
func (s *Handlers) listArchived(ctx context.Context, p api.ListSagasParams, filter saga.Filter, none bool,
	asked httpkit.Asked[page.KeyTimeID]) (api.Response, error) {
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	var listed page.Of[saga.Archived]
	if !none {
		var err error
		if listed, err = s.Archive.ListArchived(ctx, tenant, filter); err != nil {
			return nil, err
		}
	}
	place := func(a *saga.Archived) page.KeyTimeID { return placeIn(&filter, &a.Saga) }
	out := api.SagaList{Sagas: make([]api.Saga, len(listed.Items)), Pagination: httpkit.Pagination(asked, listed, place)}
	damaged := map[string]error{}
	for i := range listed.Items {
		a := &listed.Items[i]
		run, err := s.listedRun(ctx, tenant, &a.Saga, damaged)
		if err != nil {
			return nil, err
		}
		item := (&sagaWithLogs{saga: a.Saga, archivedAt: &a.ArchivedAt}).convert(&run)
		if p.View == nil || *p.View != api.ListSagasParamsViewFull {
			item.Payload, item.Metadata = nil, nil
		}
		out.Sagas[i] = *item
	}
	if err := s.withNotes(ctx, tenant, out.Sagas); err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// RestoreSaga moves an archived saga back to the live sagas.
func (s *Handlers) RestoreSaga(ctx context.Context, in api.RestoreSagaRequestObject) (api.Response, error) {
	req := httpkit.RequestOf(ctx)
	by, reason := words(ctx, in.Body)
	if httpkit.DryRun(ctx) {
		return s.wouldRestore(ctx, in.SagaID, in.Params.IfMatch)
	}
	key := httpkit.KeyOf(req, in.Params.IdempotencyKey)
	release, err := s.inUse.Hold(req.Tenant.ID, uuid.Nil, key)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	replayed := false
	if key != nil {
		if _, replayed, err = admission.Prior(ctx, s.Store, key); err != nil {
			return nil, err
		}
	}
	if !replayed {
		if replayed, err = s.restore(ctx, in.SagaID, key, in.Params.IfMatch, by, reason); err != nil {
			return nil, err
		}
	}
	a, err := s.head(ctx, req.Tenant.ID, in.SagaID, http.StatusOK)
	a.Replayed = replayed
	return a, err
}

// restore restores a saga. used reports that the same request has already restored it through
// another node.
func (s *Handlers) restore(ctx context.Context, id uuid.UUID, key *idempotency.Key, match *string, by,
	reason string) (used bool, err error) {
	req := httpkit.RequestOf(ctx)
	a, err := s.Archive.GetArchived(ctx, req.Tenant.ID, id, saga.Logs{Brief: true})
	if err == nil {
		if err := fitsArchived(a.Saga.Version, match); err != nil {
			return false, err
		}
		restored := a.Saga.Restored(req.Principal, req.ID, by, reason, s.Now())
		restored.NameActor(req.Who.Name)
		err = s.Archive.Restore(ctx, saga.Restoration{TenantID: req.Tenant.ID, SagaID: id, Key: key, Event: restored})
		if err == nil {
			s.Log.InfoContext(ctx, "saga restored from the archive", slog.String("saga_id", id.String()),
				slog.String("by", by), slog.String("request_id", req.ID))
			return false, nil
		}
	}
	gone := fault.KindOf(err) == fault.NotFound
	if key != nil && (gone || fault.IsCode(err, idempotency.CodeUsed)) {
		if _, used, err := admission.Prior(ctx, s.Store, key); err != nil || used {
			return used, err
		}
	}
	if gone {
		return false, s.notArchived(ctx, id)
	}
	return false, err
}

// fitsArchived returns nil if an archived saga has the version that a request names. Fault:
// Precondition.
func fitsArchived(version int64, match *string) error {
	fits, err := httpkit.IfMatchTag(httpkit.WithoutNote(match), httpkit.ArchivedETag(version))
	if err == nil && !fits {
		err = httpkit.Stale(saga.CodeStale, "archived saga", version)
	}
	return err
}

// notArchived is the fault for restoring a saga that is not in the archive.
func (s *Handlers) notArchived(ctx context.Context, id uuid.UUID) error {
	live, err := s.Store.Get(ctx, httpkit.RequestOf(ctx).Tenant.ID, id)
	if err != nil {
		return err
	}
	return live.NotArchived()
}

// wouldRestore answers a dry run of restoring a saga.
func (s *Handlers) wouldRestore(ctx context.Context, id uuid.UUID, match *string) (api.Response, error) {
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	a, err := s.Archive.GetArchived(ctx, tenant, id, saga.Logs{Brief: true})
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return nil, s.notArchived(ctx, id)
	case err != nil:
		return nil, err
	}
	if err := fitsArchived(a.Saga.Version, match); err != nil {
		return nil, err
	}
	out, err := s.head(ctx, tenant, id, http.StatusOK)
	if err != nil {
		return nil, err
	}
	out.Body.(*api.Saga).Changes = httpkit.Planned(dryrun.List{{Member: "place", From: "archive", To: "live"}})
	return out, nil
}
