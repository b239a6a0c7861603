package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/statistics"
)

// selected returns the tenant's sagas that f selects, including archived ones, newest first.
func (m *memory) selected(tenant uuid.UUID, f func(*saga.Saga) bool) (found []*saga.Saga) {
	for _, s := range m.sagas {
		if s.Tenant.ID == tenant && f(s) {
			found = append(found, s)
		}
	}
	for _, a := range m.archive {
		if a.Saga.Tenant.ID == tenant && f(&a.Saga) {
			found = append(found, &a.Saga)
		}
	}
	slices.SortFunc(found, func(a, b *saga.Saga) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return found
}

// Series implements statistics.Reports.
func (st *Sagas) Series(_ context.Context, tenant uuid.UUID, f statistics.SeriesFilter) (statistics.Series, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	out := statistics.Series{AsOf: st.m.now(), Buckets: make([]statistics.SeriesBucket, f.Buckets())}
	read, took := make([]int, f.Buckets()), make([][]time.Duration, f.Buckets())
	for _, s := range st.m.selected(tenant, f.Matches) {
		n := int(s.CreatedAt.Sub(f.From) / f.Bucket)
		out.Buckets[n].ByState[s.State]++
		if read[n]++; read[n] <= f.TimedEach() && s.StartedAt != nil && s.CompletedAt != nil {
			took[n] = append(took[n], s.CompletedAt.Sub(*s.StartedAt).Truncate(time.Microsecond))
		}
	}
	for n := range took {
		out.Buckets[n].Durations = statistics.DurationsOf(took[n])
	}
	return out, nil
}

// Attempts implements statistics.Reports. It reads only the newest sagas, because a process without
// a database has few.
func (st *Sagas) Attempts(
	_ context.Context, tenant uuid.UUID, f statistics.AttemptFilter,
) (statistics.AttemptSample, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	var out statistics.AttemptSample
	for _, s := range st.m.selected(tenant, f.Matches) {
		if out.Sagas == statistics.MostSampledSagas || len(out.Attempts) >= statistics.MostSampledAttempts {
			out.Sampled = true
			break
		}
		out.Sagas++
		logs := st.m.logs[s.Ref()]
		if a := st.m.archive[s.Ref()]; a != nil {
			logs = a.Logs
		}
		logs = slices.Clone(logs)
		slices.SortStableFunc(logs, func(a, b saga.StepLog) int { return a.Attempt - b.Attempt })
		for i := range logs {
			out.Attempts = append(out.Attempts, statistics.Sampled(&logs[i]))
		}
	}
	return out, nil
}

// Calls implements statistics.Reports.
func (st *Sagas) Calls(
	_ context.Context, tenant uuid.UUID, f statistics.CallsFilter,
) (calls []statistics.OtherCall, err error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	ofTenant, ofWorkflow := 0, 0
	for _, s := range st.m.selected(tenant, func(s *saga.Saga) bool { return st.m.archive[s.Ref()] == nil }) {
		ofTenant++
		if s.WorkflowName == f.WorkflowName {
			ofWorkflow++
		}
		if ofTenant > statistics.MostCallers && (s.WorkflowName != f.WorkflowName || ofWorkflow > statistics.MostCallers) ||
			s.ID == f.Except {
			continue
		}
		calls = append(calls, st.m.callsTo(s, f.Host)...)
	}
	return calls, nil
}

// callsTo returns the last ended attempts of a saga's calls to a host.
func (m *memory) callsTo(s *saga.Saga, host string) (calls []statistics.OtherCall) {
	h := m.heads[nameID{s.Tenant.ID, s.WorkflowName}]
	if h == nil || s.WorkflowVersion > len(h.versions) {
		return nil
	}
	steps := h.versions[s.WorkflowVersion-1].def.Steps
	last := map[[2]string]*saga.StepLog{} // by step and action
	logs := m.logs[s.Ref()]
	for i := range logs {
		l := &logs[i]
		if l.StepIndex >= len(steps) || l.CompletedAt == nil {
			continue
		}
		call := steps[l.StepIndex].Action
		if l.Action == saga.Compensate {
			call = steps[l.StepIndex].Compensation.Call
		}
		key := [2]string{l.StepName, string(l.Action)}
		if host != "" && statistics.HostOfCall(&call) == host && (last[key] == nil || l.Attempt > last[key].Attempt) {
			last[key] = l
		}
	}
	for _, l := range last {
		c := statistics.OtherCall{At: *l.CompletedAt, Status: l.Status}
		if l.Error != nil {
			c.Class = retry.Class(l.Error.Type)
		}
		calls = append(calls, c)
	}
	return calls
}
