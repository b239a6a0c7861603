package sagaapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/explain"
	"github.com/skald-saga/skald/internal/saga/sagabulk"
)

const (
	examined = 100 // how many sagas a dry run evaluates
	sampled  = 10  // how many of them it shows
)

// previewBulk applies a bulk to its first sagas without storing anything.
func (s *Handlers) previewBulk(ctx context.Context, b *sagabulk.Bulk, none bool) (httpkit.Answer, error) {
	out := api.SagaBulkPreview{ByWorkflow: api.CountsByName{}, ByState: api.CountsByName{}, Sample: []api.SagaBulkSample{}}
	ids := b.IDs[:min(len(b.IDs), examined)]
	out.Matched = int64(len(b.IDs))
	if b.Filter != nil && !none {
		found, err := s.Store.List(ctx, b.TenantID, b.Scope(examined))
		if err != nil {
			return httpkit.Answer{}, err
		}
		if out.Matched, err = s.Bulks.Count(ctx, *b); err != nil {
			return httpkit.Answer{}, err
		}
		for i := range found.Items {
			ids = append(ids, found.Items[i].ID)
		}
	}
	refs := make([]saga.Ref, len(ids))
	for i, id := range ids {
		refs[i] = saga.Ref{Tenant: b.TenantID, ID: id}
	}
	loaded, err := s.Store.Load(ctx, refs)
	if err != nil {
		return httpkit.Answer{}, err
	}
	byID := make(map[uuid.UUID]*saga.Loaded, len(loaded))
	for i := range loaded {
		byID[loaded[i].Saga.ID] = &loaded[i]
	}
	var all []api.SagaBulkSample
	sum := dryrun.Many{Of: string(api.PlannedChangeOfSaga)}
	for _, id := range ids {
		sample, changes, err := s.sampleOf(ctx, b, id, byID[id])
		if err != nil {
			return httpkit.Answer{}, err
		}
		if out.Examined++; sample.Outcome == api.SagaBulkOutcome(sagabulk.Done) {
			out.Done++
		} else {
			out.Skipped++
		}
		if sample.State != nil {
			out.ByWorkflow[*sample.WorkflowName]++
			out.ByState[string(*sample.State)]++
		}
		sum.Add(changes, 1)
		all = append(all, sample)
	}
	slices.SortStableFunc(all, func(a, b api.SagaBulkSample) int {
		refused := func(s *api.SagaBulkSample) int {
			if s.Outcome == api.SagaBulkOutcome(sagabulk.Skipped) {
				return 0
			}
			return 1
		}
		return refused(&a) - refused(&b)
	})
	out.Changes = httpkit.PlannedChanges(sum.List())
	out.Sample = append(out.Sample, all[:min(len(all), sampled)]...)
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// sampleOf returns what a bulk would do to one saga. l is nil for a saga that is not live.
func (s *Handlers) sampleOf(ctx context.Context, b *sagabulk.Bulk, id uuid.UUID, l *saga.Loaded) (
	api.SagaBulkSample, dryrun.List, error) {
	out := api.SagaBulkSample{SagaID: id, Outcome: api.SagaBulkOutcome(sagabulk.Skipped)}
	refuse := func(f *fault.Error) { out.Code, out.Detail = &f.Code, &f.Detail }
	if l == nil {
		refuse(saga.NotFound(id))
		return out, nil, nil
	}
	run, err := s.run(ctx, l.Saga, l.Logs)
	if err != nil {
		return out, nil, err
	}
	out.WorkflowName, out.State = &l.Saga.WorkflowName, new(api.SagaState(l.Saga.State.String()))
	m := saga.Moment{Now: s.Now(), NewID: s.NewID, CompensationTimeout: s.CompensationTimeout, Budget: s.Budget}
	change, err := b.Decide(run, l.Logs, m)
	if f := fault.As(err); f != nil {
		refuse(f)
		return out, nil, nil
	}
	if err != nil {
		return out, nil, err
	}
	out.Outcome, out.Becomes = api.SagaBulkOutcome(sagabulk.Done), new(api.SagaState(change.After.State.String()))
	return out, explain.Changes(&change, &run), nil
}
