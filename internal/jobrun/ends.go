package jobrun

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/retry"
)

// Moment is everything a decision cannot know by itself.
type Moment struct {
	Now    time.Time
	Jitter float64 // in [0,1)
	NewID  func() uuid.UUID
}

// Ending is a run's end and what follows from it: a store writes all of it in one
// transaction (W7, W8).
type Ending struct {
	Run    Run // terminal
	Events []Event
	// Retry is the row that follows (S5); nil: none.
	Retry *Run
	// LetterUpdate is for the dead letters: a new one when the run has given up, or what
	// became of the one that it retries. Nil: nothing.
	LetterUpdate *dlq.SourceUpdate
	// Final tells that the chain of retries has ended with this run: a saga that
	// waits for it goes on.
	Final bool
}

// Outcome is how an execution ended.
type Outcome struct {
	State     State // Succeeded, Failed, TimedOut, Canceled
	By        Mover
	Actor     string
	Epoch     int64 // of the leader, when it decides
	Reason    string
	Error     *Error // of Failed and TimedOut
	ExitCode  *int
	Result    json.RawMessage
	Resources Resources
	LogRef    string
}

// Ended returns what the end of r by o means. What was to be canceled is not tried
// again, however it ended, and is no dead letter. spec is what the run's definition
// said in the run's version.
func Ended(r Run, spec *Spec, o Outcome, m Moment) Ending {
	from := r.State
	r.State, r.Version = o.State, r.Version+1
	r.FinishedAt, r.UpdatedAt = &m.Now, m.Now
	r.Continuation, r.ConfirmStartedAt, r.ConfirmDeadlineAt = NoDoubt, nil, nil
	r.ExitCode, r.Result, r.Error = o.ExitCode, o.Result, o.Error
	if o.Resources != (Resources{}) {
		r.Resources = o.Resources
	}
	failed := o.State == Failed || o.State == TimedOut
	if failed && o.Error == nil {
		r.Error = &Error{Code: string(o.State), Message: cmp.Or(o.Reason, "the run "+string(o.State))}
	}
	if failed {
		r.FailuresUsed++
	}
	e := Ending{Run: r, Final: true}
	e.Events = append(e.Events, Event{
		At: m.Now, Kind: endings[o.State], From: from, To: o.State, Version: r.Version, Attempt: r.Attempt,
		Epoch: o.Epoch, WorkerID: r.WorkerID, Actor: o.Actor, Reason: cmp.Or(o.Reason, summary(r.Error)),
	})
	switch {
	case o.State == Succeeded:
		e.updateLetter(dlq.Succeeded, m)
	case !failed, r.CancelRequestedAt != nil: // nobody wants it any more
		e.updateLetter(dlq.RetryStopped, m)
	case r.Error.Retryable && r.FailuresUsed < spec.Retry.Or(DefaultRetry).MaxAttempts:
		e.retry(spec, m)
	default:
		e.giveUp(spec, m)
	}
	return e
}

var endings = map[State]EventKind{
	Succeeded: WasSucceeded, Failed: WasFailed, TimedOut: WasTimedOut, Canceled: WasCanceled, Skipped: WasSkipped,
}

// DefaultRetry is the policy of a definition that names none: no retry.
var DefaultRetry = retry.Policy{MaxAttempts: 1, InitialIntervalMS: 10_000, MaxIntervalMS: 600_000, Multiplier: 2, Jitter: new(0.2), RetryOn: retry.Classes}

// retry adds the row that follows a failure with budget left: a new one, because
// terminal rows are final (S5, Oban #193).
func (e *Ending) retry(spec *Spec, m Moment) {
	r := &e.Run
	due := m.Now.Add(spec.Retry.Or(DefaultRetry).Delay(r.FailuresUsed, m.Jitter, 0))
	n := Run{
		ID: m.NewID(), TenantID: r.TenantID, DefinitionID: r.DefinitionID, DefinitionName: r.DefinitionName,
		SpecVersion: r.SpecVersion, CommandName: r.CommandName, Version: 1, State: Pending, Trigger: ByRetry,
		ScheduledFor: due, AvailableAt: due, Queue: r.Queue, Priority: r.Priority, RequiredLabels: r.RequiredLabels,
		Labels: r.Labels, Args: r.Args, ConcurrencyKey: r.ConcurrencyKey, Concurrency: r.Concurrency, TimeoutMS: r.TimeoutMS,
		FailuresUsed: r.FailuresUsed, MaxLosses: r.MaxLosses, Continuation: NoDoubt, Checkpoint: r.Checkpoint,
		RootRunID: r.RootRunID, RetryOfRunID: r.ID, RetryNumber: r.RetryNumber + 1,
		IdempotencyKey: RetryKey(r.ID, r.RetryNumber+1),
		SagaID:         r.SagaID, SagaStep: r.SagaStep, SagaAction: r.SagaAction, EventID: r.EventID, LetterID: r.LetterID,
		BackfillID: r.BackfillID, CorrelationID: r.CorrelationID, TraceID: r.TraceID, CreatedAt: m.Now, UpdatedAt: m.Now,
		InitiatedBy: r.InitiatedBy, InitiatedAs: r.InitiatedAs,
	}
	e.Retry, e.Final = &n, false
	e.Events = append(e.Events, Event{
		At: m.Now, Kind: WasRetried, Version: r.Version, Attempt: r.Attempt,
		Reason: fmt.Sprintf("failure %d of %d; run %s is due at %s", r.FailuresUsed, spec.Retry.Or(DefaultRetry).MaxAttempts, n.ID, due.UTC().Format(time.RFC3339Nano)),
	})
}

