package jobrun_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// point is one kind of run that can exist.
type point struct {
	state    jobrun.State
	doubted  bool // CONFIRMING
	asked    bool // a cancel was requested
	late     bool // all of its deadlines have passed
	spent    bool // the loss budget is exhausted
	admitted bool
	retried  bool // a failure is retried
	letter   bool // it retries a dead letter
}

// points returns every kind of run that can exist, as far as decisions distinguish them.
func points() (all []point) {
	yesNo := []bool{false, true}
	for _, state := range jobrun.States {
		for _, doubted := range yesNo[:yes(state == jobrun.Running)] {
			for _, asked := range yesNo[:yes(state != jobrun.Pending && state != jobrun.Assigned)] {
				for _, late := range yesNo {
					for _, spent := range yesNo {
						for _, admitted := range yesNo {
							for _, retried := range yesNo {
								for _, letter := range yesNo {
									all = append(all, point{state, doubted, asked, late, spent, admitted, retried, letter})
								}
							}
						}
					}
				}
			}
		}
	}
	return all
}

func yes(both bool) int {
	if both {
		return 2
	}
	return 1
}

var settings = jobrun.NewSettings(1, nil)

// run returns the run of a point at noon.
func (p point) run() jobrun.Run {
	when := noon.Add(time.Second)
	if p.late {
		when = noon.Add(-time.Hour)
	}
	r := jobrun.Run{
		ID: uuid.UUID{1}, TenantID: uuid.UUID{2}, DefinitionID: uuid.UUID{3}, DefinitionName: "nightly",
		RootRunID: uuid.UUID{1},
		State:     p.state, Version: 7, Trigger: jobrun.ByTime, Queue: "default", AvailableAt: when, MaxLosses: 5,
		Continuation: jobrun.NoDoubt,
	}
	if p.state != jobrun.Pending && p.state != jobrun.Skipped {
		r.Attempt, r.WorkerID, r.LeaseToken, r.LeaderEpoch = 2, uuid.UUID{4}, uuid.UUID{5}, 6
		r.AssignedAt, r.LeaseExpiresAt, r.TimeoutMS = new(noon.Add(-2*time.Hour)), &when, 1000
	}
	if p.state == jobrun.Running {
		r.StartedAt = &when
	}
	if p.doubted {
		r.Continuation, r.ConfirmStartedAt, r.ConfirmDeadlineAt = jobrun.Confirming, new(noon.Add(-time.Minute)), &when
	}
	if p.asked {
		r.CancelRequestedAt, r.CancelReason = &when, "enough"
	}
	if p.spent {
		r.LossesUsed = 5
	}
	if p.admitted {
		r.AdmittedAt = &when
	}
	if p.letter {
		r.LetterID = uuid.UUID{8}
	}
	if p.state.Terminal() {
		r.FinishedAt = &when
	}
	return r
}

func (p point) spec() *jobrun.Spec {
	if p.retried {
		return spec(5)
	}
	return spec(1)
}

