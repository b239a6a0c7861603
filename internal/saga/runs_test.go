package saga

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// threeTries is the policy of every call in these tests. It does not retry an invalid response, so
// that giving up immediately can be tested as well.
var threeTries = retry.Policy{
	MaxAttempts: 3, InitialIntervalMS: 100, MaxIntervalMS: 1000, Multiplier: 2, Jitter: new(0.0),
	RetryOn: []retry.Class{retry.Timeout, retry.Network, retry.Unavailable, retry.ServerError},
}

// definition has one step per letter of pattern: u can be undone, n cannot.
func definition(pattern string) *workflow.Definition {
	d := &workflow.Definition{Name: "w", Retry: new(threeTries), CompensationRetry: new(threeTries)}
	for i, c := range pattern {
		s := workflow.Step{
			Name:   fmt.Sprintf("s%d", i),
			Action: workflow.Call{HTTP: &workflow.HTTPCall{Method: "POST", URL: fmt.Sprintf("http://h/do/%d", i)}},
		}
		if c == 'u' {
			s.Compensation.HTTP = &workflow.HTTPCall{Method: "POST", URL: fmt.Sprintf("http://h/undo/%d", i)}
		}
		d.Steps = append(d.Steps, s)
	}
	return d
}

// happens applies e to r. A deadline that passes is the deadline of r; a saga without a deadline is
// given one.
func happens(r Instance, e Event, m Moment) (Change, error) {
	if _, passed := e.(DeadlinePassed); passed {
		at := r.phaseDeadline()
		if *at == nil {
			*at = &m.Now
		}
		e = DeadlinePassed{At: **at}
	}
	return Apply(r, e, m)
}

// moments returns a Moment whose ids count up.
func moments(now time.Time) Moment {
	var n byte
	return Moment{Now: now, Jitter: 0.5, NewID: func() uuid.UUID { n++; return uuid.UUID{15: n} }}
}

// point is one point in the space of runs.
type point struct {
	pattern   string
	state     State
	step      int
	cause     Cause // "" means none
	uncertain bool
	attempt   int // all earlier attempts have failed
	owned     bool
	recorded  bool
	suspended bool
	expired   bool
	waiting   bool
	mark      mark
}

// mark says what an operator or the reaper has done to a run.
type mark string

const (
	unmarked  mark = ""
	ordered   mark = "ordered"      // an order about the current step is waiting
	halted    mark = "halted"       // failed by force while running forward
	refused   mark = "undo refused" // so that a retry is possible
	restarts  mark = "restarts"     // a retry waits until step 0 is undone
	neglected mark = "neglected"
	patched   mark = "patched" // the current step has its own run and input
	lettered  mark = "a dead letter"
)

// marksOf returns the marks that make sense in a state.
func marksOf(s State) []mark {
	switch {
	case s == Failed:
		return []mark{unmarked, halted, refused, restarts, patched, lettered}
	case s == Compensating:
		return []mark{unmarked, ordered, restarts, neglected, lettered}
	case s.Forward():
		return []mark{unmarked, ordered, neglected, patched}
	}
	return []mark{unmarked}
}

// pointDefinitions are shared by the runs of all points.
var pointDefinitions = map[string]*workflow.Definition{
	"n":   definition("n"),
	"uuu": definition("uuu"),
	"nun": definition("nun"),
}

