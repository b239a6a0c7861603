package saga

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Recorded returns the body of the call as JSON for its records. A body that is not JSON becomes a
// string.
func (c *Call) Recorded() []byte {
	if c.ContentType == "" {
		return c.Body
	}
	return appendEscaped(nil, string(c.Body))
}

// Call returns the call in flight. Use it only when Next returns Send. Its body is nil if its
// expressions give no value (Unsendable).
func (r *Instance) Call(d Defaults) Call {
	c, err := r.call(d)
	if err != nil {
		c.Body = nil
	}
	return c
}

// call also returns the reason why the call's expressions gave no value, as an *expression.Failure.
func (r *Instance) call(d Defaults) (Call, error) {
	step := &r.Def.Steps[r.CurrentStep]
	c := Call{
		SagaID: r.ID, Tenant: r.Tenant.ID, Step: step.Name, Index: r.CurrentStep, Action: r.Action(),
		Attempt: r.Attempt, Fence: r.LeaseEpoch,
		Timeout: r.Def.StepTimeout(r.CurrentStep, d.StepTimeout), OwnTimeout: step.TimeoutMS > 0,
	}
	c.Trace, c.TraceState, c.Baggage = textOf(r.TraceID), textOf(r.TraceState), textOf(r.Baggage)
	word, reruns := wordOf(c.Action), r.intervened(r.CurrentStep).Runs
	by := &step.Action
	if c.Action == Compensate {
		reruns = r.intervened(r.CurrentStep).Undos
		by = &step.Compensation.Call
	}
	c.By = *by
	c.Key = fmt.Sprintf("%s/%s/%s", r.ID, step.Name, word)
	if r.TenantInKeys { // two tenants may use the same id, and a participant may serve both (decision 0047)
		c.Key = r.Tenant.ID.String() + "/" + c.Key
	}
	if reruns > 0 { // an operator has changed the call (decision 0023)
		c.Key += fmt.Sprintf("#%d", reruns+1)
	}
	if r.Def.Plan != nil {
		var err error
		if c, err = r.filled(c); err != nil {
			return c, err
		}
	}
	switch {
	case c.Body != nil:
	case by.Args != nil:
		c.Body = r.Def.JobArgs(by, r.input(r.CurrentStep), r.Outputs())
	default:
		c.Body, c.Parts = r.body(step, c.Action), r.parts()
	}
	return c, nil
}

// body builds the request body.
func (r *Instance) body(step *workflow.Step, action Action) []byte {
	c := body{
		saga: r.ID, workflow: r.WorkflowName, step: step.Name, word: wordOf(action), input: r.input(r.CurrentStep),
		outputs: r.outputs, of: r.CurrentStep,
	}
	return c.appendTo(make([]byte, 0, 256+2*len(r.Payload)), func(i int) string { return r.Def.Steps[i].Name })
}

// Headers returns the headers of the call, except those that depend on the time at which it is
// sent: X-Saga-Fence, X-Saga-Deadline and traceparent. Non-ASCII characters are percent-encoded.
func (c *Call) Headers() map[string]string {
	_, _, own := c.By.Request()
	h := make(map[string]string, len(own)+6)
	maps.Copy(h, own)
	h["Content-Type"] = cmp.Or(c.ContentType, "application/json")
	h["Idempotency-Key"] = encoded(c.Key)
	h["X-Saga-Id"] = c.SagaID.String()
	h["X-Saga-Tenant"] = c.Tenant.String()
	h["X-Saga-Step"] = encoded(c.Step)
	h["X-Saga-Action"] = strings.ToLower(string(c.Action))
	h["X-Saga-Attempt"] = strconv.Itoa(c.Attempt)
	return h
}

func encoded(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if s[i] > ' ' && s[i] < 0x7f {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}
