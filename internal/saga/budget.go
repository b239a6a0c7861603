package saga

import (
	"fmt"
	"time"

	"github.com/skald-saga/skald/internal/retry"
)

// Budget limits the content of one saga and the body of one call, in bytes; 0 means no limit.
type Budget struct {
	// Saga limits the content of a saga: its payload, the inputs patched by operators, and the
	// outputs of its steps.
	Saga int64
	// Request limits the body of a call.
	Request int64
}

// The outcome codes of a saga that exceeds its budget.
const (
	CodeSagaTooLarge    = "saga_too_large"
	CodeRequestTooLarge = "request_too_large"
)

// The lengths of the fixed parts of a call's body (body).
const (
	bodyFrame = len(`{"saga_id":"","workflow_name":"","step":"","action":"","payload":,"outputs":{}}`) + 36
	undoFrame = len(`,"input":,"output":`)
)

// Unsendable returns the outcome of the current call if it must not be sent, either because the
// budget does not allow its body or because its expressions give no value. A step is also not sent
// if its compensation could not be sent afterwards. The parts of a compensation that come from the
// step's own output are checked when the output arrives. An earlier attempt, made under a larger
// budget, stays in doubt.
func (r *Instance) Unsendable(b Budget, now time.Time) (o Outcome, unsendable bool) {
	k, action := r.CurrentStep, r.Action()
	if r.Def.Computed(k, action == Compensate) {
		_, o, unsendable = r.computed(Defaults{}, b, now)
		return o, unsendable
	}
	if b.Request <= 0 {
		return o, false
	}
	outputs := r.outputsSize()
	size := r.bodySize(k, action, outputs, b.Request)
	return tooLarge(max(size, r.undoSize(outputs, b)), b, now)
}

// undoSize returns the size of the compensation's body for the step whose action is being sent,
// given outputsSize. It is 0 if the step has no compensation or there is no limit.
func (r *Instance) undoSize(outputs int, b Budget) int {
	k := r.CurrentStep
	if b.Request <= 0 || r.State == Compensating || r.Def.Steps[k].Compensation.None() {
		return 0
	}
	return r.bodySize(k, Compensate, outputs, b.Request)
}

func tooLarge(size int, b Budget, now time.Time) (o Outcome, unsendable bool) {
	if b.Request <= 0 || int64(size) <= b.Request {
		return o, false
	}
	return Outcome{
		Verdict: NotApplied, Class: retry.Refused, Code: CodeRequestTooLarge,
		Message: fmt.Sprintf("the request of the step or of its compensation would have %d bytes; "+
			"limits.max_request_bytes allows %d", size, b.Request),
		StartedAt: now, EndedAt: now, Last: true,
	}, true
}

// Prepared returns the call in flight, or the outcome of a call that must not be sent. Use it only
// when Next returns Send.
func (r *Instance) Prepared(d Defaults, b Budget, now time.Time) (c Call, o Outcome, unsendable bool) {
	if !r.Def.Computed(r.CurrentStep, r.Action() == Compensate) {
		if o, unsendable = r.Unsendable(b, now); unsendable {
			return c, o, true
		}
		return r.Call(d), o, false
	}
	return r.computed(d, b, now)
}

// computed is Prepared for a call with expressions.
func (r *Instance) computed(d Defaults, b Budget, now time.Time) (c Call, o Outcome, unsendable bool) {
	c, err := r.call(d)
	if err != nil {
		return c, unmapped(err, now), true
	}
	o, unsendable = tooLarge(max(len(c.Body), r.undoSize(r.outputsSize(), b)), b, now)
	return c, o, unsendable
}

// affordable returns o unless its output exceeds the budget of the saga, or the budget of a
// compensation that would have to carry it. In that case it drops the output, and the step fails as
// one that was applied and must be compensated.
func (d *decision) affordable(o Outcome) Outcome {
	b, r := d.m.Budget, &d.After
	if o.Verdict != Done || b.Saga <= 0 && b.Request <= 0 {
		return o
	}
	k := d.s.CurrentStep
	code, message := "", ""
	if held := r.held() + len(o.Output); b.Saga > 0 && int64(held) > b.Saga {
		code = CodeSagaTooLarge
		message = fmt.Sprintf("with the step's output, the saga would have %d bytes; limits.max_saga_bytes allows %d",
			held, b.Saga)
	}
	if b.Request > 0 && code == "" {
		with := r.with(k, o.Output)
		outputs := with.outputsSize()
		for i := k; i >= 0 && code == ""; i-- {
			if r.Def.Steps[i].Compensation.None() || i < k && r.Def.Computed(i, true) && !r.Def.UndoReads(i, k) {
				continue
			}
			if size := with.bodySize(i, Compensate, outputs, b.Request); int64(size) > b.Request {
				code = CodeSagaTooLarge
				message = fmt.Sprintf("with the step's output, the compensation of step %q would have %d bytes; "+
					"limits.max_request_bytes allows %d", r.Def.Steps[i].Name, size, b.Request)
			}
		}
	}
	if code == "" {
		return o
	}
	return Outcome{
		Verdict: Unknown, Class: retry.BadResponse, Code: code, Message: message, Request: o.Request,
		Parts: o.Parts, StartedAt: o.StartedAt, EndedAt: o.EndedAt, Last: true,
	}
}

// held returns the size of the saga's content in bytes.
func (r *Instance) held() int {
	n := len(r.Payload)
	for _, out := range r.outputs {
		n += len(out)
	}
	if r.Interventions != nil {
		for _, by := range r.Interventions.Steps {
			n += len(by.Input)
		}
	}
	return n
}

// outputsSize returns the number of bytes that the outputs take in the body of a call, including a
// comma after each.
func (r *Instance) outputsSize() int {
	n := 0
	for i, out := range r.outputs {
		if out != nil {
			n += len(r.Def.Steps[i].Name) + len(`"":,`) + len(out)
		}
	}
	return n
}

// smallValue is an upper bound for the values that an expression names besides payload, input and
// outputs, such as a key or an id.
const smallValue = 4096

// bodySize returns the size of the body of a call of step k without building it, given outputsSize.
// It may count one byte too many, for the last comma. For a body with expressions it returns an
// upper bound if that is within the limit, and otherwise builds the body. The size is 0 if the
// expressions give no value.
func (r *Instance) bodySize(k int, a Action, outputs int, limit int64) int {
	step := &r.Def.Steps[k]
	by := &step.Action
	if a == Compensate {
		by = &step.Compensation.Call
	}
	if undo := a == Compensate; r.Def.Computed(k, undo) { // held takes time proportional to the number of steps
		if most, ok := r.Def.MostBytes(k, undo, max(r.held(), smallValue)); ok && int64(most) <= limit {
			return most
		} else if ok {
			return r.filledSize(k, a)
		}
	}
	input := len(orNull(r.input(k)))
	if by.Args != nil {
		return r.Def.ArgsSize(by, r.input(k), r.Outputs())
	}
	size := bodyFrame + len(r.WorkflowName) + len(step.Name) + len(Execute) + input + outputs
	if a == Compensate {
		size += len(Compensate) - len(Execute) + undoFrame + input + len(orNull(r.outputs[k]))
	}
	return size
}

// filledSize builds the body of a call of step k and returns its size, which is 0 if its
// expressions give no value.
func (r *Instance) filledSize(k int, a Action) int {
	of := *r
	if of.CurrentStep, of.State = k, Running; a == Compensate {
		of.State = Compensating
	}
	return len(of.Call(Defaults{}).Body)
}
