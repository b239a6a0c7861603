package saga

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/retry"
)

// found is a saga that has a value for every member of a filter.
func found() Saga {
	ended, clean := noon.Add(time.Hour), false
	return Saga{
		WorkflowName: "order", WorkflowVersion: 3, State: Compensated, Clean: &clean, InitiatedBy: "ann",
		CorrelationID: new("c"), TraceID: new("t"), BusinessKey: new("b"), NeedsAttention: true,
		Metadata:  json.RawMessage(`{"a":{"b":[1,{"c":2}]},"d":"x"}`),
		CreatedAt: noon, UpdatedAt: noon.Add(time.Minute), CompletedAt: &ended, Error: &Error{Code: "E"},
	}
}

// Each member of a filter restricts the list independently; from is inclusive, to is exclusive.
func TestEachMemberOfAFilterRestricts(t *testing.T) {
	t.Parallel()
	s := found()
	second := noon.Add(time.Second)
	for name, tt := range map[string]struct{ takes, leaves Filter }{
		"workflow":     {Filter{WorkflowName: "order"}, Filter{WorkflowName: "orders"}},
		"version":      {Filter{WorkflowVersion: 3}, Filter{WorkflowVersion: 2}},
		"state":        {Filter{States: []State{Failed, Compensated}}, Filter{States: []State{Failed}}},
		"no state":     {Filter{}, Filter{States: []State{}}},
		"lifecycle":    {Filter{Lifecycles: []string{"failed"}}, Filter{Lifecycles: []string{"completed"}}},
		"correlation":  {Filter{CorrelationID: "c"}, Filter{CorrelationID: "C"}},
		"starter":      {Filter{InitiatedBy: "ann"}, Filter{InitiatedBy: "bob"}},
		"trace":        {Filter{TraceID: "t"}, Filter{TraceID: "u"}},
		"business key": {Filter{BusinessKey: "b"}, Filter{BusinessKey: "B"}},
		"attention":    {Filter{NeedsAttention: new(true)}, Filter{NeedsAttention: new(false)}},
		"created from": {Filter{CreatedFrom: noon}, Filter{CreatedFrom: second}},
		"created to":   {Filter{CreatedTo: second}, Filter{CreatedTo: noon}},
		"updated from": {Filter{UpdatedFrom: s.UpdatedAt}, Filter{UpdatedFrom: s.UpdatedAt.Add(1)}},
		"updated to":   {Filter{UpdatedTo: s.UpdatedAt.Add(1)}, Filter{UpdatedTo: s.UpdatedAt}},
		"ended from":   {Filter{EndedFrom: *s.CompletedAt}, Filter{EndedFrom: s.CompletedAt.Add(1)}},
		"ended to":     {Filter{EndedTo: s.CompletedAt.Add(1)}, Filter{EndedTo: *s.CompletedAt}},
		"error":        {Filter{ErrorCode: "E"}, Filter{ErrorCode: "F"}},
		"a member":     {Filter{Metadata: []byte(`{"d":"x"}`)}, Filter{Metadata: []byte(`{"d":"y"}`)}},
		"inner members": {
			Filter{Metadata: []byte(`{"a":{"b":[{"c":2}]}}`)}, Filter{Metadata: []byte(`{"a":{"b":[{"c":3}]}}`)},
		},
		"an array":       {Filter{Metadata: []byte(`{"a":{"b":[1]}}`)}, Filter{Metadata: []byte(`{"a":{"b":1}}`)}},
		"an object":      {Filter{Metadata: []byte(`{"a":{}}`)}, Filter{Metadata: []byte(`{"d":{}}`)}},
		"missing member": {Filter{Metadata: []byte(`{}`)}, Filter{Metadata: []byte(`{"e":null}`)}},
	} {
		if !tt.takes.Matches(&s) {
			t.Errorf("%s: %+v leaves the saga out", name, tt.takes)
		}
		if tt.leaves.Matches(&s) {
			t.Errorf("%s: %+v takes the saga", name, tt.leaves)
		}
	}
}

// A filter on a member does not match a saga that lacks a value for it.
func TestAFilterLeavesOutWhatHasNoSuchMember(t *testing.T) {
	t.Parallel()
	bare := Saga{State: Completed, CreatedAt: noon, UpdatedAt: noon, Error: &Error{Code: "E"}}
	for name, f := range map[string]Filter{
		"correlation": {CorrelationID: "c"}, "trace": {TraceID: "t"}, "business key": {BusinessKey: "b"},
		"metadata": {Metadata: []byte(`{}`)}, "ended from": {EndedFrom: noon}, "ended to": {EndedTo: noon.Add(time.Hour)},
		"error of a completed one": {ErrorCode: "E"},
	} {
		if f.Matches(&bare) {
			t.Errorf("%s: %+v takes a saga without it", name, f)
		}
	}
}