// giveUp tells the dead letters that nothing more will be tried (one-product.md,
// point 4).
func (e *Ending) giveUp(spec *Spec, m Moment) {
	r := &e.Run
	if r.LetterID != uuid.Nil {
		e.updateLetter(dlq.GaveUp, m)
		return
	}
	if !deadLettered(spec, r) {
		return
	}
	l := letterOf(r, m)
	e.LetterUpdate = &dlq.SourceUpdate{Outcome: dlq.GaveUp, Letter: l}
	e.Events = append(e.Events, Event{
		At: m.Now, Kind: WasDeadLetter, Version: r.Version, Attempt: r.Attempt, Reason: "dead letter " + l.ID.String(),
	})
}

// deadLettered tells whether a run that gave up becomes a dead letter. The
// compensation of a saga's step does not: the saga stops, and its own letter
// stands for it (one-product.md, point 2).
func deadLettered(spec *Spec, r *Run) bool {
	if r.SagaID != uuid.Nil && r.SagaAction == "COMPENSATE" {
		return false
	}
	if spec.DeadLetter != nil {
		return *spec.DeadLetter
	}
	return r.EventID != uuid.Nil || r.SagaID != uuid.Nil
}

// updateLetter tells the dead letter that the run retries, if it does.
func (e *Ending) updateLetter(told dlq.Outcome, m Moment) {
	if e.Run.LetterID == uuid.Nil {
		return
	}
	n := dlq.SourceUpdate{Outcome: told, ID: e.Run.LetterID}
	if told == dlq.GaveUp {
		n.Letter = letterOf(&e.Run, m)
	}
	e.LetterUpdate = &n
}

// letterOf makes a dead letter of a run that has given up. Its payload is the
// run's arguments; a retry makes a new run with them.
func letterOf(r *Run, m Moment) dlq.Letter {
	l := dlq.Letter{
		TenantID: r.TenantID, Source: dlq.FromJob, OriginalTopic: letterTopic(r.DefinitionName), Failure: failureOf(r),
		Content: dlq.Content{Payload: r.Args}, Link: dlq.Link{JobRunID: r.ID, SagaID: r.SagaID},
		CorrelationID: r.CorrelationID, TraceID: r.TraceID,
		MaxRetries: dlq.DefaultPolicy.MaxRetries, Target: dlq.Target{Kind: dlq.ToJobRun, Job: r.DefinitionID.String()},
	}
	return dlq.New(l, m.NewID(), &dlq.DefaultPolicy, dlq.Moment{Now: m.Now, Jitter: m.Jitter})
}

func letterTopic(definition string) string {
	return string([]rune("job." + definition)[:min(dlq.MaxTopic, len([]rune("job."+definition)))])
}

func failureOf(r *Run) dlq.Failure {
	class := dlq.Transient
	if !r.Error.Retryable {
		class = dlq.Permanent
	}
	return dlq.Failure{
		Message: dlq.Storable(cmp.Or(r.Error.Message, r.Error.Code), dlq.MaxError), Type: dlq.Storable(r.Error.Code, dlq.MaxWord),
		Class: class, Stack: dlq.Storable(r.Error.Stack, dlq.MaxStack),
	}
}

// summary is the one line that lists show of an error.
func summary(e *Error) string {
	if e == nil {
		return ""
	}
	return dlq.Storable(e.Code+": "+e.Message, MaxReason)
}

// Summary is the one line that lists show of the run's error, "" without one.
func (r *Run) Summary() string { return summary(r.Error) }
