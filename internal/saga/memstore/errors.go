package memstore

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/statistics"
)

// Errors implements statistics.Reports.
func (st *Sagas) Errors(_ context.Context, tenant uuid.UUID, f statistics.ErrorFilter) (statistics.Errors, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	var bad []*saga.Saga
	for _, s := range st.m.sagas {
		if s.Tenant.ID == tenant && f.Matches(s) {
			bad = append(bad, s)
		}
	}
	out := statistics.Errors{Examined: int64(len(bad))}
	at := map[string]int{}
	for _, s := range bad {
		g, t := statistics.ErrorGroup{WorkflowName: s.WorkflowName}, st.m.troubles[s.Ref()]
		since := t.Since
		if s.State.Terminal() {
			g.Step, g.Action, since = t.Step, t.Action, *s.CompletedAt
		} else if g.Step, g.Action = st.m.currentStep(s), saga.Execute; s.State == saga.Compensating {
			g.Action = saga.Compensate
		}
		if s.Error != nil {
			g.Code = s.Error.Code
		}
		i, known := at[g.Key()]
		if !known {
			i = len(out.Groups)
			at[g.Key()], out.Groups = i, append(out.Groups, g)
		}
		out.Groups[i].Add(s, since)
	}
	slices.SortFunc(out.Groups, func(a, b statistics.ErrorGroup) int { return a.Compare(b.Count, b.Key()) })
	out.Groups = out.Groups[:min(len(out.Groups), statistics.MostErrorGroups)]
	return out, nil
}
