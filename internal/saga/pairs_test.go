package saga

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/retry"
)

// answers is how many of the events are answers; they come first.
const answers = 9

// events lists what can happen, Answered once for every kind of answer.
func events() []Event {
	answer := func(v Verdict, c retry.Class) Event {
		return Answered{Outcome{Verdict: v, Class: c, Code: "code", Message: "message", StartedAt: noon, EndedAt: noon.Add(time.Second)}}
	}
	done := answer(Done, "").(Answered)
	done.Output = json.RawMessage(`{"o":1}`)
	return []Event{
		done, answer(Done, ""), answer(Refused, retry.Refused), answer(Refused, retry.ServerError),
		answer(Unknown, retry.Timeout), answer(Unknown, retry.ServerError), answer(Unknown, retry.BadResponse),
		answer(NotApplied, retry.Network), answer(NotApplied, retry.Unavailable),
		Turned{}, Slow{StartedAt: noon}, CancelRequested{By: "user", Reason: "mind changed"}, CompensateRequested{By: "op"},
		DeadlinePassed{}, ResumeRequested{By: "op"}, nil,
	}
}

// accepted is the whole of what may happen when, written down once more.
func accepted(p point, e Event) bool {
	over, forward, flagged := p.state.Terminal(), p.state.Forward(), p.cause != ""
	switch e.(type) {
	case Answered:
		return !over && p.attempt > 0
	case Slow:
		return !over && p.attempt > 0 && !p.recorded
	case Turned:
		return !p.recorded && (forward && flagged || p.state == Compensating && p.expired)
	case CancelRequested, CompensateRequested:
		return forward && !flagged
	case DeadlinePassed:
		return forward && !flagged || p.state == Compensating && !p.expired
	case ResumeRequested:
		return p.state == Failed
	}
	return false
}

// drivers tells whether only a saga's owner applies e.
func drivers(e Event) bool {
	switch e.(type) {
	case Answered, Slow, Turned:
		return true
	}
	return false
}

// mayFollow lists where an event may lead from a run, in one commit.
func mayFollow(p point, e Event) []State {
	undone := []State{Compensated, Cancelled, TimedOut}
	_, turned := e.(Turned)
	switch neverSent := p.state == Pending && !p.uncertain; {
	case p.state == Compensating && turned:
		return []State{Failed}
	case p.state == Compensating:
		return append(undone, Compensating, Failed)
	case turned && neverSent:
		return undone
	case turned && p.uncertain && p.pattern[p.step] == 'u':
		return []State{Compensating} // it may have been applied
	case turned:
		return append(undone, Compensating)
	}
	switch e.(type) {
	case Answered:
		return append(undone, Running, Completed, Compensating)
	case Slow:
		return []State{Running}
	case ResumeRequested:
		return []State{Compensating}
	}
	if p.state == Pending && p.attempt == 0 && !p.owned {
		return undone // nobody ever drove it
	}
	return []State{p.state} // a flag leaves the rest to its driver
}

func TestEveryEventOnEveryRunFollowsTheTableOrIsAConflict(t *testing.T) {
	all := events()
	for _, p := range points() {
		r, twin := p.run(), p.run()
		consistent := inconsistent(&r) == ""
		for _, e := range all {
			c, err := Apply(r, e, moments(noon))
			if want := accepted(p, e); want != (err == nil) {
				t.Fatalf("%+v, %#v: error %v, accepted should be %v", p, e, err, want)
			}
			if err != nil {
				f := fault.As(err)
				if f == nil || f.Kind != fault.Conflict || f.Code != CodeStateConflict || f.Allowed == nil || !slices.Equal(f.Allowed, r.AllowedActions()) {
					t.Fatalf("%+v, %#v: %#v is not a conflict that says what is allowed", p, e, err)
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
			if entered := after.State == Compensating && p.state != Compensating; entered && !c.StartsCompensation {
				t.Fatalf("%+v, %#v: compensation begins without its deadline", p, e)
			}
		}
		if !reflect.DeepEqual(r, twin) {
			t.Fatalf("%+v: Apply changed the run it was given:\n%s", p, cmp.Diff(twin, r, cmp.AllowUnexported(Run{})))
		}
	}
	for pattern, def := range pointDefinitions {
		if diff := cmp.Diff(definition(pattern), def); diff != "" {
			t.Errorf("Apply changed the definition (-before +after):\n%s", diff)
		}
	}
}

func TestTheAllowedActionsAreExactlyWhatApplyAccepts(t *testing.T) {
	verbs := map[string]Event{"cancel": CancelRequested{}, "compensate": CompensateRequested{}, "resume-compensation": ResumeRequested{}}
	for _, p := range points() {
		r := p.run()
		allowed := r.AllowedActions()
		for verb, e := range verbs {
			_, err := Apply(r, e, moments(noon))
			if slices.Contains(allowed, verb) != (err == nil) {
				t.Fatalf("%+v: %s is allowed in %q, Apply says %v", p, verb, allowed, err)
			}
		}
		for _, verb := range allowed {
			if verbs[verb] == nil {
				t.Fatalf("%+v: allows %q, which is no verb", p, verb)
			}
		}
	}
}

// TestEveryEdgeIsTaken takes edges out of the table, one at a time: some event
// must then run into the missing edge, or nothing ever takes it.
func TestEveryEdgeIsTaken(t *testing.T) {
	whole := Edges
	defer func() { Edges = whole }()
	all := points()
	for i, e := range whole {
		Edges = slices.Delete(slices.Clone(whole), i, i+1)
		if !slices.ContainsFunc(all, missesAnEdge) {
			t.Errorf("no event ever takes %s → %s (%s)", e.From, e.To, e.On)
		}
	}
}

func missesAnEdge(p point) bool {
	r := p.run()
	if inconsistent(&r) != "" {
		return false
	}
	return slices.ContainsFunc(events(), func(e Event) (missed bool) {
		defer func() { missed = recover() != nil }()
		_, _ = Apply(r, e, moments(noon)) // refusals take no edge
		return false
	})
}

// TestEveryRunCanEnd drives each run that can exist, with a participant that
// always does the same, until it has ended.
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
				c, err := Apply(r, event, moments(now))
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
		// While a call is in flight, only its answer can give the saga up.
		for _, e := range events()[:answers] {
			c, err := Apply(r, e, moments(noon))
			if err != nil {
				continue
			}
			before := c.After
			c.Release(later)
			after := &c.After
			if why := inconsistent(after); why != "" {
				t.Fatalf("%+v, %#v, released: %s:\n%+v", p, e, why, after.Saga)
			}
			if after.LeaseOwner != nil || after.Version != before.Version || after.Attempt != before.Attempt || after.CurrentStep != before.CurrentStep {
				t.Fatalf("%+v, %#v: release changes what it should not, or not the owner:\n%+v", p, e, after.Saga)
			}
			if after.State != before.State && !slices.ContainsFunc(Edges, func(e Edge) bool { return e.From == before.State && e.To == after.State }) {
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
