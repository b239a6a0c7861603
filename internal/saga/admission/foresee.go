package admission

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Foresee returns the saga that Create would store for r now, or the unfinished saga that it would
// join. It stores nothing, not even inline steps. Its faults are those of Create, except for those
// that only the database can detect.
func (s *Service) Foresee(ctx context.Context, r *Request) (Result, error) {
	err := saga.CheckPayload(r.Spec.Payload)
	if err == nil {
		err = s.inBudget(&r.Spec)
	}
	if err == nil {
		err = s.name(ctx, &r.Spec)
	}
	if err != nil {
		return Result{}, err
	}
	c, err := s.foreseeDefinition(ctx, r.Spec.Tenant.ID, &r.Workflow)
	if err == nil {
		err = fits(r, c)
	}
	if err != nil {
		return Result{}, err
	}
	n := s.newSaga(r, c, nil)
	if key := r.Spec.BusinessKey; key != nil {
		found, err := s.Store.List(ctx, r.Spec.Tenant.ID, saga.Filter{
			WorkflowName: n.WorkflowName, BusinessKey: *key, States: unfinished, ByTime: page.ByTime{Limit: 1},
		})
		switch {
		case err != nil:
			return Result{}, err
		case len(found.Items) > 0 && !r.Join:
			return Result{}, saga.BusinessKeyActive(*key, found.Items[0].ID)
		case len(found.Items) > 0:
			return Result{ID: found.Items[0].ID, Joined: true}, nil
		}
	}
	return Result{ID: n.ID, Saga: n.Saga, Definition: c.def}, nil
}

// unfinished are the states in which a saga holds its business key exclusively.
var unfinished = slices.DeleteFunc(slices.Clone(saga.States), saga.State.Terminal)

// foreseeDefinition is like choose, but for a saga that will not be stored: it does not use the
// cache and registers nothing.
func (s *Service) foreseeDefinition(ctx context.Context, tenant uuid.UUID, of *Workflow) (chosen, error) {
	if of.Steps == nil {
		return s.choose(ctx, tenant, of, true)
	}
	if err := s.stepsFit(of); err != nil {
		return chosen{}, err
	}
	def, version, err := s.Definitions.foreseeInline(ctx, tenant, of.Name, of.Steps)
	return chosen{def, version, false}, err
}

// foreseeInline returns the definition that Inline would register or find.
func (d *Definitions) foreseeInline(ctx context.Context, tenant uuid.UUID, label string,
	steps json.RawMessage) (*workflow.Definition, int, error) {
	doc, err := inlineDocument(label, steps)
	if err != nil {
		return nil, 0, err
	}
	def, err := d.parseInline(ctx, tenant, doc)
	if err != nil {
		return nil, 0, err
	}
	w, err := d.store.Get(ctx, tenant, def.Name, 0)
	switch {
	case err == nil:
		return w.Definition, w.Version, nil
	case fault.KindOf(err) == fault.NotFound:
		return def, 1, nil
	}
	return nil, 0, err
}
