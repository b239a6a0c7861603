// Package explain describes what a saga waits for, what happens next, and what would follow an
// action on it.
//
// The package is pure: it reads the decisions of package saga and makes none.
//
// Files, each on top of those before it: explain, elsewhere, changes, dry_run.
package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
)

// Waits is the kind of event that a saga waits for.
type Waits string

// The events that sagas wait for.
const (
	WaitsNothing  Waits = "nothing"   // nothing: it has ended
	WaitsAnswer   Waits = "answer"    // the outcome of the call in flight
	WaitsRetry    Waits = "retry"     // the due time of its next attempt
	WaitsOwner    Waits = "owner"     // a node that has room for it
	WaitsNewOwner Waits = "new_owner" // a takeover, because its node is dead
	WaitsTurn     Waits = "turn"      // its driver, which must handle a flag or an order
	WaitsResume   Waits = "resume"    // a resume, because it is suspended
	WaitsOperator Waits = "operator"  // an operator, because it has failed

	WaitsReport      Waits = "report"      // the report of a participant that has answered "later"
	WaitsParticipant Waits = "participant" // permission from the gate of a participant
)

// Explanation describes what a saga waits for and what happens next.
type Explanation struct {
	WaitsFor Waits
	AtGateOf string // the participant at whose gate it waits; "" means none
	Since    time.Time
	Next     string     // what happens next; "" means nothing
	NextAt   *time.Time // nil means as soon as the event that it waits for occurs
	Step     *ExplainedStep
	Report   *reported.Wait // the wait for a report; nil means that it waits for none
	Deadline *time.Time
	// BlockedBy is the dead letter that a failed saga waits for; Nil means none.
	BlockedBy uuid.UUID
	Errors    []*saga.Error // newest first, at most five
	Allowed   []saga.VerbRule
	Summary   string
	rest      string // parts of Summary, after the sentence about what it waits for
}

// ExplainedStep is the current step of a saga.
type ExplainedStep struct {
	Index                 int
	Name                  string
	Action                saga.Action
	Attempts, MaxAttempts int
	// InDoubt means that an attempt may have been applied although no answer confirms it.
	InDoubt bool
}

// Saga explains what a saga waits for. logs are all of its step logs, alive reports whether its
// owner's lease is valid, and now is the current time.
func Saga(r *saga.Instance, logs []saga.StepLog, alive bool, now time.Time) Explanation {
	x := Explanation{Since: r.UpdatedAt, Errors: lastErrors(logs), Allowed: r.AllowedVerbs()}
	if r.State.Terminal() {
		x.end(r)
		return x
	}
	if f := r.Unreadable(); f != nil {
		x.damage(r, f.Detail)
		return x
	}
	k := r.CurrentStep
	x.Step = &ExplainedStep{
		Index:       k,
		Name:        r.Def.Steps[k].Name,
		Action:      r.Action(),
		Attempts:    r.Failures,
		MaxAttempts: r.Def.ActionRetry(k, r.RetryPolicy).MaxAttempts,
		InDoubt:     r.Uncertain,
	}
	x.Deadline = r.TimeoutAt
	doing := "executing"
	if r.State == saga.Compensating {
		x.Step.MaxAttempts = r.Def.CompensationPolicy(k).MaxAttempts
		x.Deadline = r.CompensationTimeoutAt
		doing = "compensating"
	}
	run, begun, runs := r.AwaitedRun()
	wait := callback.Wait(r)
	call := fmt.Sprintf("attempt %d of %s step %q", r.AttemptsOf(r.Action()), doing, x.Step.Name)
	switch {
	case r.Stopped():
		x.stop(r)
	case r.SuspendedAt != nil:
		x.WaitsFor, x.Since = WaitsResume, *r.SuspendedAt
		x.Summary = "It is suspended; nothing is sent until it is resumed."
		if decision := r.Pending(); decision != "" {
			x.Next = "once it is resumed, the decision is carried out"
			x.Summary += " " + sentence(decision)
		}
	case r.LeaseOwner != nil && !alive:
		x.WaitsFor = WaitsNewOwner
		x.Next = "another node takes it over and repeats the call in flight"
		x.Summary = "Its node was lost; another node will take it over."
	case r.Pending() != "":
		x.WaitsFor = WaitsTurn
		x.Next = "its node carries out the decision once no call is in flight"
		x.Summary = sentence(r.Pending())
	case runs:
		x.WaitsFor, x.Step.Attempts, x.Since = WaitsAnswer, r.Failures+1, begun
		x.Next = "the outcome of the run decides"
		x.Summary = fmt.Sprintf("It waits for the job run %s, which is %s step %q.", run, doing, x.Step.Name)
	case wait != nil:
		x.report(wait)
	case r.NextRunAt != nil && r.NextRunAt.After(now):
		x.WaitsFor, x.NextAt = WaitsRetry, r.NextRunAt
		x.Next = call
		x.Summary = fmt.Sprintf("It waits until %s for %s.", r.NextRunAt.Format(time.RFC3339), call)
	case r.LeaseOwner == nil:
		x.WaitsFor, x.Next = WaitsOwner, call
		if r.NextRunAt != nil {
			x.Since = *r.NextRunAt
		}
		x.Summary = fmt.Sprintf("It is due for %s and waits for a node with a free slot.", call)
	default:
		x.WaitsFor, x.Step.Attempts = WaitsAnswer, r.Failures+1
		x.Next = "the response decides"
		x.Summary = fmt.Sprintf("It waits for the response to %s.", call)
	}
	waits := len(x.Summary)
	if len(x.Errors) > 0 && r.Failures > 0 && !r.Stopped() {
		x.Summary += fmt.Sprintf(
			" The last attempt ended with %s: %s.",
			x.Errors[0].Code,
			strings.TrimSuffix(x.Errors[0].Message, "."),
		)
	}
	if r.Uncertain {
		x.Summary += doubtOf(x.Step)
	}
	x.Summary += aheadWords(r)
	if x.Deadline != nil && (r.SuspendedAt == nil || r.Stopped()) && !r.Flagged() {
		x.Summary += " Its deadline is " + x.Deadline.Format(time.RFC3339) + "."
	}
	if why := r.OnlyForward(); why != "" {
		x.Summary += " It will not be compensated, not even at its deadline: " + why + "."
	}
	x.Summary += leftWords(r)
	if r.NeedsAttention {
		x.Summary += fmt.Sprintf(" It needs attention: %s.", *r.AttentionReason)
	}
	x.rest = x.Summary[waits:]
	return x
}

