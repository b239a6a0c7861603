package statistics

import (
	"bytes"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// MostExamined is how many ended sagas, and how many unfinished ones, are grouped by their errors.
// MostErrorGroups is the maximum number of groups.
const (
	MostExamined    = 20_000
	MostErrorGroups = 1000
)

// ErrorFilter selects sagas that went wrong: those that need attention, and those that ended in one
// of States. Other zero fields do not restrict the selection.
type ErrorFilter struct {
	WorkflowName string
	// States may contain ended and unfinished states. Unfinished sagas are selected only if they
	// need attention.
	States                 []saga.State
	NeedsAttention         *bool
	CreatedFrom, CreatedTo time.Time // From is inclusive, To is exclusive
	EndedFrom, EndedTo     time.Time
}

// Matches reports whether f selects a saga of its tenant.
func (f *ErrorFilter) Matches(s *saga.Saga) bool {
	list := saga.Filter{WorkflowName: f.WorkflowName, States: f.States, NeedsAttention: f.NeedsAttention,
		CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo, EndedFrom: f.EndedFrom, EndedTo: f.EndedTo}
	return list.Matches(s) && s.State != saga.Completed && (s.State.Terminal() || s.NeedsAttention)
}

// Errors groups failed sagas by their errors.
type Errors struct {
	Groups []ErrorGroup // largest first
	// Examined is the number of sagas in the groups. Capped means that only the most recently
	// created sagas were examined, and there may be more.
	Examined int64
	Capped   bool
}

// ErrorGroup is a group of sagas of a workflow that have the same error at the same step.
type ErrorGroup struct {
	WorkflowName string
	Step         string      // saga.Trouble.Step, or the current step of an unfinished saga
	Action       saga.Action // direction of the step's call
	Code         string      // code of the error; "" if there is none

	States      []saga.State // states of the sagas
	Count       int64
	Attention   int64 // how many of the sagas need attention
	First, Last time.Time
	Sample      uuid.UUID // the saga with the highest id, usually a recent one
}

// Key identifies a group.
func (g *ErrorGroup) Key() string {
	return g.WorkflowName + "\x00" + g.Step + "\x00" + string(g.Action) + "\x00" + g.Code
}

// Add counts a saga. at is when the saga ended or began to need attention.
func (g *ErrorGroup) Add(s *saga.Saga, at time.Time) {
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

// Compare orders groups by size, largest first, and then by key.
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
