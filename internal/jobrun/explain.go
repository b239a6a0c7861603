package jobrun

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Waiting is what a run is waiting for.
type Waiting string

// These are the things that a run can wait for.
const (
	ForNothing      Waiting = "nothing"      // nothing: it has ended
	ForSlot         Waiting = "slot"         // its due time
	ForBackoff      Waiting = "backoff"      // its next attempt
	ForKey          Waiting = "key"          // its concurrency key, which another run has
	ForLeader       Waiting = "leader"       // a leader to be elected
	ForWorker       Waiting = "worker"       // a worker that can execute it
	ForTurn         Waiting = "turn"         // a worker to claim it
	ForStart        Waiting = "start"        // its worker to start it
	ForEnd          Waiting = "end"          // its worker to finish it
	ForConfirmation Waiting = "confirmation" // its silent worker to confirm it
	ForCancel       Waiting = "cancel"       // its worker to stop it, as requested
	ForQueue        Waiting = "queue"        // a person to release its queue
)

// Waitings lists all values of Waiting.
var Waitings = []Waiting{ForNothing, ForSlot, ForBackoff, ForKey, ForLeader, ForWorker, ForTurn, ForStart, ForEnd,
	ForConfirmation, ForCancel, ForQueue}

// Situation is a run with the context that Explain needs.
type Situation struct {
	Run    Run
	Leader Leadership
	// Holder is the run that has the concurrency key; nil means that the key is free.
	Holder *Run
	// Workers are the workers of the run's tenant that are not DETACHED. Unknown reports that there
	// are more.
	Workers []WorkerProcess
	Unknown bool
	// Queue is the queue of a run that no worker has.
	Queue RunQueue
	// SagaSuspended reports that the run is a step of a suspended saga and is therefore held.
	SagaSuspended bool
	// Settings determine the durations.
	Settings Settings
	Now      time.Time
	// Decisions are the run's events, oldest first. They contain the reason why the run was skipped
	// or canceled.
	Decisions []HistoryEvent
}

// Explanation describes what a run is waiting for or how it ended.
type Explanation struct {
	WaitsFor Waiting
	Summary  string
	Since    *time.Time // nil: unknown
	Until    *time.Time // when the wait ends without intervention; nil: unknown
	Blocking uuid.UUID  // the run that has the concurrency key; zero: none
}

// Explain explains why a run did not start or has not started yet.
func Explain(s Situation) Explanation {
	r := &s.Run
	switch {
	case r.State.Terminal():
		return Explanation{WaitsFor: ForNothing, Summary: s.epilogue(), Since: r.FinishedAt}
	case r.CancelRequestedAt != nil:
		until := r.CancelRequestedAt.Add(s.Settings.Seconds(CancelGrace))
		return Explanation{ForCancel, fmt.Sprintf("Worker %s was asked to stop the run; if it does not do so by %s, its result is rejected and the run becomes CANCELED.", r.WorkerID, stamp(until)),
			r.CancelRequestedAt, &until, uuid.Nil}
	case r.Continuation == Confirming:
		return Explanation{ForConfirmation, fmt.Sprintf("Worker %s has been silent since its lease expired; unless it confirms the run by %s, the run goes to another worker.", r.WorkerID, stamp(*r.ConfirmDeadlineAt)),
			r.ConfirmStartedAt, r.ConfirmDeadlineAt, uuid.Nil}
	case r.State == Running:
		x := Explanation{WaitsFor: ForEnd, Summary: fmt.Sprintf("Worker %s is executing attempt %d.", r.WorkerID, r.Attempt), Since: r.StartedAt}
		if r.TimeoutMS > 0 && r.StartedAt != nil {
			x.Until = new(r.StartedAt.Add(time.Duration(r.TimeoutMS) * time.Millisecond))
			x.Summary = fmt.Sprintf("Worker %s is executing attempt %d, which may last until %s.", r.WorkerID, r.Attempt, stamp(*x.Until))
		}
		return x
	case r.State == Assigned:
		return Explanation{ForStart, fmt.Sprintf("Worker %s must start the run by %s; otherwise, the run goes to another worker.", r.WorkerID, stamp(*r.LeaseExpiresAt)),
			r.AssignedAt, r.LeaseExpiresAt, uuid.Nil}
	}
	return s.unassigned()
}

