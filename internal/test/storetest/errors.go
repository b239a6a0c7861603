package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/statistics"
)

var errorLists = []contract{
	{"sagas are found by the step and the code of their error", listByError},
	{"sagas are found by their end and by how long they need attention", listByEnd},
	{"sagas that went wrong are grouped by what went wrong", groupedErrors},
	{"a saga that is reopened has no error until it ends again", errorOfReopened},
}

// place returns where a saga of the library went wrong, according to its state. All sagas were
// driven past their first step, the second step was refused, and in FAILED sagas the undo of the
// first step gave up.
func place(f *fixture, s *saga.Saga) (step string, action saga.Action) {
	first, second := f.def.Steps[0].Name, f.def.Steps[1].Name
	switch s.State {
	case saga.Failed:
		return first, saga.Compensate
	case saga.Compensated:
		return second, saga.Execute
	case saga.Cancelled, saga.TimedOut:
		return first, saga.Execute // nothing was sent
	case saga.Completed:
		return "", ""
	}
	return f.def.Steps[s.CurrentStep].Name, ""
}

func listByError(f *fixture) {
	all := library(f)
	codes := map[string]int{}
	for i := range all {
		if all[i].Error != nil {
			codes[all[i].Error.Code]++
		}
	}
	if len(codes) < 3 {
		f.t.Fatalf("the library has only the codes %v", codes)
	}
	codes["no such code"] = 0
	for code, want := range codes {
		found := f.list(saga.Filter{ErrorCode: code, ByTime: page.ByTime{Limit: 200, Total: true}})
		expected := only(all, func(s *saga.Saga) bool { return s.Error != nil && s.Error.Code == code })
		if !slices.Equal(ids(expected), ids(found.Items)) || found.Total != int64(want) {
			f.t.Errorf("code %s: %d sagas of %d, want %d", code, len(found.Items), found.Total, want)
		}
	}
	for _, step := range []string{f.def.Steps[0].Name, f.def.Steps[1].Name, f.def.Steps[2].Name, "no such step"} {
		for name, filter := range map[string]saga.Filter{
			"": {}, "failed": {States: []saga.State{saga.Failed}},
			"unfinished":  {States: []saga.State{saga.Running, saga.Compensating}},
			"completed":   {States: []saga.State{saga.Completed}},
			"mixed":       {States: []saga.State{saga.Completed, saga.Compensated, saga.Pending}},
			"with a code": {ErrorCode: "http_409"}, "by metadata": {Metadata: []byte(`{"n":1}`)},
			"changed lately": {UpdatedFrom: all[len(all)/2].UpdatedAt}, "ended lately": {EndedFrom: all[len(all)/2].UpdatedAt},
			"that need attention": {NeedsAttention: new(true)},
		} {
			filter.WorkflowName, filter.Step = "order", step
			filter.Limit, filter.Total = 200, true
			expected := only(all, func(s *saga.Saga) bool {
				at, _ := place(f, s)
				return at == step && filter.Matches(s)
			})
			found := f.list(filter)
			if !slices.Equal(ids(expected), ids(found.Items)) || found.Total != int64(len(expected)) {
				f.t.Errorf("step %s, %s: %d sagas of %d, want %d", step, name, len(found.Items), found.Total, len(expected))
			}
			filter.Total, filter.Limit = false, 1
			for n := range expected { // page by page
				if found = f.list(filter); len(found.Items) != 1 || found.Items[0].ID != expected[n].ID {
					f.t.Fatalf("step %s, %s: item %d is %v", step, name, n, ids(found.Items))
				}
				filter.After = new(found.Items[0].Place())
			}
		}
	}
}

