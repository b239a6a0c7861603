package saga

import (
	"strconv"

	"github.com/skald-saga/skald/internal/httpkit/planned"
)

// Changes returns what the change itself would change, for people who decide whether to make it. What follows
// from it is in DryRun.
func (c *Change) Changes(before *Instance) (all planned.List) {
	after := &c.After
	attention := attentionOf(before, after)
	all.Differs("state", before.State.String(), after.State.String())
	if after.State.Terminal() {
		return append(all, attention...)
	}
	all.Differs("current_step", before.stepName(), after.stepName())
	all.Differs("end_cause", causeText(before.EndCause), causeText(after.EndCause))
	if before.State.Forward() == after.State.Forward() { // otherwise the store sets that of the new phase
		all.Differs("deadline", planned.Text(before.Deadline()), planned.Text(after.Deadline()))
	}
	if before.State == after.State && before.CurrentStep == after.CurrentStep {
		all.Differs("failures", strconv.Itoa(before.Failures), strconv.Itoa(after.Failures))
	}
	if before.State == after.State && after.SuspendedAt == nil && before.SuspendedAt == nil {
		all.Differs("next_run_at", planned.Text(before.NextRunAt), planned.Text(after.NextRunAt))
	}
	all.Differs("suspended_at", planned.Text(before.SuspendedAt), planned.Text(after.SuspendedAt))
	all.Differs("order", before.orderText(), after.orderText())
	return append(all, attention...)
}

func attentionOf(before, after *Instance) (all planned.List) {
	reason := func(r *Instance) string {
		if !r.NeedsAttention {
			return ""
		}
		if r.AttentionReason == nil {
			return "needs attention"
		}
		return *r.AttentionReason
	}
	all.Differs("attention_reason", reason(before), reason(after))
	return all
}

// stepName returns the name of the current step, "" if that is unknown.
func (r *Instance) stepName() string {
	if r.Undefined() || r.CurrentStep >= len(r.Def.Steps) {
		return ""
	}
	return r.Def.Steps[r.CurrentStep].Name
}

func (r *Instance) orderText() string {
	if !r.ordered() {
		return ""
	}
	return string(r.Interventions.Order.Verb)
}

func causeText(c *Cause) string {
	if c == nil {
		return ""
	}
	return string(*c)
}
