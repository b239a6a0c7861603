package jobrun

import (
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// WithPresent adds the run's last attempt, which its row contains, to the stored attempts, unless
// it is already among them.
func (r *Run) WithPresent(attempts []Attempt) []Attempt {
	if r.Attempt == 0 || r.AssignedAt == nil || len(attempts) > 0 && attempts[len(attempts)-1].Number >= r.Attempt {
		return attempts
	}
	a := Attempt{
		Number:     r.Attempt,
		Fence:      r.Fence(),
		FencingSeq: r.FencingSeq,
		AssignedAt: *r.AssignedAt,
		StartedAt:  r.StartedAt,
		EndedAt:    r.FinishedAt,
	}
	if r.State.Terminal() {
		a.Outcome, a.Reason = string(r.State), r.Summary()
	}
	return append(slices.Clip(attempts), a)
}

// Story merges the stored events of r with the events that its row and its attempts imply, in
// chronological order.
func (r *Run) Story(attempts []Attempt, stored []HistoryEvent) []HistoryEvent {
	story := []HistoryEvent{{At: r.CreatedAt, Kind: WasCreated, To: Pending, Version: 1, Reason: r.origin()}}
	for _, a := range r.WithPresent(attempts) {
		e := HistoryEvent{
			At:       a.AssignedAt,
			Kind:     WasAssigned,
			To:       Assigned,
			Attempt:  a.Number,
			Epoch:    a.Fence.LeaderEpoch,
			WorkerID: a.Fence.WorkerID,
		}
		if e.From = Pending; a.Number > 1 {
			e.From = Orphaned
		}
		story = append(story, e)
		if a.StartedAt != nil {
			e.At, e.Kind, e.From, e.To = *a.StartedAt, WasStarted, Assigned, Running
			story = append(story, e)
		}
	}
	story = append(story, stored...)
	if r.State == Succeeded && r.FinishedAt != nil {
		story = append(story, HistoryEvent{
			At:       *r.FinishedAt,
			Kind:     WasSucceeded,
			From:     Running,
			To:       Succeeded,
			Version:  r.Version,
			Attempt:  r.Attempt,
			Epoch:    r.LeaderEpoch,
			WorkerID: r.WorkerID,
		})
	}
	slices.SortStableFunc(story, func(a, b HistoryEvent) int { return a.At.Compare(b.At) })
	return story
}

// origin describes what created a run.
func (r *Run) origin() string {
	switch r.Trigger {
	case ByTime:
		return "by the schedule"
	case ByEvent:
		return "by event " + r.EventID.String()
	case ByRetry:
		return fmt.Sprintf("retry %d of run %s", r.RetryNumber, r.RetryOfRunID)
	case ByBackfill:
		return "by backfill " + r.BackfillID.String()
	case BySaga:
		return fmt.Sprintf("by step %d of saga %s", r.SagaStep, r.SagaID)
	case ByLetter:
		return "by a retry of dead letter " + r.LetterID.String()
	}
	if r.RetryOfRunID != uuid.Nil {
		return "manual rerun of run " + r.RetryOfRunID.String()
	}
	return "manually"
}
