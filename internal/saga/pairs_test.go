package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/retry"
)

// answers is the number of events that are answers; they come first in the list.
const answers = 9

// events lists everything that can happen, with one Answered for each kind of answer.
func events() []Event {
	answer := func(v Verdict, c retry.Class) Event {
		return Answered{
			Outcome{Verdict: v, Class: c, Code: "code", Message: "message", StartedAt: noon, EndedAt: noon.Add(time.Second)},
		}
	}
	done := answer(Done, "").(Answered)
	done.Output = json.RawMessage(`{"o":1}`)
	return []Event{
		done, answer(Done, ""), answer(Refused, retry.Refused), answer(Refused, retry.ServerError),
		answer(Unknown, retry.Timeout), answer(Unknown, retry.ServerError), answer(Unknown, retry.BadResponse),
		answer(NotApplied, retry.Network), answer(NotApplied, retry.Unavailable),
		Turned{}, Slow{StartedAt: noon}, CancelRequested{By: "user", Reason: "mind changed"}, CompensateRequested{By: "op"},
		DeadlinePassed{}, ResumeRequested{By: "op"}, nil,
		RetryRequested{
			By: "op",
		}, RetryRequested{FromStep: new(0)}, RetryRequested{Patch: json.RawMessage(`{"a":null,"c":3}`)},
		StepOrdered{
			Order: Order{Verb: SkipStep},
		}, StepOrdered{Order: Order{Verb: CompleteStep, Output: json.RawMessage(`{"o":2}`)}},
		StepOrdered{
			Order: Order{Verb: FailStep},
		}, StepOrdered{Order: Order{Verb: UndoneStep, By: "op", Reason: "by hand"}}, StepOrdered{Step: 17,
			Order: Order{Verb: SkipStep}},
		SuspendRequested{By: "op"}, UnsuspendRequested{}, UnsuspendRequested{KeepDeadline: true}, DeadlineSet{TimeoutMS: 5},
		CompletionForced{}, CompletionForced{Result: json.RawMessage(`7`)}, FailureForced{Reason: "enough"}, Acknowledged{},
		Neglected{"no_progress"},
	}
}

// aimed directs an order at the current step, unless the order is about a step that does not exist.
func (p point) aimed(e Event) Event {
	if o, is := e.(StepOrdered); is && o.Step == 0 {
		o.Step = p.step
		return o
	}
	return e
}

// accepted states independently of the rules which events are accepted at which point.
func accepted(p point, e Event) bool {
	over, forward, flagged := p.state.Terminal(), p.state.Forward(), p.cause != ""
	switch e.(type) {
	case Answered:
		return !over && p.attempt > 0
	case Slow:
		return !over && p.attempt > 0 && !p.recorded
	case Turned:
		return !p.recorded && (forward && flagged || p.state == Compensating && p.expired || p.mark == ordered)
	case CancelRequested, CompensateRequested:
		return forward && !flagged
	case DeadlinePassed:
		return forward && !flagged || p.state == Compensating && !p.expired
	case ResumeRequested:
		return p.state == Failed
	}
	return acceptedOfOperators(p, e)
}

func acceptedOfOperators(p point, e Event) bool {
	over, forward := p.state.Terminal(), p.state.Forward()
	inPhase := forward && p.cause == "" || p.state == Compensating && !p.expired
	switch e := e.(type) {
	case RetryRequested:
		waits := inPhase && p.attempt > 1 && p.waiting && p.mark != ordered
		switch {
		case p.state == Failed && e.Patch != nil:
			return p.mark == halted && !p.uncertain || p.mark == refused && p.cause == CauseStepFailed
		case p.state == Failed:
			return p.mark == halted || p.mark == refused && p.cause == CauseStepFailed
		case e.Patch != nil:
			return waits && forward && !p.owned && !p.uncertain
		case e.FromStep != nil:
			return waits && forward && p.step == 0
		}
		return waits
	case StepOrdered:
		if e.Step != p.step || e.Verb == UndoneStep && p.state != Failed {
			return false
		}
		return inPhase && p.attempt > 0 && p.mark != ordered || p.state == Failed && p.mark != halted && e.Verb != FailStep
	case SuspendRequested:
		return !over && !p.suspended
	case UnsuspendRequested:
		return !over && p.suspended
	case DeadlineSet:
		return inPhase
	case CompletionForced:
		return forward && p.cause == "" && p.attempt > 0
	case FailureForced:
		return !over && p.attempt > 0
	case Acknowledged:
		return p.state == Failed || p.mark == neglected
	case Neglected:
		return !over && p.mark != neglected
	}
	return false
}

// drivers reports whether only a saga's owner applies e.
func drivers(e Event) bool {
	switch e.(type) {
	case Answered, Slow, Turned:
		return true
	}
	return false
}

