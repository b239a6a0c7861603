package sagabulk

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
)

// Outcome is what became of one saga.
type Outcome string

// Outcomes.
const (
	Done    Outcome = "DONE"    // it has accepted the action
	Skipped Outcome = "SKIPPED" // it has not; Item.Code says why
)

// Outcomes is every outcome.
var Outcomes = []Outcome{Done, Skipped}

// Item is one saga that was dealt with.
type Item struct {
	SagaID   uuid.UUID
	Position int64 // from 1
	Outcome  Outcome
	Code     string // of the refusal
	Detail   string
	At       time.Time
	// Workflow and State are those of the saga when the item is read; "" and nil if it is
	// no longer live.
	Workflow string
	State    *saga.State
}

// ItemOf returns the item of a saga that accepted the action, or refused it by a fault.
func ItemOf(id uuid.UUID, refusal *fault.Error, at time.Time) Item {
	if refusal == nil {
		return Item{SagaID: id, Outcome: Done, At: at}
	}
	detail := []rune(refusal.Detail)
	return Item{SagaID: id, Outcome: Skipped, Code: refusal.Code, Detail: string(detail[:min(len(detail), 500)]), At: at}
}