func listByEnd(f *fixture) {
	all := library(f)
	var ends []time.Time
	for i := range all {
		if all[i].CompletedAt != nil {
			ends = append(ends, *all[i].CompletedAt)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	early, late := ends[len(ends)/4], ends[len(ends)/2]
	for _, tt := range []saga.Filter{
		{EndedFrom: early}, {EndedTo: late}, {EndedFrom: early, EndedTo: late}, {EndedTo: ends[0]},
		{EndedFrom: late, EndedTo: late.Add(time.Microsecond)}, {EndedFrom: early, States: saga.StatesOf(saga.StatusFailed)},
		{EndedFrom: early, UpdatedFrom: late}, {EndedFrom: late, UpdatedFrom: early},
		{EndedFrom: early, Metadata: []byte(`{"n":1}`)}, {EndedFrom: early, States: []saga.State{saga.Running}},
	} {
		tt.Limit, tt.Total = 200, true
		expected := only(all, func(s *saga.Saga) bool {
			return s.CompletedAt != nil && !s.CompletedAt.Before(tt.EndedFrom) &&
				(tt.EndedTo.IsZero() || s.CompletedAt.Before(tt.EndedTo)) &&
				!s.UpdatedAt.Before(tt.UpdatedFrom) && (tt.States == nil || slices.Contains(tt.States, s.State)) &&
				(tt.Metadata == nil || s.Metadata != nil && canonical(s.Metadata) == `{"n":1,"team":"stock ñ"}`)
		})
		found := f.list(tt)
		if !slices.Equal(ids(expected), ids(found.Items)) || found.Total != int64(len(expected)) {
			f.t.Errorf("%+v: %d sagas of %d, want %d", tt, len(found.Items), found.Total, len(expected))
		}
	}
	needing := only(all, func(s *saga.Saga) bool { return s.NeedsAttention })
	middle := *needing[len(needing)/2].CompletedAt
	for _, tt := range []saga.Filter{
		{AttentionFrom: middle}, {AttentionTo: middle}, {AttentionFrom: middle, AttentionTo: middle.Add(time.Microsecond)},
	} {
		tt.Limit = 200
		expected := only(needing, func(s *saga.Saga) bool {
			return !s.CompletedAt.Before(tt.AttentionFrom) && (tt.AttentionTo.IsZero() || s.CompletedAt.Before(tt.AttentionTo))
		})
		if found := f.list(tt); !slices.Equal(ids(expected), ids(found.Items)) {
			f.t.Errorf("%+v: %d sagas, want %d", tt, len(found.Items), len(expected))
		}
	}
}

func (f *fixture) errors(filter statistics.ErrorFilter) statistics.Errors {
	f.t.Helper()
	got, err := f.Reports.Errors(f.t.Context(), f.tenant.ID, filter)
	if err != nil {
		f.t.Fatalf("errors %+v: %v", filter, err)
	}
	return got
}

func groupedErrors(f *fixture) {
	all := library(f)
	neglected := f.play(f.into(saga.Running), saga.Neglected{Reason: saga.ReasonFailing})
	all = append(all, f.load(neglected.ID).Saga)
	for name, filter := range map[string]statistics.ErrorFilter{
		"all": {}, "of a workflow": {WorkflowName: "refund"},
		"failed": {States: []saga.State{saga.Failed}}, "running": {States: []saga.State{saga.Running}},
		"needing attention": {NeedsAttention: new(true)}, "not needing it": {NeedsAttention: new(false)},
		"ended":   {EndedFrom: all[0].CreatedAt, EndedTo: f.now()},
		"created": {CreatedFrom: all[10].CreatedAt, CreatedTo: all[4].CreatedAt},
		"none":    {CreatedTo: all[0].CreatedAt.Add(-24 * time.Hour)},
	} {
		f.t.Run(name, func(t *testing.T) {
			want := statistics.Errors{}
			at := map[string]int{}
			for i := range all {
				s := &all[i]
				if !s.NeedsAttention && (!s.State.Terminal() || s.State == saga.Completed) ||
					filter.States != nil && !slices.Contains(filter.States, s.State) ||
					filter.WorkflowName != "" && s.WorkflowName != filter.WorkflowName ||
					filter.NeedsAttention != nil && *filter.NeedsAttention != s.NeedsAttention ||
					s.CreatedAt.Before(filter.CreatedFrom) || !filter.CreatedTo.IsZero() && !s.CreatedAt.Before(filter.CreatedTo) ||
					!filter.EndedTo.IsZero() && s.CompletedAt == nil {
					continue
				}
				g := statistics.ErrorGroup{WorkflowName: s.WorkflowName}
				since := s.UpdatedAt
				if s.CompletedAt != nil {
					since = *s.CompletedAt
				}
				if g.Step, g.Action = place(f, s); g.Action == "" {
					g.Action = saga.Execute
				}
				if s.Error != nil {
					g.Code = s.Error.Code
				}
				n, known := at[g.Key()]
				if !known {
					n, at[g.Key()] = len(want.Groups), len(want.Groups)
					want.Groups = append(want.Groups, g)
				}
				want.Groups[n].Add(s, since)
				want.Examined++
			}
			slices.SortFunc(want.Groups, func(a, b statistics.ErrorGroup) int { return a.Compare(b.Count, b.Key()) })
			if diff := cmp.Diff(want, f.in(t).errors(filter), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func errorOfReopened(f *fixture) {
	run := f.into(saga.Failed)
	f.play(run, saga.ResumeRequested{By: "ann"})
	if got := f.errors(statistics.ErrorFilter{}); len(got.Groups) > 0 {
		f.t.Errorf("while it compensates again: %+v", got)
	}
	live := saga.Filter{WorkflowName: "order", Step: f.def.Steps[0].Name, ErrorCode: "http_409",
		ByTime: page.ByTime{Limit: 5}}
	if found := f.list(live); len(found.Items) != 1 {
		f.t.Errorf("%d unfinished sagas at its step", len(found.Items))
	}
	again := saga.Rebuild(f.load(run.ID).Saga, f.def, f.load(run.ID).Logs)
	f.play(again, f.done(``))
	want := []statistics.ErrorGroup{{
		WorkflowName: "order", Step: f.def.Steps[1].Name, Action: saga.Execute, Code: "http_409",
		States: []saga.State{saga.Compensated}, Count: 1, Sample: run.ID,
	}}
	got := f.errors(statistics.ErrorFilter{}).Groups
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(statistics.ErrorGroup{}, "First", "Last")); diff != "" {
		f.t.Errorf("once it is compensated (-want +got):\n%s", diff)
	}
}
