package jobrun

import (
	"cmp"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/retry"
)

// end ends the run. If a cancel was requested, the run is not retried and leaves no dead letter,
// however it ended. end returns false if the table has no such transition.
func (d *decision) end(v verdict) bool {
	r := &d.After
	from := r.State
	if !d.can(v.state, v.by) {
		return false
	}
	d.trust()
	r.State, r.Version = v.state, r.Version+1
	r.FinishedAt, r.UpdatedAt = &d.m.Now, d.m.Now
	r.ExitCode, r.Result, r.Error = v.exitCode, v.result, v.err
	if v.resources != (Resources{}) {
		r.Resources = v.resources
	}
	failed := v.state == Failed || v.state == TimedOut
	if failed && v.err == nil {
		r.Error = &Error{Code: string(v.state), Message: cmp.Or(v.reason, "the run "+string(v.state))}
	}
	if failed {
		r.FailuresUsed++
	}
	d.Final = true
	d.tell(HistoryEvent{
		Kind:     endings[v.state],
		From:     from,
		To:       v.state,
		Epoch:    d.epoch(v.by),
		WorkerID: r.WorkerID,
		Actor:    v.actor,
		Reason:   cmp.Or(v.reason, summary(r.Error)),
	})
	switch {
	case v.state == Succeeded:
		d.updateLetter(dlq.Succeeded)
	case !failed, r.CancelRequestedAt != nil: // the run is no longer wanted
		d.updateLetter(dlq.RetryStopped)
	case r.Error.Retryable && r.FailuresUsed < d.spec.Retry.Or(DefaultRetry).MaxAttempts:
		d.retry()
	default:
		d.giveUp()
	}
	return true
}

var endings = map[State]EventKind{
	Succeeded: WasSucceeded, Failed: WasFailed, TimedOut: WasTimedOut, Canceled: WasCanceled, Skipped: WasSkipped,
}

// DefaultRetry is the policy of a definition that specifies none. It does not retry.
var DefaultRetry = retry.Policy{
	MaxAttempts:       1,
	InitialIntervalMS: 10_000,
	MaxIntervalMS:     600_000,
	Multiplier:        2,
	Jitter:            new(0.2),
	RetryOn:           retry.Classes,
}

// retry adds the run that retries a failure for which the budget is not exhausted. It is a new row
// because terminal rows are final (S5, Oban #193).
func (d *decision) retry() {
	r, m := &d.After, d.m
	policy := d.spec.Retry.Or(DefaultRetry)
	due := m.Now.Add(policy.Delay(r.FailuresUsed, m.Jitter, 0))
	n := Run{
		ID: m.NewID(), TenantID: r.TenantID, DefinitionID: r.DefinitionID, DefinitionName: r.DefinitionName,
		SpecVersion: r.SpecVersion, CommandName: r.CommandName, Version: 1, State: Pending, Trigger: ByRetry,
		ScheduledFor: r.ScheduledFor, AvailableAt: due, Queue: r.Queue, Priority: r.Priority,
		RequiredLabels: r.RequiredLabels, Labels: r.Labels, Args: r.Args, ConcurrencyKey: r.ConcurrencyKey,
		Concurrency: r.Concurrency, TimeoutMS: r.TimeoutMS,
		FailuresUsed: r.FailuresUsed, MaxLosses: r.MaxLosses, Continuation: NoDoubt, Checkpoint: r.Checkpoint,
		RootRunID: r.RootRunID, RetryOfRunID: r.ID, RetryNumber: r.RetryNumber + 1,
		IdempotencyKey: RetryKey(r.ID, r.RetryNumber+1),
		SagaID:         r.SagaID, SagaStep: r.SagaStep, SagaAction: r.SagaAction, EventID: r.EventID, LetterID: r.LetterID,
		BackfillID: r.BackfillID, CorrelationID: r.CorrelationID, TraceID: r.TraceID,
		TraceState: r.TraceState, Baggage: r.Baggage, CreatedAt: m.Now, UpdatedAt: m.Now,
		InitiatedBy: r.InitiatedBy, InitiatedAs: r.InitiatedAs,
	}
	d.Retry, d.Final = &n, false
	d.tell(HistoryEvent{
		Kind:   WasRetried,
		Reason: fmt.Sprintf("failure %d of %d; the retry, run %s, is due at %s", r.FailuresUsed, policy.MaxAttempts, n.ID, due.UTC().Format(time.RFC3339Nano)),
	})
}

