package saga

import "time"

// Trouble is the summary of a saga's failure that a store keeps in addition to its head, so
// that sagas can be found and counted by it. In the database a trigger maintains it (migration
// 0263), which the stores' contract tests compare with this.
type Trouble struct {
	// TurnedAt is the index of the step that was in flight when the saga began to compensate.
	TurnedAt int
	// Step and Action are empty unless the saga has ended otherwise than completed: the step
	// whose compensation gave up, or at which it began to compensate.
	Step   string
	Action Action
	// Since is when the saga began to need attention; zero: it does not.
	Since time.Time
}

// After returns the trouble of a saga after a change.
func (t Trouble) After(before *Saga, after *Instance) Trouble {
	if after.NeedsAttention != before.NeedsAttention {
		if t.Since = (time.Time{}); after.NeedsAttention {
			t.Since = after.UpdatedAt
		}
	}
	if after.State == before.State {
		return t
	}
	if before.State.Forward() && !after.State.Forward() {
		t.TurnedAt = before.CurrentStep
	}
	t.Step, t.Action = "", ""
	if !after.State.Terminal() || after.State == Completed {
		return t
	}
	at := t.TurnedAt
	if t.Action = Execute; after.State == Failed && before.State == Compensating {
		at, t.Action = after.CurrentStep, Compensate
	}
	if at < len(after.Def.Steps) {
		t.Step = after.Def.Steps[at].Name
	}
	return t
}

// Fits reports whether the filters on Trouble select a saga. current is the name of its current
// step.
func (f *Filter) Fits(s *Saga, t Trouble, current string) bool {
	step := current
	if s.State.Terminal() {
		step = t.Step
	}
	return (f.Step == "" || f.Step == step) &&
		(!f.OfAttention() || s.NeedsAttention && Within(t.Since, f.AttentionFrom, f.AttentionTo))
}
