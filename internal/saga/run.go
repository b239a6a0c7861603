package saga

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Instance is a saga with everything needed to drive it: its pinned definition and the
// outputs of its steps. Apply never changes an Instance; it returns the next one.
type Instance struct {
	Saga
	Def *workflow.Definition
	// outputs[i] is step i's output once EXECUTE SUCCESS is committed, nil before that.
	// A step without output has the JSON null.
	outputs []json.RawMessage
	// recorded: the call in flight has a RUNNING step log, which its answer completes.
	recorded bool
	// run is the job run in flight: its id, and when it was begun. Zero unless
	// recorded, and the current call is a job.
	run      uuid.UUID
	runBegun time.Time
	// undone: a compensation was committed as done since the saga last ran forward.
	// undoRefused: the current one was refused and no attempt of it is in doubt, hence it
	// was certainly not applied.
	undone, undoRefused bool
	// undefined: the definition could not be read, and Def has only names (standIn).
	undefined bool
}

// Defaults are the server's values for what a definition does not specify.
type Defaults struct {
	StepTimeout time.Duration
}

// NewInstance returns the instance of a saga that has no step logs yet.
func NewInstance(s Saga, def *workflow.Definition) Instance {
	return Instance{Saga: s, Def: def, outputs: make([]json.RawMessage, len(def.Steps))}
}