// inputs lists everything that can happen to a run, with its results.
var inputs = []struct {
	name string
	in   jobrun.Event
	// to is the state in which the input leaves a run of a point. The run's own state means that
	// nothing changes, or that no state changes; "" means that the input is refused.
	to func(p point) jobrun.State
}{
	{"success", succeeded, running(jobrun.Succeeded)},
	{"failure", failed(true), running(jobrun.Failed)},
	{"failure for good", failed(false), running(jobrun.Failed)},
	{"timeout", timedOut(true), running(jobrun.TimedOut)},
	{"release", jobrun.Released{Reason: "stopping"}, func(p point) jobrun.State {
		switch {
		case p.state == jobrun.Running && p.asked:
			return jobrun.Canceled
		case p.state == jobrun.Running, p.state == jobrun.Assigned:
			return jobrun.Orphaned
		}
		return ""
	}},
	{"acknowledged", jobrun.CancelAcknowledged{}, running(jobrun.Canceled)},
	{"cancel", jobrun.CancelRequested{Actor: "ann"}, active(func(p point) jobrun.State {
		if p.state == jobrun.Running {
			return jobrun.Running
		}
		return jobrun.Canceled
	})},
	{"cancel what waits", jobrun.CancelRequested{Actor: "ann", Waiting: true}, active(func(p point) jobrun.State {
		if p.state == jobrun.Running {
			return jobrun.Running
		}
		return jobrun.Canceled
	})},
	{"cancel by force", jobrun.CancelRequested{Actor: "ann", Force: true}, active(func(point) jobrun.State { return jobrun.Canceled })},
	{"reassign", jobrun.ReassignRequested{Actor: "ann"}, reassigned(false)},
	{"reassign by force", jobrun.ReassignRequested{Actor: "ann", Force: true}, reassigned(true)},
	{"skip", jobrun.Decided{Step: jobrun.StepSkip, Reason: "forbidden"}, func(p point) jobrun.State {
		if p.state == jobrun.Pending || p.state == jobrun.Assigned {
			return jobrun.Skipped
		}
		return ""
	}},
	{"withdraw", jobrun.Withdrawn{Actor: "ann", Reason: "moved"}, func(p point) jobrun.State {
		if p.state == jobrun.Pending {
			return jobrun.Skipped
		}
		return ""
	}},
	{"replace", jobrun.Decided{Step: jobrun.StepCancel, Reason: "replaced"}, func(p point) jobrun.State {
		if p.state.Terminal() || p.state == jobrun.Running {
			return ""
		}
		return jobrun.Canceled
	}},
	{"ask to stop", jobrun.Decided{Step: jobrun.StepAskCancel, Reason: "replaced"}, running(jobrun.Running)},
	{"admit", jobrun.Decided{Step: jobrun.StepAdmit}, func(point) jobrun.State { return "" }}, // decided for many runs
	{"lease", jobrun.LeaseExpired{Settings: settings}, func(p point) jobrun.State {
		if p.late && (p.state == jobrun.Assigned || p.state == jobrun.Running && p.doubted) {
			return jobrun.Orphaned
		}
		return p.state
	}},
	{"detached", jobrun.Detached{Settings: settings, Actor: "ann"}, func(p point) jobrun.State { return p.state }},
	{"losses", jobrun.LossesExhausted{}, func(p point) jobrun.State {
		if p.state == jobrun.Orphaned && p.spent && !p.asked {
			return jobrun.Failed
		}
		return p.state
	}},
	{"overdue", jobrun.TimeoutPassed{Settings: settings}, func(p point) jobrun.State {
		if p.state == jobrun.Running && p.late {
			return jobrun.TimedOut
		}
		return p.state
	}},
	{"not stopped", jobrun.CancelExpired{Settings: settings}, func(p point) jobrun.State {
		if p.asked && (p.state == jobrun.Running && p.late || p.state == jobrun.Orphaned) {
			return jobrun.Canceled
		}
		return p.state
	}},
}

// running is for inputs that can happen only to RUNNING runs.
func running(to jobrun.State) func(point) jobrun.State {
	return func(p point) jobrun.State {
		if p.state == jobrun.Running {
			return to
		}
		return ""
	}
}

// active is for inputs that can happen to every run that has not ended.
func active(to func(point) jobrun.State) func(point) jobrun.State {
	return func(p point) jobrun.State {
		if p.state.Terminal() {
			return ""
		}
		return to(p)
	}
}

func reassigned(force bool) func(point) jobrun.State {
	return func(p point) jobrun.State {
		switch {
		case p.state != jobrun.Assigned && p.state != jobrun.Orphaned && (p.state != jobrun.Running || !force):
			return ""
		case p.asked:
			return jobrun.Canceled
		}
		return jobrun.Orphaned
	}
}

