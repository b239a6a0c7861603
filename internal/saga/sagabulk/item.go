package sagabulk

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
)

// Outcome is the outcome of a bulk for one saga.
type Outcome string

// Outcomes.
const (
	Done    Outcome = "DONE"    // the saga accepted the action
	Skipped Outcome = "SKIPPED" // the saga refused it; Item.Code says why
)

// Outcomes lists every outcome.
var Outcomes = []Outcome{Done, Skipped}

// Item is one saga that a bulk has processed.
type Item struct {
	SagaID   uuid.UUID
	Position int64 // counted from 1
	Outcome  Outcome
	Code     string // the code of the refusal
	Detail   string // the text of the refusal, or what the accepted action is waiting for
	At       time.Time
	// Workflow and State are those of the saga when the item is read. They are "" and nil if the
	// saga is no longer live.
	Workflow string
	State    *saga.State
}

// Accepted returns the item of a saga that accepted the action; after is its new state.
func Accepted(after *saga.Instance, at time.Time) Item {
	i := Item{SagaID: after.ID, Outcome: Done, At: at}
	if after.SuspendedAt != nil { // until the saga resumes, nothing else shows that the action was accepted
		i.Detail = after.Pending()
	}
	return i
}

// Late is the refusal of a saga that was created after the request that names it.
func Late(id uuid.UUID) *fault.Error {
	return fault.New(fault.NotFound, saga.CodeNotFound, "saga %s did not exist yet when the bulk operation was requested", id)
}

// Refused returns the item of a saga that refused the action.
func Refused(id uuid.UUID, refusal *fault.Error, at time.Time) Item {
	detail := []rune(refusal.Detail)
	return Item{SagaID: id, Outcome: Skipped, Code: refusal.Code, Detail: string(detail[:min(len(detail), 500)]), At: at}
}
