package overview

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
)

// Why groups the reasons why sagas need attention: all reasons that people typed count as one.
func Why(reason string) (why string, stuck bool) {
	if slices.Contains(saga.StuckReasons, reason) {
		return reason, true
	}
	if slices.Contains(saga.EndReasons, reason) || slices.Contains(saga.StopReasons, reason) {
		return reason, false
	}
	return raised, false
}

// OfSagas is a Store on top of a store that has only sagas.
type OfSagas struct {
	Sagas saga.Store
	Now   func() time.Time
}

// Missing implements Store.
func (OfSagas) Missing() []Part { return []Part{DeadLetters, JobRuns, Webhooks, Nodes} }

// Nodes implements Store. There is only this node, which has no lease.
func (OfSagas) Nodes(context.Context) ([]Incarnation, error) { return nil, nil }

// Tenants implements Store. This store does not record tenants.
func (OfSagas) Tenants(context.Context, page.Request[uuid.UUID]) (page.Of[Tenant], error) {
	return page.Of[Tenant]{}, nil
}

// Overview implements Store.
func (o OfSagas) Overview(ctx context.Context, tenant uuid.UUID) (Overview, error) {
	out := Overview{At: o.Now()}
	list := func(f saga.Filter) ([]saga.Saga, error) {
		f.Limit = Most + 1
		page, err := o.Sagas.List(ctx, tenant, f)
		return page.Items, err
	}
	active, err := list(saga.Filter{States: live})
	if err != nil {
		return out, err
	}
	out.Active = CountOf(len(active))
	found, err := list(saga.Filter{NeedsAttention: new(true)})
	if err != nil {
		return out, err
	}
	causes := map[string]*Cause{}
	for i := range found {
		s := &found[i]
		c := causeOf(s)
		known := causes[c.Key()]
		if known == nil {
			causes[c.Key()] = &c
			continue
		}
		known.Count = known.Count.Add(c.Count)
		if c.Since.Before(known.Since) {
			known.Since = c.Since
		}
	}
	for _, c := range causes {
		out.Causes = append(out.Causes, *c)
	}
	out.CountSagas(len(found))
	out.Sort()
	return out, nil
}

var live = slices.DeleteFunc(slices.Clone(saga.States[:]), saga.State.Terminal)

// title is the name that people use for a saga.
func title(s *saga.Saga) string {
	if s.BusinessKey != nil {
		return *s.BusinessKey
	}
	return s.WorkflowName
}

func causeOf(s *saga.Saga) Cause {
	c := Cause{Name: s.WorkflowName, Count: Count{N: 1}, Since: s.UpdatedAt, ID: s.ID.String()}
	if s.CompletedAt != nil {
		c.Since = *s.CompletedAt
	}
	if s.AttentionReason != nil {
		c.Why = *s.AttentionReason
	}
	if s.Error != nil {
		c.Code = s.Error.Code
	}
	c.Attend()
	return c
}

// Attend sets the kind of a cause from the reason why its sagas need attention.
func (c *Cause) Attend() {
	why, stuck := Why(c.Why)
	c.Why, c.Kind = why, SagasAttention
	if stuck {
		c.Kind = SagasStuck
	}
}

// CountSagas sets the counts of sagas from their causes; found is the number of sagas that were checked.
func (o *Overview) CountSagas(found int) {
	for i := range o.Causes {
		switch c := &o.Causes[i]; c.Kind {
		case SagasStuck:
			o.Stuck = o.Stuck.Add(c.Count)
			o.Attention = o.Attention.Add(c.Count)
		case SagasAttention:
			o.Attention = o.Attention.Add(c.Count)
		}
	}
	o.Attention.Capped = o.Attention.Capped || found > Most
}

// Search implements Store.
func (o OfSagas) Search(ctx context.Context, tenant uuid.UUID, q Query) (hits []Hit, err error) {
	seen := map[uuid.UUID]bool{}
	add := func(s *saga.Saga, by Match, begins bool) {
		if !seen[s.ID] {
			seen[s.ID] = true
			hits = append(hits, Hit{Kind: HitSaga, ID: s.ID.String(), Title: title(s),
				State: s.State.String(), At: &s.CreatedAt, Matched: by, Begins: begins})
		}
	}
	if q.ID != uuid.Nil {
		switch s, err := o.Sagas.Get(ctx, tenant, q.ID); {
		case err == nil:
			add(&s, ByID, false)
		case fault.KindOf(err) != fault.NotFound:
			return nil, err
		}
	}
	for _, way := range []struct {
		by     Match
		f      saga.Filter
		begins bool
	}{
		{ByBusinessKey, saga.Filter{BusinessKey: q.Text}, false}, {ByCorrelation, saga.Filter{CorrelationID: q.Text}, false},
		{ByTrace, saga.Filter{TraceID: q.Text}, false}, {ByBusinessKey, saga.Filter{KeyPrefix: q.Prefix}, true},
		{ByCorrelation, saga.Filter{CorrelationPrefix: q.Prefix}, true},
	} {
		way.f.Limit, way.f.Sort = MostHits, way.f.SortOfPrefix()
		page, err := o.Sagas.List(ctx, tenant, way.f)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			add(&page.Items[i], way.by, way.begins)
		}
	}
	exact := func(h *Hit) int { return map[bool]int{false: 0, true: 1}[h.Begins] }
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(exact(&a)-exact(&b), b.At.Compare(*a.At), cmp.Compare(a.ID, b.ID))
	})
	return hits[:min(len(hits), MostHits)], nil
}

// States implements Store.
func (o OfSagas) States(ctx context.Context, tenant uuid.UUID, w *Watched) (found []State, err error) {
	for _, id := range w.Sagas {
		s, err := o.Sagas.Get(ctx, tenant, id)
		switch {
		case err != nil && fault.KindOf(err) == fault.NotFound:
		case err != nil:
			return nil, err
		default:
			found = append(found, State{WatchSaga, id.String(), s.Version, s.State.String(), s.UpdatedAt})
		}
	}
	return found, nil
}
