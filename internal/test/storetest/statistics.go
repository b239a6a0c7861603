package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/statistics"
)

var ofStatistics = []contract{
	{"statistics count every saga of the tenant once, by definition and state", countedOnce},
	{"statistics can be restricted to one workflow, and to hours of creation", countedInPart},
	{"a tenant without sagas has no statistics", countedNone},
}

func (f *fixture) statistics(tenant uuid.UUID, filter statistics.StatisticsFilter) statistics.Statistics {
	f.t.Helper()
	got, err := f.Reports.Statistics(f.t.Context(), tenant, filter)
	if err != nil {
		f.t.Fatalf("statistics %+v: %v", filter, err)
	}
	return got
}

// summed computes the expected statistics of sagas given in any order.
func summed(sagas []saga.Saga) []statistics.DefinitionStatistics {
	by := map[string]*statistics.DefinitionStatistics{}
	for _, s := range sagas {
		d := by[s.WorkflowName]
		if d == nil {
			d = &statistics.DefinitionStatistics{WorkflowName: s.WorkflowName, WorkflowVersion: 1}
			by[s.WorkflowName] = d
		}
		d.ByState[s.State]++
		if s.NeedsAttention {
			d.NeedsAttention++
		}
		if s.StartedAt != nil && s.CompletedAt != nil {
			d.Timed++
			d.Duration += s.CompletedAt.Sub(*s.StartedAt)
		}
		if s.UpdatedAt.After(d.LastExecution) {
			d.LastExecution = s.UpdatedAt
		}
	}
	var out []statistics.DefinitionStatistics
	for _, name := range []string{"order", "refund"} { // by name
		if by[name] != nil {
			out = append(out, *by[name])
		}
	}
	return out
}

func countedOnce(f *fixture) {
	all := library(f)
	before := f.now()
	got := f.statistics(f.tenant.ID, statistics.StatisticsFilter{})
	if diff := cmp.Diff(summed(all), got.Definitions); diff != "" {
		f.t.Errorf("statistics (-want +got):\n%s", diff)
	}
	if d := got.AsOf.Sub(before); d < -time.Second || d > time.Minute {
		f.t.Errorf("they are as of %v, which is before %v", got.AsOf, before)
	}
}

func countedInPart(f *fixture) {
	all := library(f)
	hour := all[0].CreatedAt.Truncate(time.Hour)
	for _, tt := range []struct {
		name   string
		filter statistics.StatisticsFilter
		keep   func(*saga.Saga) bool
	}{
		{"a workflow", statistics.StatisticsFilter{WorkflowName: "refund"}, func(s *saga.Saga) bool { return s.WorkflowName == "refund" }},
		{"an unused workflow", statistics.StatisticsFilter{WorkflowName: "refun_"}, func(*saga.Saga) bool { return false }},
		{"from an hour", statistics.StatisticsFilter{CreatedFrom: hour}, func(s *saga.Saga) bool { return !s.CreatedAt.Before(hour) }},
		{"to an hour", statistics.StatisticsFilter{CreatedTo: hour}, func(s *saga.Saga) bool { return s.CreatedAt.Before(hour) }},
		{"within an hour, of a workflow", statistics.StatisticsFilter{WorkflowName: "order", CreatedFrom: hour, CreatedTo: hour.Add(time.Hour)},
			func(s *saga.Saga) bool {
				return s.WorkflowName == "order" && !s.CreatedAt.Before(hour) && s.CreatedAt.Before(hour.Add(time.Hour))
			}},
		{"a day ago", statistics.StatisticsFilter{CreatedFrom: hour.Add(-24 * time.Hour), CreatedTo: hour.Add(-23 * time.Hour)}, func(*saga.Saga) bool { return false }},
	} {
		f.t.Run(tt.name, func(t *testing.T) {
			got := f.in(t).statistics(f.tenant.ID, tt.filter)
			if diff := cmp.Diff(summed(only(all, tt.keep)), got.Definitions, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("statistics (-want +got):\n%s", diff)
			}
		})
	}
}

func countedNone(f *fixture) {
	f.stored(f.unowned())
	if got := f.statistics(newID(), statistics.StatisticsFilter{}); len(got.Definitions) > 0 || got.AsOf.IsZero() {
		f.t.Errorf("statistics of a tenant without sagas: %+v", got)
	}
}