// run builds a new run of the point: two runs of one point share nothing but the definition.
func (p point) run() Instance {
	s := Saga{
		ID: uuid.UUID{1}, WorkflowName: "w", State: p.state, CurrentStep: p.step, TotalSteps: len(p.pattern),
		Attempt: p.attempt, Failures: max(p.attempt-1, 0), Uncertain: p.uncertain,
		Version: 7, LeaseEpoch: 3, CompensationExpired: p.expired, Payload: json.RawMessage(`{"a":1}`),
		CreatedAt: noon, UpdatedAt: noon,
	}
	if p.attempt > 0 {
		s.StartedAt = new(noon)
	}
	if p.cause != "" {
		s.EndCause, s.Error = new(p.cause), &Error{Code: "WHY", Message: "why"}
	}
	if p.owned {
		s.LeaseOwner = new(int64(42))
	}
	if p.suspended {
		s.SuspendedAt = new(noon)
	}
	if p.waiting {
		s.NextRunAt = new(noon)
	}
	if p.state.Terminal() {
		s.CompletedAt, s.Clean, s.NeedsAttention = new(noon), new(p.state != Failed), p.state == Failed
	}
	if p.state == Failed {
		s.AttentionReason = new("compensation_failed")
		s.Error = &Error{Code: "UNDO", Message: "the undo", Cause: s.Error}
	}
	switch p.mark {
	case ordered:
		s.Interventions = &Interventions{Order: &Order{Verb: SkipStep, By: "op"}}
	case halted:
		s.Interventions = &Interventions{Halted: true}
	case restarts:
		s.Interventions = &Interventions{RestartAt: new(0), Steps: map[int]StepIntervention{0: {Next: &NextRun{Base: 1}}}}
	case neglected:
		s.NeedsAttention, s.AttentionReason = true, new("no_progress")
	case lettered:
		s.Interventions = &Interventions{DeadLetter: uuid.UUID{7}, RetriedBy: "somebody"}
	case patched:
		s.Interventions = &Interventions{
			Steps: map[int]StepIntervention{p.step: {Runs: 1, Input: json.RawMessage(`{"b":2}`)}},
		}
	}
	r := NewInstance(s, pointDefinitions[p.pattern])
	r.recorded, r.undoRefused = p.recorded, p.mark == refused
	for i := range min(p.step, len(r.outputs)) {
		r.outputs[i] = json.RawMessage(`{"i":1}`)
	}
	return r
}

// points lists the runs on which every event is tried. It leaves out only runs that are rejected
// before any rule applies: steps that do not exist, and compensations of a step that has none or
// without a cause.
func points() []point {
	var out []point
	both := []bool{false, true}
	for pattern := range pointDefinitions {
		for _, state := range States {
			for _, step := range stepsOf(state, len(pattern)) {
				for _, cause := range append([]Cause{""}, Causes...) {
					for _, attempt := range []int{0, 1, 3} {
						for flags := range 1 << 6 {
							f := func(bit int) bool { return both[flags>>bit&1] }
							for _, m := range marksOf(state) {
								p := point{pattern, state, step, cause, f(0), attempt, f(1), f(2), f(3), f(4), f(5), m}
								undoing := state == Compensating || state == Failed
								if undoing && (cause == "" || pattern[step] == 'n' && m != halted) || p.expired && state != Compensating {
									continue
								}
								if m != unmarked && (pattern != "nun" || attempt == 0 && m != neglected || p.suspended && m != ordered) {
									continue // such runs add nothing new, and there are enough of them
								}
								out = append(out, p)
							}
						}
					}
				}
			}
		}
	}
	return out
}

func stepsOf(s State, n int) []int {
	if s == Completed {
		return []int{n}
	}
	if n == 1 {
		return []int{0}
	}
	return []int{0, 1, n - 1}
}