// giveUp reports to the dead letters that the run will not be retried (one-product.md, point 4).
func (d *decision) giveUp() {
	r := &d.After
	if r.LetterID != uuid.Nil {
		d.updateLetter(dlq.GaveUp)
		return
	}
	if !deadLettered(d.spec, r) {
		return
	}
	l := letterOf(r, d.m)
	d.LetterUpdate = &dlq.SourceUpdate{Outcome: dlq.GaveUp, Letter: l}
	d.tell(HistoryEvent{Kind: WasDeadLetter, Reason: "dead letter " + l.ID.String()})
}

// deadLettered reports whether a run that gives up becomes a dead letter. The compensation of a
// saga step does not, because the saga stops and has a letter of its own (one-product.md, point 2).
func deadLettered(spec *Spec, r *Run) bool {
	if r.SagaID != uuid.Nil && r.SagaAction == "COMPENSATE" {
		return false
	}
	if spec.DeadLetter != nil {
		return *spec.DeadLetter
	}
	return r.EventID != uuid.Nil || r.SagaID != uuid.Nil
}

// updateLetter reports the result to the dead letter that the run retries, if any.
func (d *decision) updateLetter(told dlq.Outcome) {
	if d.After.LetterID == uuid.Nil {
		return
	}
	n := dlq.SourceUpdate{Outcome: told, ID: d.After.LetterID}
	if told == dlq.GaveUp {
		n.Letter = letterOf(&d.After, d.m)
	}
	d.LetterUpdate = &n
}

// letterOf returns the dead letter of a run that has given up. Its payload is the run's arguments,
// and retrying the letter creates a new run with them.
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
		Message: dlq.Storable(cmp.Or(r.Error.Message, r.Error.Code), dlq.MaxError),
		Type:    dlq.Storable(r.Error.Code, dlq.MaxWord),
		Class:   class,
		Stack:   dlq.Storable(r.Error.Stack, dlq.MaxStack),
	}
}

// summary returns an error as the single line that lists show.
func summary(e *Error) string {
	if e == nil {
		return ""
	}
	return dlq.Storable(e.Code+": "+e.Message, MaxReason)
}

// Summary returns the run's error as the single line that lists show, or "" if it has none.
func (r *Run) Summary() string { return summary(r.Error) }

// RetryKey returns the idempotency key of the n-th retry in a chain, where the given run is the one
// being retried.
func RetryKey(run uuid.UUID, n int) string { return fmt.Sprintf("retry:%s:%d", run, n) }

// Repeats returns nil if a worker's report on an ended run matches the result with which the run
// ended. Fault: Conflict. If the leader ended the run, the worker has no result to compare with.
func (r *Run) Repeats(f *Result) error {
	same := f.ExitCode == r.ExitCode || f.ExitCode != nil && r.ExitCode != nil && *f.ExitCode == *r.ExitCode
	switch {
	case f.Error == nil:
		same = same && string(f.Value) == string(r.Result)
	case r.Error == nil || r.Error.Code == string(r.State) || r.Error.Code == ErrLost:
		return nil
	default:
		same = same && f.Error.Code == r.Error.Code && f.Error.Message == r.Error.Message
	}
	if same || r.ContentUnreadable {
		return nil
	}
	return fault.New(fault.Conflict, CodeOtherResult,
		"attempt %d of this run has already ended as %s with a different result: discard this one", r.Attempt, r.State)
}