// unassigned explains a run that no worker holds.
func (s *Situation) unassigned() Explanation {
	r := &s.Run
	switch {
	case s.SagaSuspended:
		return Explanation{WaitsFor: ForTurn, Summary: fmt.Sprintf("Saga %s is suspended, so this run cannot be claimed until the saga is resumed.", r.SagaID), Since: &r.UpdatedAt}
	case r.State == Orphaned && r.AvailableAt.After(s.Now):
		return Explanation{ForBackoff, fmt.Sprintf("It has no worker (%d of %d losses used up) and can be assigned again at %s.",
			r.LossesUsed, r.MaxLosses, stamp(r.AvailableAt)), &r.UpdatedAt, &r.AvailableAt, uuid.Nil}
	case r.AvailableAt.After(s.Now) && r.Trigger == ByRetry:
		return Explanation{ForBackoff, fmt.Sprintf("It is retry %d (failures so far: %d) and is due at %s.", r.RetryNumber,
			r.FailuresUsed, stamp(r.AvailableAt)), &r.CreatedAt, &r.AvailableAt, uuid.Nil}
	case r.AvailableAt.After(s.Now):
		return Explanation{ForSlot, fmt.Sprintf("It is due at %s.", stamp(r.AvailableAt)), &r.CreatedAt, &r.AvailableAt,
			uuid.Nil}
	case s.Queue.State == QueueHeld:
		why := ""
		if s.Queue.Reason != "" {
			why = ": " + strings.TrimSuffix(s.Queue.Reason, ".")
		}
		return Explanation{WaitsFor: ForQueue, Since: s.Queue.Since, Summary: fmt.Sprintf("Its queue %q has been held since %s by "+
			"%s%s. The run keeps its place and can be claimed once someone releases the queue.",
			r.Queue, stamp(*s.Queue.Since), s.Queue.HeldBy, why)}
	case s.Holder != nil && s.Holder.ID != r.ID:
		return Explanation{ForKey, fmt.Sprintf("Run %s is %s and holds the concurrency key %q; the policy of this run is %s.",
			s.Holder.ID, s.Holder.State, r.ConcurrencyKey, r.Concurrency), &r.AvailableAt, nil, s.Holder.ID}
	case !s.Leader.Alive:
		return Explanation{WaitsFor: ForLeader, Summary: "The scheduler has no leader, so no runs are assigned; active runs continue.", Since: &s.Leader.ExpiresAt}
	case r.AdmittedAt == nil:
		return Explanation{ForTurn, fmt.Sprintf("It is due, but the leader (epoch %d) has not admitted it yet.", s.Leader.Epoch), &r.AvailableAt, nil, uuid.Nil}
	}
	return s.placed()
}

// placed explains a run that is claimable.
func (s *Situation) placed() Explanation {
	r := &s.Run
	x := Explanation{WaitsFor: ForWorker, Since: r.AdmittedAt}
	queue, labels, command, free := 0, 0, 0, 0
	for i := range s.Workers {
		w := &s.Workers[i]
		if w.State != WorkerActive || !slices.Contains(w.Queues, r.Queue) {
			continue
		}
		queue++
		if !w.has(r.RequiredLabels) {
			continue
		}
		labels++
		if !w.runs(r.CommandName) {
			continue
		}
		command++
		if w.Running < w.MaxRuns {
			free++
		}
	}
	switch {
	case s.Unknown && command == 0:
		x.WaitsFor, x.Summary = ForTurn, fmt.Sprintf("It can be claimed from queue %q, but there are too many workers to check which of them can run it.", r.Queue)
	case queue == 0:
		x.Summary = fmt.Sprintf("No active worker takes runs from queue %q.", r.Queue)
	case labels == 0:
		x.Summary = fmt.Sprintf("None of the active workers (%d) of queue %q has all of the labels %v.", queue, r.Queue, r.RequiredLabels)
	case command == 0:
		x.Summary = fmt.Sprintf("None of the active workers (%d) of queue %q with the required labels runs the command %q.", labels, r.Queue, r.CommandName)
	case free == 0:
		x.Summary = fmt.Sprintf("Every worker that can run it is at capacity (%d in total).", command)
	default:
		x.WaitsFor, x.Summary = ForTurn, fmt.Sprintf("It is waiting for its turn, by priority and then by slot (workers that can run it: %d).", free)
	}
	return x
}

// epilogue explains how a run ended.
func (s *Situation) epilogue() string {
	r := &s.Run
	at := stamp(*r.FinishedAt)
	switch r.State {
	case Succeeded:
		return fmt.Sprintf("It succeeded at %s in attempt %d.", at, r.Attempt)
	case Failed:
		return fmt.Sprintf("It failed at %s: %s.", at, r.Summary())
	case TimedOut:
		return fmt.Sprintf("It timed out at %s: %s.", at, r.Summary())
	}
	what, by, why := "canceled", "", ""
	if r.State == Skipped {
		what = "skipped"
	}
	for _, e := range s.Decisions {
		if e.To != r.State && (r.State != Canceled || e.Kind != WasCancelAsk) {
			continue
		}
		if e.Reason != "" {
			why = e.Reason
		}
		if e.Actor != "" {
			by = " by " + e.Actor
		}
	}
	if why == "" {
		return fmt.Sprintf("It was %s at %s%s.", what, at, by)
	}
	if strings.HasPrefix(why, Because) {
		return fmt.Sprintf("It was %s at %s%s, %s.", what, at, by, why)
	}
	return fmt.Sprintf("It was %s at %s%s: %s.", what, at, by, why)
}
