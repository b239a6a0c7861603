package saga

import (
	"fmt"
	"time"

	"github.com/skald-saga/skald/internal/retry"
)

// Budget limits the content of one saga and the body of one call, in bytes. 0: no limit.
type Budget struct {
	// Saga limits the content of a saga: its payload, inputs patched by operators, and the
	// outputs of its steps.
	Saga int64
	// Request limits the body of a call.
	Request int64
}

// Outcome codes of a saga that exceeds its budget.
const (
	CodeSagaTooLarge    = "saga_too_large"
	CodeRequestTooLarge = "request_too_large"
)

// The fixed parts of the body of a call (body).
const (
	bodyFrame = len(`{"saga_id":"","workflow_name":"","step":"","action":"","payload":,"outputs":{}}`) + 36
	undoFrame = len(`,"input":,"output":`)
)

// Unsendable returns the outcome of the current call if the budget does not allow its
// body: nothing is built and nothing is sent. A step is not sent either if its
// compensation could not be sent afterwards. An earlier attempt, made under a larger
// budget, stays in doubt.
//
// It also returns the outcome of a call whose expressions give nothing. The body of a call with
// expressions is known only when they are evaluated, so that of a compensation is not looked at
// before its step is sent.
func (r *Instance) Unsendable(b Budget, now time.Time) (o Outcome, unsendable bool) {
	if r.Def.Computed(r.CurrentStep, r.Action() == Compensate) {
		c, err := r.call(Defaults{})
		if err != nil {
			return unmapped(err, now), true
		}
		return tooLarge(len(c.Body), b, now)
	}
	if b.Request <= 0 {
		return o, false
	}
	k, outputs := r.CurrentStep, r.outputsSize()
	size := r.bodySize(k, r.Action(), outputs)
	if r.State != Compensating && !r.Def.Steps[k].Compensation.None() {
		size = max(size, r.bodySize(k, Compensate, outputs))
	}
	return tooLarge(size, b, now)
}

func tooLarge(size int, b Budget, now time.Time) (o Outcome, unsendable bool) {
	if b.Request <= 0 || int64(size) <= b.Request {
		return o, false
	}
	return Outcome{
		Verdict: NotApplied, Class: retry.Refused, Code: CodeRequestTooLarge,
		Message: fmt.Sprintf("the request, or that of the step's compensation, would have %d bytes; "+
			"limits.max_request_bytes allows %d", size, b.Request),
		StartedAt: now, EndedAt: now, Last: true,
	}, true
}

// Prepared returns the call in flight, or the outcome of one that is not sent. Use it only when
// Next returns Send.
func (r *Instance) Prepared(d Defaults, b Budget, now time.Time) (c Call, o Outcome, unsendable bool) {
	if !r.Def.Computed(r.CurrentStep, r.Action() == Compensate) {
		if o, unsendable = r.Unsendable(b, now); unsendable {
			return c, o, true
		}
		return r.Call(d), o, false
	}
	c, err := r.call(d)
	if err != nil {
		return c, unmapped(err, now), true
	}
	if o, unsendable = tooLarge(len(c.Body), b, now); unsendable {
		return c, o, true
	}
	return c, o, false
}

// affordable returns o unless its output exceeds the budget of the saga, or of a compensation
// that would have to carry it. Then it drops the output, and the step fails as one that was
// applied and must be compensated.
func (d *decision) affordable(o Outcome) Outcome {
	b, r := d.m.Budget, &d.After
	if o.Verdict != Done || b.Saga <= 0 && b.Request <= 0 {
		return o
	}
	k, out := d.s.CurrentStep, len(orNull(o.Output))
	code, message := "", ""
	if held := r.held() + len(o.Output); b.Saga > 0 && int64(held) > b.Saga {
		code = CodeSagaTooLarge
		message = fmt.Sprintf("with the step's output the saga would hold %d bytes; limits.max_saga_bytes allows %d",
			held, b.Saga)
	}
	if b.Request > 0 && code == "" {
		outputs := r.outputsSize() + len(r.Def.Steps[k].Name) + len(`"":,`) + out
		for i := k; i >= 0 && code == ""; i-- {
			if r.Def.Steps[i].Compensation.None() {
				continue
			}
			size := r.bodySize(i, Compensate, outputs)
			if i == k {
				size += out - len(orNull(nil))
			}
			if int64(size) > b.Request {
				code = CodeSagaTooLarge
				message = fmt.Sprintf("with the step's output the compensation of step %q would have %d bytes; "+
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

// outputsSize returns how many bytes the outputs take in the body of a call, counting a
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

// bodySize returns the size of the body of a call of step k without building it, given
// outputsSize. It may count one byte too many: the last comma.
func (r *Instance) bodySize(k int, a Action, outputs int) int {
	step := &r.Def.Steps[k]
	by := &step.Action
	if a == Compensate {
		by = &step.Compensation.Call
	}
	if r.Def.Computed(k, a == Compensate) {
		return 0
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
