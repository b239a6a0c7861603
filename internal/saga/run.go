package saga

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Instance is a saga with everything needed to drive it: its pinned definition and the outputs of
// its steps. Apply never modifies an Instance; it returns the next one.
type Instance struct {
	Saga
	Def *workflow.Definition
	// outputs[i] is step i's output once EXECUTE SUCCESS is committed, and nil before that. A step
	// without output has the JSON value null.
	outputs []json.RawMessage
	// given[i] is the attempt whose log contains outputs[i] (givenBy).
	given Parts
	// recorded means that the call in flight has a RUNNING step log, which its answer completes.
	recorded bool
	// run is the job run in flight: its id and start time. It is zero unless recorded is set and
	// the current call is a job.
	run      uuid.UUID
	runBegun time.Time
	// awaited is the log of the attempt whose outcome the participant will report (callback.go);
	// nil means none.
	awaited *StepLog
	// undone means that a compensation was committed as done since the saga last ran forward.
	// undoRefused means that the current compensation was refused and none of its attempts is in
	// doubt, so it was certainly not applied.
	undone, undoRefused bool
	// undefined means that the definition could not be read, and Def has only step names (standIn).
	undefined bool
}

// Defaults are the server's values for settings that a definition omits.
type Defaults struct {
	StepTimeout time.Duration
}

// NewInstance returns the instance of a saga that has no step logs yet.
func NewInstance(s Saga, def *workflow.Definition) Instance {
	n := len(def.Steps)
	return Instance{Saga: s, Def: def, outputs: make([]json.RawMessage, n), given: make(Parts, n)}
}

// Rebuild returns the instance of a saga from its step logs, which may be in any order. A manually
// written row may lack the cause of the compensation; the cause is then taken to be an operator.
func Rebuild(s Saga, def *workflow.Definition, logs []StepLog) Instance {
	if s.EndCause == nil && !s.State.Forward() && s.State != Completed {
		s.EndCause = new(CauseOperator)
	}
	r := NewInstance(s, def)
	for i := range logs {
		l := &logs[i]
		if l.Attempt <= r.base(l.StepIndex, l.Action) {
			continue // of an earlier run of the step
		}
		if l.Action == Compensate &&
			(l.Status == LogSuccess || l.Status == LogSkipped && (l.Outcome != nil || l.Response != nil)) {
			r.undone = true // or given up by an operator, or undone outside Skald
		}
		if l.Action == Compensate && l.StepIndex == s.CurrentStep && l.Attempt == s.Attempt && l.refusal() &&
			!s.Uncertain {
			r.undoRefused = true
		}
		if l.Action == Execute && l.Status == LogSuccess && l.StepIndex < len(r.outputs) {
			r.outputs[l.StepIndex] = orNull(l.Response)
			r.given[l.StepIndex] = givenBy(l.Attempt)
		}
		if l.Status == LogRunning && l.StepIndex == s.CurrentStep && l.Action == r.Action() && l.Attempt == s.Attempt {
			r.recorded = true
			switch {
			case r.job() != nil:
				r.run, r.runBegun = l.ID, l.StartedAt
			case l.Outcome != nil && *l.Outcome == reported.CodeLater:
				r.awaited = l
			}
		}
	}
	return r
}

func orNull(j json.RawMessage) json.RawMessage {
	if j == nil {
		return json.RawMessage("null")
	}
	return j
}

// Task is the action that a driver must take for an instance now.
type Task int

// The tasks.
const (
	Send        Task = iota + 1 // send the result of Call
	Wait                        // do nothing before Saga.NextRunAt
	Turn                        // a flag was set, or the wait for a report is over: apply Turned without a call
	Rest                        // the saga has ended
	Begin                       // the current step is a job run: apply Begun
	CheckJobRun                 // the job run in flight must be checked: JobCall
)

// Next returns the task at the time now.
func (r *Instance) Next(now time.Time) Task {
	switch {
	case r.State.Terminal():
		return Rest
	// a recorded call was sent, so it is repeated, and compensation starts with its outcome
	case (r.Flagged() || r.ordered()) && (!r.recorded || r.awaited != nil):
		return Turn
	case r.SuspendedAt != nil, r.NextRunAt != nil && r.NextRunAt.After(now):
		return Wait
	case r.awaited != nil, r.repeats(), r.undecided():
		return Turn
	case r.job() == nil:
		return Send
	case r.recorded:
		return CheckJobRun
	}
	return Begin
}

