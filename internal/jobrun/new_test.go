package jobrun_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
)

func nightly(change func(*jobrun.Spec)) *jobrun.Definition {
	d := &jobrun.Definition{
		ID: uuid.UUID{3}, TenantID: uuid.UUID{2}, Name: "nightly", SpecVersion: 4,
		Spec: jobrun.Spec{CommandName: "report", DefaultArgs: json.RawMessage(`{"n":1}`),
			Labels: map[string]string{"team": "a"}, Requires: map[string]string{"gpu": "yes"}},
	}
	if change != nil {
		change(&d.Spec)
	}
	return d
}

func TestWhatANewRunIs(t *testing.T) {
	t.Parallel()
	r := jobrun.New(nightly(nil), jobrun.Request{ID: uuid.UUID{1}, Trigger: jobrun.ByHand, Key: "manual:1", By: "ann",
		As: jobrun.AsAdmin}, settings, moment())
	want := jobrun.Run{
		ID: uuid.UUID{1}, TenantID: uuid.UUID{2}, DefinitionID: uuid.UUID{3}, DefinitionName: "nightly", SpecVersion: 4,
		CommandName: "report", Version: 1,
		State: jobrun.Pending, Trigger: jobrun.ByHand, ScheduledFor: noon, AvailableAt: noon, AdmittedAt: &noon,
		Queue:          jobrun.DefaultQueue,
		RequiredLabels: []string{"gpu=yes"}, Labels: []string{"team=a"}, Args: json.RawMessage(`{"n":1}`),
		IdempotencyKey: "manual:1",
		Concurrency:    jobrun.Allow, MaxLosses: settings.Int(jobrun.MaxLosses), Continuation: jobrun.NoDoubt,
		RootRunID:   uuid.UUID{1},
		InitiatedBy: "ann", InitiatedAs: jobrun.AsAdmin, CreatedAt: noon, UpdatedAt: noon,
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

func TestWhatARequestChangesOfANewRun(t *testing.T) {
	t.Parallel()
	later := noon.Add(time.Hour)
	for name, tt := range map[string]struct {
		spec func(*jobrun.Spec)
		ask  jobrun.Request
		is   func(*jobrun.Run) bool
	}{
		"its own arguments":           {nil, jobrun.Request{Args: json.RawMessage(`{}`)}, func(r *jobrun.Run) bool { return string(r.Args) == `{}` }},
		"its own priority":            {func(s *jobrun.Spec) { s.Priority = 3 }, jobrun.Request{Priority: new(0)}, func(r *jobrun.Run) bool { return r.Priority == 0 }},
		"the definition's priority":   {func(s *jobrun.Spec) { s.Priority = 3 }, jobrun.Request{}, func(r *jobrun.Run) bool { return r.Priority == 3 }},
		"its labels before the job's": {nil, jobrun.Request{Labels: map[string]string{"team": "b"}}, func(r *jobrun.Run) bool { return slices.Equal(r.Labels, []string{"team=b"}) }},
		"its labels beside the job's": {nil, jobrun.Request{Labels: map[string]string{"a": "1"}}, func(r *jobrun.Run) bool { return slices.Equal(r.Labels, []string{"a=1", "team=a"}) }},
		"later":                       {nil, jobrun.Request{ScheduledFor: later}, func(r *jobrun.Run) bool { return r.AvailableAt.Equal(later) && r.AdmittedAt == nil }},
		"a slot is spread": {func(s *jobrun.Spec) { s.JitterMS = 1000 }, jobrun.Request{Trigger: jobrun.ByTime},
			func(r *jobrun.Run) bool {
				return r.AvailableAt.Equal(noon.Add(500*time.Millisecond)) && r.ScheduledFor.Equal(noon)
			}},
		"what is asked for is not":     {func(s *jobrun.Spec) { s.JitterMS = 1000 }, jobrun.Request{Trigger: jobrun.ByHand}, func(r *jobrun.Run) bool { return r.AvailableAt.Equal(noon) }},
		"its job as key":               {func(s *jobrun.Spec) { s.Concurrency = jobrun.Queue }, jobrun.Request{}, func(r *jobrun.Run) bool { return r.ConcurrencyKey == uuid.UUID{3}.String() && r.AdmittedAt == nil }},
		"its own key":                  {func(s *jobrun.Spec) { s.Concurrency, s.ConcurrencyKey = jobrun.Forbid, "k" }, jobrun.Request{}, func(r *jobrun.Run) bool { return r.ConcurrencyKey == "k" }},
		"no key where all may run":     {func(s *jobrun.Spec) { s.Concurrency, s.ConcurrencyKey = jobrun.Allow, "k" }, jobrun.Request{}, func(r *jobrun.Run) bool { return r.ConcurrencyKey == "" && r.AdmittedAt != nil }},
		"no key when it is immediate":  {func(s *jobrun.Spec) { s.Concurrency = jobrun.Forbid }, jobrun.Request{Immediate: true}, func(r *jobrun.Run) bool { return r.ConcurrencyKey == "" && r.AdmittedAt != nil }},
		"the policy that is asked for": {func(s *jobrun.Spec) { s.Concurrency = jobrun.Forbid }, jobrun.Request{Policy: jobrun.Replace}, func(r *jobrun.Run) bool { return r.Concurrency == jobrun.Replace }},
		"not forbidden":                {func(s *jobrun.Spec) { s.Concurrency = jobrun.Forbid }, jobrun.Request{NotForbidden: true}, func(r *jobrun.Run) bool { return r.Concurrency == jobrun.Queue }},
		"the losses of its definition": {func(s *jobrun.Spec) { s.MaxLosses = 2 }, jobrun.Request{}, func(r *jobrun.Run) bool { return r.MaxLosses == 2 }},
		"the root of its chain":        {nil, jobrun.Request{RootRunID: uuid.UUID{9}}, func(r *jobrun.Run) bool { return r.RootRunID == uuid.UUID{9} }},
	} {
		if r := jobrun.New(nightly(tt.spec), tt.ask, settings, moment()); !tt.is(&r) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestKeysTellApartWhatIsNotTheSame(t *testing.T) {
	t.Parallel()
	a, b := uuid.UUID{1}, uuid.UUID{2}
	keys := []string{
		jobrun.TimeKey(a, noon), jobrun.TimeKey(b, noon), jobrun.TimeKey(a, noon.Add(time.Nanosecond)), jobrun.EventKey(a, b),
		jobrun.EventKey(b, a),
		jobrun.ManualKey("a"), jobrun.BackfillKey(a, noon), jobrun.BackfillKey(b, noon), jobrun.RetryKey(a, 1),
		jobrun.RetryKey(a, 2), jobrun.FollowKey(a, "0"),
		jobrun.FollowKey(a, "1"), jobrun.LetterKey(a, 1), jobrun.LetterKey(b, 1), jobrun.BulkKey(a, b), jobrun.BulkKey(b, a),
		jobrun.SagaKey(uuid.Nil, a, 0, "EXECUTE", 1), jobrun.SagaKey(uuid.Nil, a, 0, "COMPENSATE", 1),
		jobrun.SagaKey(uuid.Nil, a, 1, "EXECUTE", 1),
		jobrun.SagaKey(uuid.Nil, a, 0, "EXECUTE", 2), jobrun.SagaKey(b, a, 0, "EXECUTE", 1),
	}
	seen := map[string]bool{}
	for _, k := range keys {
		if seen[k] || len(k) > 400 {
			t.Errorf("key %q", k)
		}
		seen[k] = true
	}
	if in := time.FixedZone("elsewhere", 3600); jobrun.TimeKey(a, noon) != jobrun.TimeKey(a, noon.In(in)) {
		t.Error("the key of a slot depends on the zone in which it is told")
	}
}

func TestARerunIsAskedForWithWhatItsRunHad(t *testing.T) {
	t.Parallel()
	r := underWay()
	r.Labels = []string{"team=a", "x="}
	ask := jobrun.RerunRequest(&r)
	if diff := cmp.Diff(map[string]string{"team": "a", "x": ""}, ask.Labels); diff != "" {
		t.Error(diff)
	}
	n := jobrun.New(nightly(nil), ask, settings, moment())
	want := n
	want.Trigger, want.Args, want.Priority, want.RootRunID, want.RetryOfRunID = jobrun.ByHand, r.Args, r.Priority,
		r.RootRunID, r.ID
	want.RetryNumber, want.FailuresUsed, want.LossesUsed = r.RetryNumber+1, 0, 0
	want.ScheduledFor, want.AvailableAt, want.AdmittedAt = r.ScheduledFor, noon, &noon // for its slot, but due now
	want.CorrelationID, want.TraceID = "c", "t"
	if diff := cmp.Diff(want, n); diff != "" {
		t.Errorf("the run (-want +got):\n%s", diff)
	}
}