// report explains the wait for a report.
func (x *Explanation) report(w *reported.Wait) {
	x.WaitsFor, x.Step.Attempts, x.Since, x.NextAt = WaitsReport, x.Step.Attempts+1, w.Since, w.Until
	x.Report = w
	x.Next = "the report decides; without one, the attempt counts as possibly applied"
	x.Summary = fmt.Sprintf("It waits for a report of step %q", x.Step.Name)
	if x.Step.Action == saga.Compensate {
		x.Summary = fmt.Sprintf("It waits for a report of the compensation of step %q", x.Step.Name)
	}
	if w.Until != nil {
		x.Summary += " until " + w.Until.Format(time.RFC3339)
	}
	if p := w.Progress; p != nil {
		x.Summary += "; last heartbeat " + p.At.Format(time.RFC3339)
		if p.Percent != nil {
			x.Summary += ", " + strconv.FormatFloat(*p.Percent, 'f', -1, 64) + " %"
		}
		if p.Message != "" {
			x.Summary += ": " + strings.TrimSuffix(p.Message, ".")
		}
	}
	x.Summary += "."
}

// doubtOf describes the consequences of an attempt whose answer was lost.
func doubtOf(s *ExplainedStep) string {
	if s.Action == saga.Compensate {
		return " An earlier attempt may have been applied."
	}
	return fmt.Sprintf(" An earlier attempt may have been applied: unless a later one succeeds, "+
		"step %q is compensated as well.", s.Name)
}

// aheadWords describes the steps that may be called before the row shows it (checkpoint: false).
func aheadWords(r *saga.Instance) string {
	if doubted := r.InDoubtAfter(); len(doubted) > 0 {
		return fmt.Sprintf(" The steps after it, up to step %q, may also have been applied, because their outcomes may not have "+
			"been on disk (checkpoint: false): they are called again with the same keys, or compensated first.", doubted[len(doubted)-1])
	}
	if ahead := r.Ahead(); len(ahead) > 0 && r.LeaseOwner != nil {
		return fmt.Sprintf(" Its node may be ahead of the recorded state, at most at step %q (checkpoint: false).",
			ahead[len(ahead)-1])
	}
	return ""
}

// leftWords describes the compensations that were left open, except that of the current step.
func leftWords(r *saga.Instance) string {
	steps := r.LeftSteps()
	if len(steps) == 0 {
		return ""
	}
	names := make([]string, len(steps))
	for i, k := range steps {
		names[i] = strconv.Itoa(k + 1)
		if k < len(r.Def.Steps) && r.Def.Steps[k].Name != "" {
			names[i] = strconv.Quote(r.Def.Steps[k].Name)
		}
	}
	if len(names) == 1 {
		return fmt.Sprintf(" The compensation of step %s also gave up; it has its own dead letter.", names[0])
	}
	return fmt.Sprintf(" The compensations of steps %s also gave up; each has its own dead letter.",
		strings.Join(names, ", "))
}