// undecided reports whether the first step has a condition that has not been decided yet. The
// conditions of later steps are decided when the previous step ends.
func (r *Instance) undecided() bool {
	return r.State == Pending && !r.Uncertain && r.Attempt > 0 && r.Def.Conditional(r.CurrentStep)
}

// Flagged reports whether the saga must leave its current phase.
func (r *Instance) Flagged() bool {
	return r.State.Forward() && r.EndCause != nil || r.State == Compensating && r.CompensationExpired
}

// Call is one call to a participant, complete except for the transport.
type Call struct {
	SagaID  uuid.UUID
	Tenant  uuid.UUID
	Step    string
	Index   int
	Action  Action
	Attempt int
	Fence   int64 // Saga.LeaseEpoch
	// Key is the Idempotency-Key. It is the same for every attempt of this step and action, across
	// restarts and owners (invariant I7).
	Key   string
	Body  []byte        // byte-equal in every attempt (invariant I7)
	Parts Parts         // of Body
	By    workflow.Call // how the call is made; shared with the definition
	// Filled means that By holds a request whose expressions have been evaluated for this call
	// only.
	Filled      bool
	ContentType string // of Body; "" means JSON
	// Callback is the URL to which the participant reports an answer that comes later; "" if no
	// rule announces one.
	Callback   string
	Rules      *workflow.Rules // how the answer is interpreted; nil means by its status
	Timeout    time.Duration
	OwnTimeout bool   // the step sets Timeout
	Trace      string // W3C trace id of the saga; "" means none
	// TraceState and Baggage are headers that the saga's client sent; "" means none.
	TraceState, Baggage string
}

// Action is the direction of the call in flight.
func (r *Instance) Action() Action {
	if r.State == Compensating {
		return Compensate
	}
	return Execute
}

// Outputs returns the outputs of the steps done so far as one JSON object, by step name.
func (r *Instance) Outputs() map[string]json.RawMessage {
	m := make(map[string]json.RawMessage, len(r.outputs))
	for i, out := range r.outputs {
		if out != nil {
			m[r.Def.Steps[i].Name] = out
		}
	}
	return m
}

// with returns a copy of r in which the current attempt has given step i the output out.
func (r Instance) with(i int, out json.RawMessage) Instance {
	r.outputs, r.given = slices.Clone(r.outputs), append(make(Parts, 0, len(r.outputs)), r.given...)[:len(r.outputs)]
	r.outputs[i], r.given[i] = orNull(out), givenBy(r.Attempt)
	return r
}

// without returns a copy of r in which step i and all later steps have no output.
func (r Instance) without(i int) Instance {
	r.outputs = slices.Clone(r.outputs)
	r.given = append(make(Parts, 0, len(r.outputs)), r.given...)[:len(r.outputs)]
	clear(r.outputs[i:])
	clear(r.given[i:])
	return r
}

// refusal reports whether the participant refused the attempt permanently.
func (l *StepLog) refusal() bool {
	return l.Final && l.Error != nil && !l.Error.Retryable && l.Error.Type != typeOperator
}

// typeOperator is the type of errors that operators cause.
const typeOperator = "operator"

// job returns the call of the current step if it is a job, and nil otherwise.
func (r *Instance) job() *workflow.Call {
	if r.Def == nil || r.CurrentStep >= len(r.Def.Steps) {
		return nil
	}
	c := &r.Def.Steps[r.CurrentStep].Action
	if r.State == Compensating {
		c = &r.Def.Steps[r.CurrentStep].Compensation.Call
	}
	if c.Job == "" {
		return nil
	}
	return c
}

// AwaitedRun returns the job run that is the current step, and its start time; false means that
// none was begun.
func (r *Instance) AwaitedRun() (run uuid.UUID, begun time.Time, ok bool) {
	if !r.recorded || r.job() == nil {
		return uuid.Nil, time.Time{}, false
	}
	return r.run, r.runBegun, true
}

// MayBeInFlight reports whether the saga is being driven and not waiting.
func (r *Instance) MayBeInFlight(now time.Time) bool {
	return !r.State.Terminal() && r.Attempt > 0 &&
		(r.recorded || r.LeaseOwner != nil && (r.NextRunAt == nil || !r.NextRunAt.After(now)))
}