// inconsistent returns a description of a condition that cannot hold in a saga produced by the
// rules and by claims, or "" if nothing is wrong. Apply must preserve consistency.
func inconsistent(r *Instance) string {
	switch undoing := r.State == Compensating; {
	case r.State == Completed && r.CurrentStep != r.TotalSteps:
		return "completed before the last step"
	case r.State != Completed && (r.CurrentStep < 0 || r.CurrentStep >= r.TotalSteps):
		return "the current step does not exist"
	case undoing && r.Def.Steps[r.CurrentStep].Compensation.None():
		return "undoes a step that has no compensation"
	case (r.EndCause == nil) != (r.Error == nil) && !(r.State.Forward() && (r.Stopped() || r.ordered())):
		return "a cause without error, or an error without cause"
	case !r.State.Forward() && r.State != Completed && r.EndCause == nil:
		return "turned back without a cause"
	case r.State == Completed && r.EndCause != nil,
		r.State.Forward() && r.EndCause != nil && *r.EndCause == CauseStepFailed && !r.Def.Ahead(r.CurrentStep-1):
		return "a cause that should have turned it back"
	case r.State == Cancelled && *r.EndCause != CauseCancelled, r.State == TimedOut && *r.EndCause != CauseDeadline,
		r.State == Compensated && (*r.EndCause == CauseCancelled || *r.EndCause == CauseDeadline):
		return "ended in the state of another cause"
	case r.State.Terminal() != (r.CompletedAt != nil), r.State.Terminal() != (r.Clean != nil):
		return "ended without end, or an end without having ended"
	case r.Clean != nil && *r.Clean && (r.State == Failed || r.unclean()),
		r.Clean != nil && !*r.Clean && r.State != Failed && !r.unclean():
		return "a dirty end that does not say so, or a clean one that does"
	case r.NeedsAttention && r.State.Terminal() && r.State != Failed, r.NeedsAttention != (r.AttentionReason != nil):
		return "needs attention without a reason"
	case r.Stopped() && (!r.State.Forward() || r.SuspendedAt == nil || r.Attempt < 2),
		r.Stopped() && (r.EndCause != nil || r.Error == nil):
		return "stopped at a step that has not failed"
	case r.ordered() && r.Interventions.Order.Verb == FailStep && r.past():
		return "an order to turn back after the pivot"
	case r.SuspendedAt != nil && r.State.Terminal(),
		r.ordered() && (r.State.Terminal() || r.Attempt == 0 || r.State == Compensating && r.LeaseOwner == nil):
		return "ended, but something is to happen"
	case r.DeadLetter() != uuid.Nil && (r.State != Failed && r.State != Compensating || r.Halted()):
		return "a dead letter of something that goes on without it"
	case r.Halted() && r.State != Failed,
		r.restartAt() >= 0 && (r.Halted() || r.State != Failed && r.State != Compensating || r.restartAt() > r.CurrentStep):
		return "an intervention of another state"
	case r.State.Terminal() && (r.LeaseOwner != nil || r.NextRunAt != nil):
		return "ended, but somebody will look at it"
	case !r.State.Terminal() && r.LeaseOwner == nil && r.NextRunAt == nil:
		return "nobody will ever look at it"
	case r.Attempt < 0 || r.Failures < 0 || r.Failures > 0 && r.Failures > r.Attempt:
		return "more failures than attempts"
	case r.Attempt == 0 && (r.Uncertain || r.LeaseOwner != nil || r.CurrentStep > 0),
		r.Attempt == 0 && slices.Contains([]State{Running, StepCompleted, Completed, Compensating, Failed}, r.State):
		return "under way without an attempt"
	case r.State == StepCompleted && (r.CurrentStep == 0 || r.Failures > 0 || r.Uncertain && r.Attempt == 1):
		return "between two steps, but a call was made"
	case r.State != Pending && r.State != StepCompleted && r.Attempt > 0 && r.StartedAt == nil:
		return "under way, but not started"
	case r.Uncertain && r.undoRefused:
		return "an undo in doubt that was certainly not applied"
	case r.CompensationExpired && r.State.Forward():
		return "the deadline of an undo that has not begun"
	case r.recorded && (r.State.Terminal() || r.State == StepCompleted || r.State == Pending || r.Attempt == 0 ||
		r.LeaseOwner == nil):
		return "a call in flight that nobody made"
	}
	return ""
}

func (r *Instance) unclean() bool { return r.Interventions != nil && r.Interventions.Unclean }

func (r *Instance) restartAt() int {
	if r.Interventions == nil || r.Interventions.RestartAt == nil {
		return -1
	}
	return *r.Interventions.RestartAt
}
