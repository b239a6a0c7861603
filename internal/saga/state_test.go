package saga

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// vocabulary repeats requirements/saga.md 5.3 independently of the code.
var vocabulary = []struct {
	state             State
	name              string
	status            Status
	clean, unclean    string
	terminal, forward bool
}{
	{state: 0, name: "pending", status: "STARTED", clean: "active", unclean: "active", forward: true},
	{state: 1, name: "running", status: "RUNNING", clean: "active", unclean: "active", forward: true},
	{state: 2, name: "step_completed", status: "RUNNING", clean: "active", unclean: "active", forward: true},
	{state: 3, name: "completed", status: "COMPLETED", clean: "completed", unclean: "completed", terminal: true},
	{state: 4, name: "compensating", status: "COMPENSATING", clean: "compensating", unclean: "compensating"},
	{state: 5, name: "compensated", status: "FAILED", clean: "completed", unclean: "failed", terminal: true},
	{state: 6, name: "failed", status: "FAILED", clean: "failed", unclean: "failed", terminal: true},
	{state: 7, name: "cancelled", status: "CANCELLED", clean: "completed", unclean: "failed", terminal: true},
	{state: 8, name: "timed_out", status: "FAILED", clean: "completed", unclean: "failed", terminal: true},
}

func TestVocabulary(t *testing.T) {
	if len(vocabulary) != len(States) {
		t.Fatalf("%d states, want %d", len(States), len(vocabulary))
	}
	for i, v := range vocabulary {
		s := States[i]
		got := v
		got.state, got.name, got.status, got.terminal, got.forward = s, s.String(), s.Status(), s.Terminal(), s.Forward()
		if got != v {
			t.Errorf("state %d: %+v; want %+v", i, got, v)
		}
		if c, u := s.Lifecycle(true), s.Lifecycle(false); c != v.clean || u != v.unclean {
			t.Errorf("%s: lifecycle %s when clean, %s when not; want %s, %s", s, c, u, v.clean, v.unclean)
		}
		if got, ok := ParseState(v.name); !ok || got != s {
			t.Errorf("ParseState(%q) = %v, %v", v.name, got, ok)
		}
		if !slices.Contains(StatesOf(s.Status()), s) {
			t.Errorf("%s is not among the states of %s", s, s.Status())
		}
	}
	for _, name := range []string{"", "Pending", "RUNNING", "9", "pending "} {
		if s, ok := ParseState(name); ok {
			t.Errorf("ParseState(%q) = %v", name, s)
		}
	}
}

func TestStatesBehindAStatus(t *testing.T) {
	want := map[Status][]State{
		StatusStarted: {Pending}, StatusRunning: {Running, StepCompleted}, StatusCompleted: {Completed},
		StatusCompensating: {Compensating}, StatusFailed: {Compensated, Failed, TimedOut}, StatusCancelled: {Cancelled},
	}
	got := map[Status][]State{}
	for _, s := range Statuses {
		got[s] = StatesOf(s)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := StatesOf("started"); got != nil {
		t.Errorf("an unknown status has the states %v", got)
	}
}

// TestTheTable compares Edges with the rows of requirements/saga.md 5.4, plus two more edges: an
// operator's order to compensate before anything ran, and the return to executing when a retry
// starts from an earlier step (docs/decisions/0023).
func TestTheTable(t *testing.T) {
	want := map[State][]State{
		Pending:       {Running, Compensated, Cancelled, TimedOut},
		Running:       {StepCompleted, Completed, Compensating, Failed},
		StepCompleted: {Running, Completed, Compensating, Failed},
		Compensating:  {Running, Compensated, Failed, Cancelled, TimedOut},
		Failed:        {Running, Compensating},
	}
	got := map[State][]State{}
	for _, e := range Edges {
		if slices.Contains(got[e.From], e.To) {
			t.Errorf("two edges lead from %s to %s", e.From, e.To)
		}
		if e.On == "" {
			t.Errorf("nothing leads from %s to %s", e.From, e.To)
		}
		got[e.From] = append(got[e.From], e.To)
	}
	for _, to := range got {
		slices.Sort(to)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReachable(t *testing.T) {
	for _, from := range States {
		ends := 0
		for _, to := range States {
			if to.Terminal() && Reachable(from, to) {
				ends++
			}
		}
		if !from.Terminal() && ends == 0 {
			t.Errorf("nothing ends a saga that is %s", from)
		}
		if from.Terminal() && from != Failed &&
			slices.ContainsFunc(States, func(to State) bool { return Reachable(from, to) }) {
			t.Errorf("%s is left", from)
		}
		if from != Pending && Reachable(from, Pending) {
			t.Errorf("%s leads back to the beginning", from)
		}
	}
	for _, tt := range []struct {
		from, to State
		want     bool
	}{
		{Pending, Completed, true},    // through running
		{Pending, Failed, true},       // through compensating
		{Failed, Cancelled, true},     // through compensating
		{Running, Running, true},      // through step_completed
		{Pending, Pending, false},     // a guard must allow a state to stay the same; Reachable does not
		{Completed, Failed, false},    //
		{Compensating, Running, true}, // a retry
		{Failed, Completed, true},     // through running
		{Failed, Pending, false},
		{Compensated, Compensating, false},
	} {
		if got := Reachable(tt.from, tt.to); got != tt.want {
			t.Errorf("Reachable(%s, %s) = %v, want %v", tt.from, tt.to, got, tt.want)
		}
	}
}

func TestCausesAndTheirEnds(t *testing.T) {
	want := map[Cause]State{
		CauseStepFailed: Compensated,
		CauseOperator:   Compensated,
		CauseCancelled:  Cancelled,
		CauseDeadline:   TimedOut,
	}
	got := map[Cause]State{}
	for _, c := range Causes {
		got[c] = c.End()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
