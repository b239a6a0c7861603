package saga

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// flowOf has one step per letter: u can be undone, n cannot, s suspends and can be undone, p is a
// pivot that can be undone, and P is a pivot that cannot.
func flowOf(letters string) *workflow.Definition {
	d := definition(strings.NewReplacer("s", "u", "p", "u", "P", "n").Replace(letters))
	for i, c := range letters {
		d.Steps[i].Pivot = c == 'p' || c == 'P'
		if c == 's' {
			d.Steps[i].OnFailure = workflow.OnFailureSuspend
		}
	}
	return d
}

// places are the runs of workflows that have a pivot or a step that suspends, both running forward
// and halted.
func places(letters string) (all []Instance) {
	def := flowOf(letters)
	for step := range letters {
		for flags := range 1 << 7 {
			f := func(bit int) bool { return flags>>bit&1 == 1 }
			for _, cause := range append([]Cause{""}, Causes...) {
				s := NewInstance(Saga{State: Running, CurrentStep: step, TotalSteps: len(letters), Attempt: 2, Failures: 1,
					Uncertain: f(0), Version: 7, LeaseEpoch: 3, StartedAt: new(noon), CreatedAt: noon, UpdatedAt: noon,
					Payload: []byte(`{"a":1}`)}, def)
				if f(1) {
					s.LeaseOwner = new(int64(42))
				}
				if f(2) || s.LeaseOwner == nil {
					s.NextRunAt = new(noon)
				}
				if f(3) {
					s.SuspendedAt = new(noon)
				}
				if cause != "" {
					s.EndCause, s.Error = new(cause), &Error{Code: "WHY"}
				}
				if f(4) { // stopped
					s.SuspendedAt, s.NextRunAt, s.Error = new(noon), new(noon), &Error{Code: "http_402", Message: "no"}
					s.Interventions = &Interventions{Stopped: &Stop{Besides: f(3)}}
				}
				if f(5) { // halted
					s.State, s.CompletedAt, s.Clean, s.NeedsAttention = Failed, new(noon), new(false), true
					s.LeaseOwner, s.NextRunAt, s.SuspendedAt, s.AttentionReason = nil, nil, nil, new(ReasonForced)
					s.Interventions, s.Error = &Interventions{Halted: true}, &Error{Code: "FORCED", Cause: s.Error}
				}
				if f(6) && s.Interventions == nil {
					s.Interventions = &Interventions{Order: &Order{Verb: FailStep, By: "op"}}
				}
				for i := range step {
					s.outputs[i] = []byte(`1`)
				}
				if inconsistent(&s) == "" {
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// turnedBack reports whether a saga that was running forward no longer is.
func turnedBack(s State) bool { return !s.Forward() && s != Completed && s != Failed }

// TestNothingTurnsBackAfterThePivot checks I21 for every event in every place.
func TestNothingTurnsBackAfterThePivot(t *testing.T) {
	seen := map[string]int{}
	for _, letters := range []string{"uPnn", "upnn", "spn", "Pn", "uP", "us"} {
		pivot := flowOf(letters).Pivot()
		for _, r := range places(letters) {
			for _, e := range events() {
				if o, is := e.(StepOrdered); is && o.Step == 0 {
					o.Step = r.CurrentStep
					e = o
				}
				if r.Stopped() && drivers(e) {
					continue // it has no call in flight and is not flagged
				}
				c, err := happens(r, e, moments(noon))
				if err != nil {
					f := fault.As(err)
					if f == nil || f.Kind != fault.Conflict || f.Code == CodePivotPassed && !r.bound() ||
						!slices.Equal(f.Allowed, r.AllowedActions()) {
						t.Fatalf("%s, %+v, %#v: %v", letters, r.Saga, e, err)
					}
					seen[f.Code]++
					continue
				}
				after := &c.After
				if why := inconsistent(after); why != "" && (!drivers(e) || r.LeaseOwner != nil) {
					t.Fatalf("%s: %#v leads to a saga that is %s: %+v", letters, e, why, after.Saga)
				}
				undone := slices.ContainsFunc(c.Logs, func(l StepLog) bool { return l.Action == Compensate })
				a, answered := e.(Answered)
				done := answered && a.Verdict == Done && r.CurrentStep == pivot
				if pivot >= 0 && (r.CurrentStep > pivot || done) && (turnedBack(after.State) || undone) {
					t.Fatalf("%s at step %d, %#v: is %s after its pivot", letters, r.CurrentStep, e, after.State)
				}
				if r.State.Forward() && after.Stopped() && !r.Stopped() {
					seen[fmt.Sprintf("stopped at %c", letters[r.CurrentStep])]++
				}
				if r.Stopped() && !after.Stopped() && after.SuspendedAt != nil && !r.Interventions.Stopped.Besides {
					t.Fatalf("%s, %#v: the stop has ended, and nothing ends the suspension: %+v", letters, e, after.Saga)
				}
				if r.Stopped() && r.Interventions.Stopped.Besides && after.State.Forward() && after.SuspendedAt == nil {
					if _, resumed := e.(UnsuspendRequested); !resumed {
						t.Fatalf("%s, %#v: ends the suspension of a person", letters, e)
					}
				}
			}
		}
	}
	for _, what := range []string{CodePivotPassed, CodeStateConflict, "stopped at s", "stopped at P", "stopped at n"} {
		if seen[what] == 0 {
			t.Errorf("never: %s", what)
		}
	}
	if n := seen["stopped at p"]; n > 0 {
		t.Errorf("%d times a pivot stopped that can be undone", n)
	}
	t.Logf("%v", seen)
}

// TestVerbsOfSagasThatCannotTurnBack checks that exactly the verbs listed as allowed are accepted,
// and that a refusal gives the reason.
func TestVerbsOfSagasThatCannotTurnBack(t *testing.T) {
	for _, letters := range []string{"uPnn", "upn", "spn", "us"} {
		for _, r := range places(letters) {
			allowed := r.AllowedActions()
			for verb, e := range map[Verb]Event{
				Cancel: CancelRequested{}, CompensateVerb: CompensateRequested{}, ResumeCompensation: ResumeRequested{},
				RetryVerb: RetryRequested{}, FailStepVerb: StepOrdered{Step: r.CurrentStep, Order: Order{Verb: FailStep}},
				SkipStepVerb:     StepOrdered{Step: r.CurrentStep, Order: Order{Verb: SkipStep}},
				CompleteStepVerb: StepOrdered{Step: r.CurrentStep, Order: Order{Verb: CompleteStep}},
				SuspendVerb:      SuspendRequested{}, ResumeVerb: UnsuspendRequested{}, ExtendDeadline: DeadlineSet{TimeoutMS: 1},
				ForceComplete: CompletionForced{}, ForceFail: FailureForced{}, Acknowledge: Acknowledged{},
			} {
				_, err := Apply(r, e, moments(noon))
				if slices.Contains(allowed, string(verb)) != (err == nil) {
					t.Fatalf("%s, %+v: %s is allowed in %q, Apply says %v", letters, r.Saga, verb, allowed, err)
				}
				back := verb == Cancel || verb == CompensateVerb || verb == ResumeCompensation && r.Halted()
				refuses := back && r.bound() && (r.Halted() == (verb == ResumeCompensation)) && (r.Halted() || r.EndCause == nil)
				if refuses && !fault.IsCode(err, CodePivotPassed) {
					t.Fatalf("%s, %+v: %s: %v", letters, r.Saga, verb, err)
				}
			}
		}
	}
}

// TestAStepAfterThePivotIsRetriedUntilItSucceeds checks that reaching max_attempts raises attention
// once, and that the longest interval applies from then on.
func TestAStepAfterThePivotIsRetriedUntilItSucceeds(t *testing.T) {
	r, raised := places("uPnn")[0], 0
	r.CurrentStep, r.Failures, r.Attempt, r.LeaseOwner, r.NextRunAt = 2, 0, 1, new(int64(1)), nil
	r.outputs[0], r.outputs[1] = []byte(`1`), []byte(`1`)
	now := noon
	for n := 1; n <= 50; n++ {
		c, err := Apply(r, Answered{Outcome{Verdict: Unknown, Class: retry.Timeout, Code: "timeout", StartedAt: now,
			EndedAt: now}}, moments(now))
		if err != nil || c.After.Stopped() || c.After.State != Running || c.Logs[0].Final {
			t.Fatalf("attempt %d: %v, %+v", n, err, c.After.Saga)
		}
		for _, e := range c.Audit {
			if e.Type == eventtype.AttentionRaised {
				raised++
			}
		}
		wait := c.After.NextRunAt.Sub(now)
		longest := time.Duration(threeTries.MaxIntervalMS) * time.Millisecond
		if n >= threeTries.MaxAttempts && wait != longest {
			t.Fatalf("attempt %d: %v until the next one, not %v", n, wait, longest)
		}
		if (n >= threeTries.MaxAttempts) != c.After.NeedsAttention {
			t.Fatalf("attempt %d: attention %v", n, c.After.NeedsAttention)
		}
		r, now = c.After, now.Add(wait)
	}
	c, err := Apply(r, Answered{Outcome{Verdict: Done, StartedAt: now, EndedAt: now}}, moments(now))
	if err != nil || c.After.NeedsAttention || c.After.CurrentStep != 3 || raised != 1 {
		t.Fatalf("%v, raised %d times, %+v", err, raised, c.After.Saga)
	}
}

// TestTheDeadlineAfterThePivotOnlyRaisesAttention checks that each deadline does so once.
func TestTheDeadlineAfterThePivotOnlyRaisesAttention(t *testing.T) {
	r := places("uPnn")[0]
	r.CurrentStep, r.outputs[0], r.outputs[1] = 3, []byte(`1`), []byte(`1`)
	r.TimeoutAt = new(noon.Add(time.Second))
	m := moments(noon)
	c, err := Apply(r, DeadlinePassed{At: *r.TimeoutAt}, m)
	if err != nil || c.After.EndCause != nil || *c.After.AttentionReason != ReasonPivotDeadline ||
		c.After.TimedOutAt.Before(*r.TimeoutAt) {
		t.Fatalf("%v, %+v", err, c.After.Saga)
	}
	if _, err := Apply(c.After, DeadlinePassed{At: *r.TimeoutAt}, m); !fault.IsCode(err, CodePivotPassed) {
		t.Fatalf("the same deadline passes twice: %v", err)
	}
	c, err = Apply(c.After, DeadlineSet{TimeoutMS: 60_000}, m)
	if err != nil {
		t.Fatal(err)
	}
	m.Now = noon.Add(time.Hour)
	if c, err = Apply(c.After, DeadlinePassed{At: *c.After.TimeoutAt}, m); err != nil || c.After.TimedOutAt.Before(m.Now) {
		t.Fatalf("a new deadline: %v, %+v", err, c.After.Saga)
	}
}
