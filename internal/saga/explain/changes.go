package explain

import (
	"strconv"

	"github.com/skald-saga/skald/internal/httpkit/dryrun"
	"github.com/skald-saga/skald/internal/saga"
)

// Changes returns the differences that the change makes directly, for people who decide whether to
// make it. Following returns its consequences.
func Changes(c *saga.Change, before *saga.Instance) (all dryrun.List) {
	after := &c.After
	attention := attentionOf(before, after)
	all.Differs("state", before.State.String(), after.State.String())
	if after.State.Terminal() {
		return append(all, attention...)
	}
	all.Differs("current_step", stepName(before), stepName(after))
	all.Differs("end_cause", causeText(before.EndCause), causeText(after.EndCause))
	if before.State.Forward() == after.State.Forward() { // otherwise the store sets the deadline of the new phase
		all.Differs("deadline", dryrun.Text(before.Deadline()), dryrun.Text(after.Deadline()))
	}
	if before.State == after.State && before.CurrentStep == after.CurrentStep {
		all.Differs("failures", strconv.Itoa(before.Failures), strconv.Itoa(after.Failures))
	}
	if before.State == after.State && after.SuspendedAt == nil && before.SuspendedAt == nil {
		all.Differs("next_run_at", dryrun.Text(before.NextRunAt), dryrun.Text(after.NextRunAt))
	}
	all.Differs("suspended_at", dryrun.Text(before.SuspendedAt), dryrun.Text(after.SuspendedAt))
	all.Differs("order", orderText(before), orderText(after))
	return append(all, attention...)
}

func attentionOf(before, after *saga.Instance) (all dryrun.List) {
	reason := func(r *saga.Instance) string {
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

// stepName returns the name of the current step, or "" if it is unknown.
func stepName(r *saga.Instance) string {
	if r.Undefined() || r.CurrentStep >= len(r.Def.Steps) {
		return ""
	}
	return r.Def.Steps[r.CurrentStep].Name
}

func orderText(r *saga.Instance) string {
	if r.Interventions == nil || r.Interventions.Order == nil {
		return ""
	}
	return string(r.Interventions.Order.Verb)
}

func causeText(c *saga.Cause) string {
	if c == nil {
		return ""
	}
	return string(*c)
}