// mayFollow lists the states to which an event may lead from a run in one commit.
func mayFollow(p point, e Event) []State {
	undone := []State{Compensated, Cancelled, TimedOut}
	if p.mark == restarts {
		undone = append(undone, Running)
	}
	undoing := append(slices.Clone(undone), Compensating, Failed)
	answered := append(slices.Clone(undone), Running, Completed, Compensating)
	switch e.(type) {
	case RetryRequested:
		if p.state == Failed {
			return []State{Running, Compensating}
		}
		return []State{p.state}
	case StepOrdered:
		switch {
		case p.state == Failed, p.state == Compensating && !p.owned:
			return undoing
		case p.owned:
			return []State{p.state} // left to its driver
		}
		return answered
	case SuspendRequested, UnsuspendRequested, DeadlineSet, Acknowledged, Neglected:
		return []State{p.state}
	case CompletionForced:
		return []State{Completed}
	case FailureForced:
		return []State{Failed}
	case ResumeRequested:
		if p.mark == halted {
			return append(undone, Compensating)
		}
		return []State{Compensating}
	}
	_, turned := e.(Turned)
	switch neverSent := p.state == Pending && !p.uncertain; {
	case p.state == Compensating && turned && p.expired:
		return []State{Failed}
	case p.state == Compensating:
		return undoing
	case turned && p.cause == "":
		return []State{Running, Completed} // skipped, as ordered
	case turned && neverSent:
		return undone
	case turned && p.uncertain && p.pattern[p.step] == 'u':
		return []State{Compensating} // it may have been applied
	case turned:
		return append(undone, Compensating)
	}
	switch e.(type) {
	case Answered:
		return answered
	case Slow:
		return []State{Running}
	}
	if p.state == Pending && p.attempt == 0 && !p.owned {
		return undone // it was never driven
	}
	return []State{p.state} // a flag leaves the state to its driver
}

func TestEveryEventOnEveryRunFollowsTheTableOrIsAConflict(t *testing.T) {
	all := events()
	for _, p := range points() {
		r, twin := p.run(), p.run()
		consistent := inconsistent(&r) == ""
		for _, e := range all {
			e = p.aimed(e)
			c, err := happens(r, e, moments(noon))
			if want := accepted(p, e); want != (err == nil) {
				t.Fatalf("%+v, %#v: error %v, accepted should be %v", p, e, err, want)
			}
			if err != nil {
				f := fault.As(err)
				if f == nil || f.Kind != fault.Conflict || f.Code != CodeStateConflict {
					t.Fatalf("%+v, %#v: %#v is not a conflict", p, e, err)
				}
				if illegal, is := errors.AsType[*IllegalEdgeError](err); is {
					t.Fatalf("%+v, %#v: the rules go where the table does not: %v", p, e, illegal)
				}
				if f.Allowed == nil || !slices.Equal(f.Allowed, r.AllowedActions()) {
					t.Fatalf("%+v, %#v: %#v does not say what is allowed", p, e, err)
				}
				if !reflect.DeepEqual(c, Change{}) {
					t.Fatalf("%+v, %#v: a refused event changes something: %+v", p, e, c)
				}
				continue
			}
			after := &c.After
			if c.Before != (Precondition{7, 3}) || after.Version != 8 || after.LeaseEpoch != 3 || !after.UpdatedAt.Equal(noon) {
				t.Fatalf("%+v, %#v: precondition %+v, version %d, epoch %d", p, e, c.Before, after.Version, after.LeaseEpoch)
			}
			if from, to := p.state, after.State; from != to && !Reachable(from, to) || !slices.Contains(mayFollow(p, e), to) {
				t.Fatalf("%+v, %#v: leads to %s", p, e, to)
			}
			if why := inconsistent(after); consistent && (p.owned || !drivers(e)) && why != "" {
				t.Fatalf("%+v, %#v: leads to a saga that is %s:\n%+v", p, e, why, after.Saga)
			}
			if why := wrongLetter(e, &r, &c); why != "" {
				t.Fatalf("%+v, %#v: %s: %+v", p, e, why, c.Letter)
			}
			if entered := after.State == Compensating && p.state != Compensating; entered && !c.StartsCompensation {
				t.Fatalf("%+v, %#v: compensation begins without its deadline", p, e)
			}
		}
		if !reflect.DeepEqual(r, twin) {
			t.Fatalf("%+v: Apply changed the run it was given:\n%s", p, cmp.Diff(twin, r, cmp.AllowUnexported(Instance{})))
		}
	}
	for pattern, def := range pointDefinitions {
		if diff := cmp.Diff(definition(pattern), def); diff != "" {
			t.Errorf("Apply changed the definition (-before +after):\n%s", diff)
		}
	}
}