func TestEveryInputOnEveryRunFollowsTheTableOrIsAConflict(t *testing.T) {
	for _, p := range points() {
		r, twin := p.run(), p.run()
		if why := inconsistent(&r); why != "" {
			t.Fatalf("%+v: cannot exist: %s", p, why)
		}
		for _, i := range inputs {
			m := moment()
			m.Epoch = 9
			c, err := jobrun.Apply(jobrun.Instance{Run: r, Spec: p.spec()}, i.in, m)
			want := i.to(p)
			if (err != nil) != (want == "") {
				t.Fatalf("%+v, %s: error %v, want it %q", p, i.name, err, want)
			}
			if err != nil {
				f := fault.As(err)
				if f == nil || f.Kind != fault.Conflict || f.Code != jobrun.CodeConflict || !slices.Equal(f.Allowed, r.Actions()) {
					t.Fatalf("%+v, %s: %#v is not a conflict that says what is allowed", p, i.name, err)
				}
				if c.Changes() || !reflect.DeepEqual(c.After, r) {
					t.Fatalf("%+v, %s: what is refused changes something: %+v", p, i.name, c)
				}
				continue
			}
			if c.After.State != want {
				t.Fatalf("%+v, %s: leads to %s, want %s", p, i.name, c.After.State, want)
			}
			if why := wrongChange(&r, &c); why != "" {
				t.Fatalf("%+v, %s: %s:\n%+v", p, i.name, why, c)
			}
		}
		if !reflect.DeepEqual(r, twin) {
			t.Fatalf("%+v: Apply changed the run that it was given", p)
		}
	}
}

// inconsistent describes why the database would refuse a run.
func inconsistent(r *jobrun.Run) string {
	held := r.State.Phase() == jobrun.Held
	switch {
	case r.Continuation == jobrun.Confirming && (r.State != jobrun.Running || r.ConfirmDeadlineAt == nil):
		return "in doubt, and not running until a deadline"
	case r.Continuation != jobrun.Confirming && (r.ConfirmStartedAt != nil || r.ConfirmDeadlineAt != nil):
		return "not in doubt, and with a deadline to confirm it"
	case held && (r.WorkerID == uuid.Nil || r.LeaseToken == uuid.Nil || r.LeaseExpiresAt == nil || r.LeaderEpoch == 0 ||
		r.AssignedAt == nil):
		return "with a worker, and without a fence"
	case r.State == jobrun.Running && r.StartedAt == nil:
		return "running, and never started"
	case r.State.Terminal() != (r.FinishedAt != nil):
		return "ended or not, and its end says otherwise"
	}
	return ""
}

// wrongChange describes the error in a change of a run.
func wrongChange(before *jobrun.Run, c *jobrun.Change) string {
	r := &c.After
	switch why := inconsistent(r); {
	case why != "":
		return why
	case c.Before != jobrun.Precondition{State: before.State, Version: before.Version}:
		return "its precondition is another run"
	case !c.Changes() && !reflect.DeepEqual(*before, *r):
		return "it changes the run, and says that it does not"
	case r.Attempt != before.Attempt || r.LeaseToken != before.LeaseToken || r.WorkerID != before.WorkerID:
		return "the fence is another one"
	case r.Version < before.Version || r.Version > before.Version+1 || r.State != before.State &&
		r.Version == before.Version:
		return fmt.Sprintf("the version goes from %d to %d", before.Version, r.Version)
	case c.Changes() && !r.UpdatedAt.Equal(noon):
		return "it does not say when it changed"
	case (c.Attempt != nil) != (r.State == jobrun.Orphaned && before.State != jobrun.Orphaned):
		return "an attempt ends without its run, or the other way round"
	case r.State.Terminal() && !before.State.Terminal() && c.Final == (c.Retry != nil):
		return "its end is final and is retried, or neither"
	case !r.State.Terminal() && (c.Final || c.Retry != nil || c.LetterUpdate != nil):
		return "something follows from the end of a run that has not ended"
	case c.Final && (c.LetterUpdate != nil) != (r.LetterID != uuid.Nil):
		return "its dead letter hears nothing"
	}
	for i := range c.Events {
		e := &c.Events[i]
		switch moved := e.From != e.To; {
		case e.Kind == "" || !e.At.Equal(noon) || e.Version != r.Version || e.Attempt != r.Attempt:
			return fmt.Sprintf("it is told as %+v", *e)
		case moved && (e.From != before.State || e.To != r.State):
			return fmt.Sprintf("another move is told: %+v", *e)
		case moved &&
			!slices.ContainsFunc(jobrun.Edges, func(d jobrun.Edge) bool { return d.From == e.From && d.To == e.To }):
			return fmt.Sprintf("%s → %s is not in the table", e.From, e.To)
		}
	}
	if before.State != r.State && (len(c.Events) == 0 || c.Events[0].To != r.State) {
		return "the move is not told"
	}
	return ""
}

