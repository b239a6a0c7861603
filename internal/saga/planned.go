package saga

import (
	"strconv"
	"time"
)

// PlannedChange is a member of a saga that a change gives another value; "" stands for none.
type PlannedChange struct{ Member, From, To string }

// Changes returns what the change itself would change, for people who decide whether to make it. What follows
// from it is in DryRun.
func (c *Change) Changes(before *Instance) (all []PlannedChange) {
	after := &c.After
	attention := attentionOf(before, after)
	differs := func(member, from, to string) {
		if from != to {
			all = append(all, PlannedChange{member, from, to})
		}
	}
	differs("state", before.State.String(), after.State.String())
	if after.State.Terminal() {
		return append(all, attention...)
	}
	differs("current_step", before.stepName(), after.stepName())
	differs("end_cause", causeText(before.EndCause), causeText(after.EndCause))
	if before.State.Forward() == after.State.Forward() { // otherwise the store sets that of the new phase
		differs("deadline", timeText(before.Deadline()), timeText(after.Deadline()))
	}
	if before.State == after.State && before.CurrentStep == after.CurrentStep {
		differs("failures", strconv.Itoa(before.Failures), strconv.Itoa(after.Failures))
	}
	if before.State == after.State && after.SuspendedAt == nil && before.SuspendedAt == nil {
		differs("next_run_at", timeText(before.NextRunAt), timeText(after.NextRunAt))
	}
	differs("suspended_at", timeText(before.SuspendedAt), timeText(after.SuspendedAt))
	differs("order", before.orderText(), after.orderText())
	return append(all, attention...)
}

func attentionOf(before, after *Instance) []PlannedChange {
	reason := func(r *Instance) string {
		if !r.NeedsAttention {
			return ""
		}
		if r.AttentionReason == nil {
			return "needs attention"
		}
		return *r.AttentionReason
	}
	if from, to := reason(before), reason(after); from != to {
		return []PlannedChange{{"attention_reason", from, to}}
	}
	return nil
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

func timeText(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