func TestTheAllowedActionsAreExactlyWhatApplyAccepts(t *testing.T) {
	verbs := map[Verb]Event{
		Cancel:             CancelRequested{},
		CompensateVerb:     CompensateRequested{},
		ResumeCompensation: ResumeRequested{},
		RetryVerb:          RetryRequested{},
		SkipStepVerb:       StepOrdered{Order: Order{Verb: SkipStep}},
		CompleteStepVerb:   StepOrdered{Order: Order{Verb: CompleteStep}},
		FailStepVerb:       StepOrdered{Order: Order{Verb: FailStep}},
		SuspendVerb:        SuspendRequested{},
		ResumeVerb:         UnsuspendRequested{},
		ExtendDeadline:     DeadlineSet{TimeoutMS: 1},
		ForceComplete:      CompletionForced{},
		ForceFail:          FailureForced{},
		Acknowledge:        Acknowledged{},
	}
	for _, p := range points() {
		r := p.run()
		allowed := r.AllowedActions()
		for verb, e := range verbs {
			_, err := happens(r, p.aimed(e), moments(noon))
			if slices.Contains(allowed, string(verb)) != (err == nil) {
				t.Fatalf("%+v: %s is allowed in %q, Apply says %v", p, verb, allowed, err)
			}
		}
		for _, verb := range allowed {
			if verbs[Verb(verb)] == nil {
				t.Fatalf("%+v: allows %q, which is not a verb", p, verb)
			}
		}
	}
	if len(verbs) != len(Verbs) {
		t.Errorf("%d verbs are tried, there are %d", len(verbs), len(Verbs))
	}
}

// TestEveryEdgeIsTaken removes the edges from the table, one at a time. Some event must then need
// the missing edge; otherwise the edge is never taken.
func TestEveryEdgeIsTaken(t *testing.T) {
	whole := Edges
	defer func() { Edges = whole }()
	all := slices.DeleteFunc(points(), func(p point) bool {
		r := p.run()
		return p.suspended || inconsistent(&r) != ""
	})
	for i, e := range whole {
		Edges = slices.Delete(slices.Clone(whole), i, i+1)
		if !slices.ContainsFunc(all, missesAnEdge) {
			t.Errorf("no event ever takes %s → %s (%s)", e.From, e.To, e.On)
		}
	}
}

func missesAnEdge(p point) bool {
	r := p.run()
	return slices.ContainsFunc(events(), func(e Event) bool {
		_, err := happens(r, p.aimed(e), moments(noon))
		_, illegal := errors.AsType[*IllegalEdgeError](err)
		if illegal && fault.KindOf(err) != fault.Conflict {
			panic(err)
		}
		return illegal
	})
}

// TestEveryRunCanEnd drives each possible run, with a participant that always gives the same
// answer, until it has ended.
func TestEveryRunCanEnd(t *testing.T) {
	for _, e := range events()[:answers] {
		for _, p := range points() {
			r := p.run()
			if inconsistent(&r) != "" || p.suspended || p.attempt == 0 {
				continue
			}
			now, steps := noon, 0
			for ; r.Next(now) != Rest && steps < 50; steps++ {
				if r.Next(now) == Wait {
					now = *r.NextRunAt
				}
				event := e
				if r.Next(now) == Turn {
					event = Turned{}
				}
				c, err := happens(r, event, moments(now))
				if err != nil {
					t.Fatalf("%+v, %#v: %v", p, event, err)
				}
				r = c.After
			}
			if !r.State.Terminal() {
				t.Fatalf("%+v, always %#v: not ended after %d events but %s", p, e, steps, r.State)
			}
		}
	}
}

func TestAReleasedRunWaitsForAnybody(t *testing.T) {
	later := noon.Add(time.Minute)
	for _, p := range points() {
		r := p.run()
		if inconsistent(&r) != "" || !p.owned {
			continue
		}
		// While a call is in flight, only its answer can make the saga give up.
		for _, e := range events()[:answers] {
			c, err := happens(r, e, moments(noon))
			if err != nil {
				continue
			}
			before := c.After
			c = c.Released(later)
			after := &c.After
			if why := inconsistent(after); why != "" {
				t.Fatalf("%+v, %#v, released: %s:\n%+v", p, e, why, after.Saga)
			}
			if after.LeaseOwner != nil || after.Version != before.Version || after.Attempt != before.Attempt ||
				after.CurrentStep != before.CurrentStep {
				t.Fatalf("%+v, %#v: release changes what it should not, or not the owner:\n%+v", p, e, after.Saga)
			}
			if after.State != before.State &&
				!slices.ContainsFunc(Edges, func(e Edge) bool { return e.From == before.State && e.To == after.State }) {
				t.Fatalf("%+v, %#v: release leads from %s to %s", p, e, before.State, after.State)
			}
			if before.NextRunAt != nil && !after.NextRunAt.Equal(*before.NextRunAt) {
				t.Fatalf("%+v, %#v: release moves the due time from %v to %v", p, e, before.NextRunAt, after.NextRunAt)
			}
		}
	}
}

func TestPointsCoverWhatTheyClaim(t *testing.T) {
	all := points()
	seen := map[string]int{}
	for _, p := range all {
		r := p.run()
		if inconsistent(&r) == "" {
			seen["consistent "+p.state.String()]++
		}
		seen[fmt.Sprint(p.state, " attempt ", p.attempt)]++
	}
	for _, s := range States {
		if seen["consistent "+s.String()] == 0 {
			t.Errorf("no run that can exist is %s", s)
		}
		for _, n := range []int{0, 1, 3} {
			if seen[fmt.Sprint(s, " attempt ", n)] == 0 {
				t.Errorf("no run is %s at attempt %d", s, n)
			}
		}
	}
	t.Logf("%d runs, %d events each", len(all), len(events()))
}
