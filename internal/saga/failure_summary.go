package saga

import "time"

// Trouble is the summary of a saga's failure. A store keeps it in addition to the saga's head, so
// that sagas can be found and counted by it. In the database a trigger maintains it (migration
// 0263); the contract tests of the stores compare the trigger with this code.
type Trouble struct {
	// TurnedAt is the index of the step that was in flight when the saga began to compensate.
	TurnedAt int
	// Step and Action identify the step whose compensation gave up, or at which the saga began to
	// compensate. They are empty unless the saga has ended in a state other than completed.
	Step   string
	Action Action
	// Since is the time at which the saga began to need attention; zero means that it needs none.
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

// Fits reports whether the filter's conditions on Trouble select a saga. current is the name of its
// current step.
func (f *Filter) Fits(s *Saga, t Trouble, current string) bool {
	step := current
	if s.State.Terminal() {
		step = t.Step
	}
	return (f.Step == "" || f.Step == step) &&
		(!f.OfAttention() || s.NeedsAttention && Within(t.Since, f.AttentionFrom, f.AttentionTo))
}