// stop explains a saga that is suspended at a failed step.
func (x *Explanation) stop(r *saga.Instance) {
	x.WaitsFor, x.Next = WaitsOperator, "retry, complete or skip the step, or compensate"
	if r.OnlyForward() != "" {
		x.Next = "retry, complete or skip the step"
	}
	if r.SuspendedAt != nil {
		x.Since = *r.SuspendedAt
	}
	x.Summary = fmt.Sprintf("It is suspended at the failed step %q and waits for an operator to %s.", x.Step.Name, x.Next)
	if r.Error != nil {
		x.Summary = sentence(r.Error.Message) + " " + x.Summary
	}
	if r.Interventions.Stopped.Besides {
		x.Summary += " An operator had already suspended it, so it must also be resumed before it continues."
	}
}

// damage explains a saga with unreadable parts.
func (x *Explanation) damage(r *saga.Instance, what string) {
	x.WaitsFor, x.Next = WaitsOperator, "it continues within a minute after it can be read completely again"
	x.Summary = sentence(what)
	x.Deadline = r.TimeoutAt
	if r.State == saga.Compensating {
		x.Deadline = r.CompensationTimeoutAt
	}
	if name := r.Def.Steps[r.CurrentStep].Name; name != "" {
		x.Step = &ExplainedStep{
			Index: r.CurrentStep, Name: name, Action: r.Action(), Attempts: r.Failures, InDoubt: r.Uncertain,
		}
	}
	if decision := r.Pending(); decision != "" {
		x.Summary += " " + sentence(decision)
	}
}

// end explains how a saga has ended.
func (x *Explanation) end(r *saga.Instance) {
	x.Since = *r.CompletedAt
	step := "" // the current step, as far as it is known
	if r.CurrentStep < len(r.Def.Steps) {
		step = r.Def.Steps[r.CurrentStep].Name
	}
	if f := r.Unreadable(); f != nil {
		defer func() { x.Summary += " " + sentence(f.Detail) }()
	}
	switch {
	case r.Erased():
		x.WaitsFor = WaitsNothing
		x.Summary = fmt.Sprintf("It ended as %s. %s.", r.State, sentence(saga.ErasedWhy))
	case r.State == saga.Failed && r.Halted():
		x.WaitsFor = WaitsOperator
		x.Summary = fmt.Sprintf("It was forced to fail at step %q; nothing was compensated.", step)
		if step == "" {
			x.Summary = fmt.Sprintf("It was forced to fail at step %d; nothing was compensated.", r.CurrentStep+1)
		}
	case r.State == saga.Failed && step != "":
		x.WaitsFor = WaitsOperator
		x.Step = &ExplainedStep{
			Index: r.CurrentStep, Name: step, Action: saga.Compensate,
			Attempts: r.AttemptsOf(saga.Compensate),
			InDoubt:  r.Uncertain,
		}
		if !r.Undefined() {
			x.Step.MaxAttempts = r.Def.CompensationPolicy(r.CurrentStep).MaxAttempts
		}
		x.Summary = fmt.Sprintf("The compensation of step %q gave up.", x.Step.Name)
		if r.Error != nil {
			x.Summary = sentence(r.Error.Message) // says the same and gives the reason
		}
		if r.Interventions == nil || r.Interventions.Reached == nil {
			x.Summary += fmt.Sprintf(" Step %q and those before it are not compensated.", x.Step.Name)
		}
		x.Summary += leftWords(r)
		if x.BlockedBy = r.DeadLetter(); x.BlockedBy != uuid.Nil {
			x.Summary += fmt.Sprintf(
				" It waits for its dead letter %s: retry the letter, or resolve it once the step has been compensated elsewhere.",
				x.BlockedBy,
			)
		}
	default:
		x.WaitsFor = WaitsNothing
		x.Summary = fmt.Sprintf("It ended as %s.", r.State)
	}
	if r.Error != nil && x.Step == nil {
		x.Summary += " " + sentence(r.Error.Message)
	}
}

// sentence formats a message as a sentence.
func sentence(message string) string {
	first, size := utf8.DecodeRuneInString(message)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(message[size:], ".") + "."
}

// lastErrors returns the errors of the latest failed attempts.
func lastErrors(logs []saga.StepLog) []*saga.Error {
	failed := make([]*saga.StepLog, 0, len(logs))
	for i := range logs {
		if logs[i].Error != nil {
			failed = append(failed, &logs[i])
		}
	}
	slices.SortStableFunc(failed, func(a, b *saga.StepLog) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	out := make([]*saga.Error, 0, 5)
	for _, l := range failed[:min(len(failed), 5)] {
		out = append(out, l.Error)
	}
	return out
}
