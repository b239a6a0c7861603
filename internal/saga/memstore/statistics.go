package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/statistics"
)

// Statistics implements statistics.Reports.
func (st *Sagas) Statistics(_ context.Context, tenant uuid.UUID, f statistics.StatisticsFilter,
) (statistics.Statistics, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	out := statistics.Statistics{AsOf: st.m.now()}
	at := map[string]map[int]int{} // name → version → index in out
	for _, s := range st.m.sagas {
		if s.Tenant.ID != tenant || !f.Matches(s) {
			continue
		}
		if at[s.WorkflowName] == nil {
			at[s.WorkflowName] = map[int]int{}
		}
		i, known := at[s.WorkflowName][s.WorkflowVersion]
		if !known {
			i = len(out.Definitions)
			at[s.WorkflowName][s.WorkflowVersion] = i
			out.Definitions = append(
				out.Definitions,
				statistics.DefinitionStatistics{WorkflowName: s.WorkflowName, WorkflowVersion: s.WorkflowVersion},
			)
		}
		add(&out.Definitions[i], s)
	}
	slices.SortFunc(out.Definitions, func(a, b statistics.DefinitionStatistics) int {
		return cmp.Or(cmp.Compare(a.WorkflowName, b.WorkflowName), a.WorkflowVersion-b.WorkflowVersion)
	})
	return out, nil
}

func add(d *statistics.DefinitionStatistics, s *saga.Saga) {
	d.ByState[s.State]++
	if s.NeedsAttention {
		d.NeedsAttention++
	}
	if s.StartedAt != nil && s.CompletedAt != nil {
		d.Timed++
		d.Duration += s.CompletedAt.Sub(*s.StartedAt).Truncate(time.Microsecond)
	}
	if s.UpdatedAt.After(d.LastExecution) {
		d.LastExecution = s.UpdatedAt
	}
}

// RollUp implements statistics.Reports. It does nothing: statistics are counted when queried.
func (st *Sagas) RollUp(context.Context) error { return nil }