// Rebuild returns the instance of a saga from its step logs, in any order. A manually written
// row may lack the cause of the compensation: then the cause is an operator.
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
			r.undone = true // or given up by hand, or undone elsewhere
		}
		if l.Action == Compensate && l.StepIndex == s.CurrentStep && l.Attempt == s.Attempt && l.refusal() &&
			!s.Uncertain {
			r.undoRefused = true
		}
		if l.Action == Execute && l.Status == LogSuccess && l.StepIndex < len(r.outputs) {
			r.outputs[l.StepIndex] = orNull(l.Response)
		}
		if l.Status == LogRunning && l.StepIndex == s.CurrentStep && l.Action == r.Action() && l.Attempt == s.Attempt {
			r.recorded = true
			if r.job() != nil {
				r.run, r.runBegun = l.ID, l.StartedAt
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

// Task is what a driver must do with an instance now.
type Task int

// Tasks.
const (
	Send        Task = iota + 1 // send Call
	Wait                        // nothing before Saga.NextRunAt
	Turn                        // a flag was set: apply Turned, no call
	Rest                        // the saga has ended
	Begin                       // the current step is a job run: apply Begun
	CheckJobRun                 // the job run in flight must be checked: JobCall
)

// Next returns what to do at the time now.
func (r *Instance) Next(now time.Time) Task {
	switch {
	case r.State.Terminal():
		return Rest
	// a recorded call was sent: it is repeated, and compensation starts with its outcome
	case (r.flagged() || r.ordered()) && !r.recorded:
		return Turn
	case r.SuspendedAt != nil, r.NextRunAt != nil && r.NextRunAt.After(now):
		return Wait
	case r.job() == nil:
		return Send
	case r.recorded:
		return CheckJobRun
	}
	return Begin
}

// flagged reports whether the saga must leave its current phase.
func (r *Instance) flagged() bool {
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
	// Key is the Idempotency-Key: the same for every attempt of this step and
	// action, over restarts and owners (invariant I7).
	Key     string
	Body    []byte        // byte-equal in every attempt (invariant I7)
	By      workflow.Call // how the call is made; shared with the definition
	Timeout time.Duration
	Trace   string // W3C trace id of the saga, "" when none
	// TraceState and Baggage are headers that the saga's client sent; "": none.
	TraceState, Baggage string
}

// Call returns the call in flight. Use it only when Next returns Send.
func (r *Instance) Call(d Defaults) Call {
	step := &r.Def.Steps[r.CurrentStep]
	c := Call{
		SagaID: r.ID, Tenant: r.Tenant.ID, Step: step.Name, Index: r.CurrentStep, Action: r.Action(),
		Attempt: r.Attempt, Fence: r.LeaseEpoch,
		Timeout: r.Def.StepTimeout(r.CurrentStep, d.StepTimeout),
	}
	c.Trace, c.TraceState, c.Baggage = textOf(r.TraceID), textOf(r.TraceState), textOf(r.Baggage)
	word, reruns := "execute", r.intervened(r.CurrentStep).Runs
	by := &step.Action
	if c.Action == Compensate {
		word, reruns = "compensate", r.intervened(r.CurrentStep).Undos
		by = &step.Compensation.Call
	}
	c.By = *by
	c.Key = fmt.Sprintf("%s/%s/%s", r.ID, step.Name, word)
	if r.TenantInKeys { // two tenants may have the same id, and a participant may serve both (decision 0047)
		c.Key = r.Tenant.ID.String() + "/" + c.Key
	}
	if reruns > 0 { // an operator has changed the call (decision 0023)
		c.Key += fmt.Sprintf("#%d", reruns+1)
	}
	if by.Args != nil {
		c.Body = r.Def.JobArgs(by, r.input(r.CurrentStep), r.Outputs())
	} else {
		c.Body = r.body(step, c.Action, word)
	}
	return c
}

// Action is the direction of the call in flight.
func (r *Instance) Action() Action {
	if r.State == Compensating {
		return Compensate
	}
	return Execute
}

// body builds the request body (DESIGN.md section 5). Fields are in a fixed order and outputs in
// step order, and every part is canonical JSON, so that the same call is byte-equal regardless of
// the caller.
func (r *Instance) body(step *workflow.Step, action Action, word string) []byte {
	b := make([]byte, 0, 256+2*len(r.Payload))
	b = append(b, `{"saga_id":"`...)
	b = append(b, r.ID.String()...)
	b = append(b, `","workflow_name":`...)
	b = appendText(b, r.WorkflowName)
	b = append(b, `,"step":`...)
	b = appendText(b, step.Name)
	b = append(b, `,"action":"`...)
	b = append(b, word...)
	b = append(b, `","payload":`...)
	b = append(b, orNull(r.input(r.CurrentStep))...)
	b = append(b, `,"outputs":{`...)
	first := true
	for i, out := range r.outputs {
		if out == nil {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendText(b, r.Def.Steps[i].Name)
		b = append(b, ':')
		b = append(b, out...)
	}
	b = append(b, '}')
	if action == Compensate {
		b = append(b, `,"input":`...)
		b = append(b, orNull(r.input(r.CurrentStep))...)
		b = append(b, `,"output":`...)
		b = append(b, orNull(r.outputs[r.CurrentStep])...)
	}
	return append(b, '}')
}

// appendText appends s as a JSON string. Names contain no characters that need escaping (workflow.ValidName).
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// Outputs returns the outputs of the steps done so far by step name, as one JSON object.
func (r *Instance) Outputs() map[string]json.RawMessage {
	m := make(map[string]json.RawMessage, len(r.outputs))
	for i, out := range r.outputs {
		if out != nil {
			m[r.Def.Steps[i].Name] = out
		}
	}
	return m
}

// with returns a copy of r in which step i has the output out.
func (r Instance) with(i int, out json.RawMessage) Instance {
	r.outputs = slices.Clone(r.outputs)
	r.outputs[i] = orNull(out)
	return r
}

// without returns a copy of r in which no step from i on has an output.
func (r Instance) without(i int) Instance {
	r.outputs = slices.Clone(r.outputs)
	clear(r.outputs[i:])
	return r
}

// refusal reports whether the participant refused the attempt permanently.
func (l *StepLog) refusal() bool {
	return l.Final && l.Error != nil && !l.Error.Retryable && l.Error.Type != typeOperator
}

// typeOperator is the type of errors that operators cause.
const typeOperator = "operator"

// job returns the call of the current step if that is a job, otherwise nil.
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