func TestTroubleIsWhereASagaTurnedBackAndWhatGaveUp(t *testing.T) {
	t.Parallel()
	at := func(state State, step int) Instance {
		r := started("uuu")
		r.State, r.CurrentStep, r.UpdatedAt = state, step, noon.Add(time.Minute)
		return r
	}
	ended := func(turnedAt, step int, a Action) Trouble {
		return Trouble{TurnedAt: turnedAt, Step: started("uuu").Def.Steps[step].Name, Action: a}
	}
	for what, tt := range map[string]struct {
		had           Trouble
		before, after Instance
		want          Trouble
	}{
		"it turns back":        {Trouble{}, at(Running, 2), at(Compensating, 1), Trouble{TurnedAt: 2}},
		"all is undone":        {Trouble{TurnedAt: 2}, at(Compensating, 0), at(Compensated, 0), ended(2, 2, Execute)},
		"an undo gives up":     {Trouble{TurnedAt: 2}, at(Compensating, 1), at(Failed, 1), ended(2, 1, Compensate)},
		"it is forced to fail": {Trouble{}, at(Running, 1), at(Failed, 1), ended(1, 1, Execute)},
		"it goes on":           {ended(2, 1, Compensate), at(Failed, 1), at(Compensating, 1), Trouble{TurnedAt: 2}},
		"it completes":         {Trouble{}, at(Running, 2), at(Completed, 3), Trouble{TurnedAt: 2}},
		"nothing happens":      {Trouble{TurnedAt: 1}, at(Compensating, 1), at(Compensating, 0), Trouble{TurnedAt: 1}},
		"it turned after the last": {
			Trouble{TurnedAt: 3}, at(Compensating, 0), at(Compensated, 0), Trouble{TurnedAt: 3, Action: Execute},
		},
	} {
		if got := tt.had.After(&tt.before.Saga, &tt.after); got != tt.want {
			t.Errorf("%s: %+v, want %+v", what, got, tt.want)
		}
	}
	calm, alarmed := at(Running, 1), at(Running, 1)
	alarmed.NeedsAttention = true
	since := Trouble{}.After(&calm.Saga, &alarmed)
	if !since.Since.Equal(alarmed.UpdatedAt) {
		t.Errorf("it needs attention since %s, want %s", since.Since, alarmed.UpdatedAt)
	}
	later := alarmed
	later.UpdatedAt = noon.Add(time.Hour)
	if got := since.After(&alarmed.Saga, &later); got != since {
		t.Errorf("it still needs attention, now %+v, want %+v", got, since)
	}
	if got := since.After(&alarmed.Saga, &calm); !got.Since.IsZero() {
		t.Errorf("it needs no attention, and says since %s", got.Since)
	}
}

func TestSagasAreFoundByTheirTrouble(t *testing.T) {
	t.Parallel()
	alarm := Trouble{Step: "pay", Since: noon}
	ended, under := Saga{State: Failed, NeedsAttention: true}, Saga{State: Running}
	for name, tt := range map[string]struct {
		f    Filter
		s    *Saga
		want bool
	}{
		"the step of one that has ended":    {Filter{Step: "pay"}, &ended, true},
		"not the one at which it stands":    {Filter{Step: "ship"}, &ended, false},
		"the current step of an active one": {Filter{Step: "ship"}, &under, true},
		"since then":                        {Filter{AttentionFrom: noon}, &ended, true},
		"until then":                        {Filter{AttentionTo: noon}, &ended, false},
		"one that needs no attention":       {Filter{AttentionFrom: noon}, &under, false},
	} {
		if got := tt.f.Fits(tt.s, alarm, "ship"); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

// The worker's report is definite, unless an attempt may have had effects that it did not report.
func TestTheEndOfAJobRunIsTheOutcomeOfItsStep(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		end     RunEnd
		verdict Verdict
		class   retry.Class
		code    string
	}{
		{RunEnd{State: "SUCCEEDED", Result: json.RawMessage(`1`)}, Done, "", ""},
		{RunEnd{State: "FAILED"}, Refused, retry.Refused, "job_failed"},
		{RunEnd{State: "FAILED", Doubted: true}, Unknown, retry.Network, "job_failed"},
		{RunEnd{State: "TIMED_OUT"}, Refused, retry.Timeout, "job_timed_out"},
		{RunEnd{State: "TIMED_OUT", Doubted: true}, Unknown, retry.Timeout, "job_timed_out"},
		{RunEnd{State: "CANCELED"}, Refused, retry.Refused, "job_canceled"},
		{RunEnd{State: "SUCCEEDED", Doubted: true}, Done, "", ""},
	} {
		tt.end.At = noon
		o := OutcomeOfRun(tt.end)
		if o.Verdict != tt.verdict || o.Class != tt.class || o.Code != tt.code || !o.EndedAt.Equal(noon) ||
			o.Last != (tt.verdict != Done) || string(o.Output) != string(tt.end.Result) {
			t.Errorf("%+v: %+v", tt.end, o)
		}
	}
}
