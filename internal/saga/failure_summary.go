package saga

import (
	"bytes"
	"slices"
	"time"

	"github.com/google/uuid"
)

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

// MostExamined is how many sagas that have ended, and how many unfinished ones, are
// grouped by their errors, and MostErrorGroups how many groups are made of them.
const (
	MostExamined    = 20_000
	MostErrorGroups = 1000
)

// ErrorFilter selects sagas that went wrong: those that need attention and those that
// ended in one of States. Other zero fields do not restrict.
type ErrorFilter struct {
	WorkflowName string
	// States are ended states, or also unfinished ones, whose sagas are selected only if
	// they need attention.
	States                 []State
	NeedsAttention         *bool
	CreatedFrom, CreatedTo time.Time // inclusive, exclusive
	EndedFrom, EndedTo     time.Time
}

// Matches reports whether f selects a saga of its tenant.
func (f *ErrorFilter) Matches(s *Saga) bool {
	list := Filter{WorkflowName: f.WorkflowName, States: f.States, NeedsAttention: f.NeedsAttention,
		CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo, EndedFrom: f.EndedFrom, EndedTo: f.EndedTo}
	return list.Matches(s) && s.State != Completed && (s.State.Terminal() || s.NeedsAttention)
}

// Errors groups failed sagas by their errors.
type Errors struct {
	Groups []ErrorGroup // the largest first
	// Examined is how many sagas are in the groups; Capped: those that were created last,
	// and there may be more.
	Examined int64
	Capped   bool
}

// ErrorGroup is a group of sagas of a workflow with the same error at the same step.
type ErrorGroup struct {
	WorkflowName string
	Step         string // Trouble.Step, or the current step of an unfinished saga
	Action       Action // in which direction
	Code         string // of the error; "": there is none

	States      []State // that they are in
	Count       int64
	Attention   int64 // how many of them need attention
	First, Last time.Time
	Sample      uuid.UUID // the highest id, usually of a recent saga
}

// Key identifies a group.
func (g *ErrorGroup) Key() string {
	return g.WorkflowName + "\x00" + g.Step + "\x00" + string(g.Action) + "\x00" + g.Code
}

// Add counts a saga; at is when it ended or began to need attention.
func (g *ErrorGroup) Add(s *Saga, at time.Time) {
	if g.Count++; g.Count == 1 {
		g.First, g.Last = at, at
	}
	if bytes.Compare(s.ID[:], g.Sample[:]) > 0 {
		g.Sample = s.ID
	}
	if s.NeedsAttention {
		g.Attention++
	}
	if !slices.Contains(g.States, s.State) {
		g.States = append(g.States, s.State)
		slices.Sort(g.States)
	}
	if at.Before(g.First) {
		g.First = at
	}
	if at.After(g.Last) {
		g.Last = at
	}
}

// Compare orders groups: the largest first, then by their keys.
func (g *ErrorGroup) Compare(count int64, key string) int {
	switch {
	case g.Count != count:
		return int(min(1, max(-1, count-g.Count)))
	case g.Key() < key:
		return -1
	case g.Key() > key:
		return 1
	}
	return 0
}