func TestTheActionsOfAnOperatorAreExactlyWhatIsAccepted(t *testing.T) {
	for _, p := range points() {
		r := p.run()
		for name, in := range map[string]jobrun.Event{
			"cancel": jobrun.CancelRequested{Force: true}, "reassign": jobrun.ReassignRequested{Force: true},
		} {
			if _, err := decide(r, p.spec(), in); slices.Contains(r.Actions(), name) != (err == nil) {
				t.Errorf("%+v: %s is among %v, and Apply says %v", p, name, r.Actions(), err)
			}
		}
		if slices.Contains(r.Actions(), "rerun") != r.State.Terminal() {
			t.Errorf("%+v: %v", p, r.Actions())
		}
	}
}

// untaken lists the transitions that the database allows and that nothing makes.
var untaken = map[[2]jobrun.State]bool{{jobrun.Orphaned, jobrun.TimedOut}: true}

// TestEveryEdgeIsTaken removes each mover of each edge from the table, one at a time. Then some
// input must have a different result, or some statement that moves many runs at once must skip runs
// that it moved before.
func TestEveryEdgeIsTaken(t *testing.T) {
	whole := jobrun.Edges
	defer func() { jobrun.Edges = whole }()
	before := outcomes()
	for i, e := range whole {
		for _, by := range e.By {
			jobrun.Edges = slices.Clone(whole)
			jobrun.Edges[i].By = slices.DeleteFunc(slices.Clone(e.By), func(m jobrun.Mover) bool { return m == by })
			if taken := !slices.Equal(before, outcomes()); taken == untaken[[2]jobrun.State{e.From, e.To}] {
				t.Errorf("%s → %s by %s: taken is %v", e.From, e.To, by, taken)
			}
		}
	}
}

// outcomes returns the results of all steps.
func outcomes() (all []string) {
	for _, p := range points() {
		for _, i := range inputs {
			c, err := decide(p.run(), p.spec(), i.in)
			all = append(all, fmt.Sprint(c.After.State, c.After.Version, err != nil))
		}
	}
	// Statements for claims and starts move all runs that the table allows.
	return append(all, fmt.Sprint(jobrun.From(jobrun.Assigned, jobrun.Worker)),
		fmt.Sprint(jobrun.From(jobrun.Running, jobrun.Worker)))
}

func TestWhatStatementsMoveIsWhatTheTableSays(t *testing.T) {
	for _, tt := range []struct {
		to   jobrun.State
		by   jobrun.Mover
		want []jobrun.State
	}{
		{jobrun.Assigned, jobrun.Worker, []jobrun.State{jobrun.Pending, jobrun.Orphaned}},
		{jobrun.Running, jobrun.Worker, []jobrun.State{jobrun.Assigned}},
		{jobrun.Succeeded, jobrun.Worker, []jobrun.State{jobrun.Running}},
		{jobrun.Orphaned, jobrun.Leader, []jobrun.State{jobrun.Assigned, jobrun.Running}},
		{jobrun.Succeeded, jobrun.Leader, nil},
		{jobrun.Assigned, jobrun.Operator, nil},
		{jobrun.Pending, jobrun.Leader, nil},
	} {
		if got := jobrun.From(tt.to, tt.by); !slices.Equal(got, tt.want) {
			t.Errorf("to %s by %s: %v, want %v", tt.to, tt.by, got, tt.want)
		}
	}
	if got, want := jobrun.Phases(jobrun.ActiveStates), []jobrun.Phase{"PENDING", jobrun.Held,
		"ORPHANED"}; !slices.Equal(got, want) {
		t.Errorf("the phases of what has not ended are %v, want %v", got, want)
	}
}
