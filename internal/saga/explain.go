package saga

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Waits is what a saga waits for.
type Waits string

// What sagas wait for.
const (
	WaitsNothing  Waits = "nothing"   // it has ended
	WaitsAnswer   Waits = "answer"    // of the call in flight
	WaitsRetry    Waits = "retry"     // the due time of its next attempt
	WaitsOwner    Waits = "owner"     // a node with room for it
	WaitsNewOwner Waits = "new_owner" // its node is dead
	WaitsTurn     Waits = "turn"      // its driver to handle a flag or an order
	WaitsResume   Waits = "resume"    // it is suspended
	WaitsOperator Waits = "operator"  // it has failed and needs an operator

	WaitsParticipant Waits = "participant" // the gate of a participant to let it through
)

// Explanation is what a saga waits for and what happens next.
type Explanation struct {
	WaitsFor Waits
	Since    time.Time
	Next     string     // what happens next, "" nothing
	NextAt   *time.Time // nil: as soon as the event that it waits for occurs
	Step     *ExplainedStep
	Deadline *time.Time
	// BlockedBy is the dead letter that a failed saga waits for; Nil: none.
	BlockedBy uuid.UUID
	Errors    []*Error // newest first, at most five
	Allowed   []VerbRule
	Summary   string
	rest      string // of Summary, after the sentence that says what it waits for
}

// ExplainedStep is the current step of a saga.
type ExplainedStep struct {
	Index                 int
	Name                  string
	Action                Action
	Attempts, MaxAttempts int
	// InDoubt means that an attempt may have been applied although no answer confirms it.
	InDoubt bool
}

// Explain returns what the saga waits for. logs are all of its step logs; alive reports whether
// its owner's lease is valid; now is the current time.
func Explain(r *Instance, logs []StepLog, alive bool, now time.Time) Explanation {
	x := Explanation{Since: r.UpdatedAt, Errors: lastErrors(logs)}
	for _, rule := range Verbs {
		if rule.allows(r) {
			x.Allowed = append(x.Allowed, rule)
		}
	}
	if r.State.Terminal() {
		r.explainEnd(&x)
		return x
	}
	if f := r.Unreadable(); f != nil {
		r.explainDamage(&x, f.Detail)
		return x
	}
	k := r.CurrentStep
	x.Step = &ExplainedStep{
		Index:       k,
		Name:        r.Def.Steps[k].Name,
		Action:      r.Action(),
		Attempts:    r.Failures,
		MaxAttempts: r.policy(k).MaxAttempts,
		InDoubt:     r.Uncertain,
	}
	x.Deadline = r.TimeoutAt
	doing := "executing"
	if r.State == Compensating {
		x.Step.MaxAttempts = r.Def.CompensationPolicy(k).MaxAttempts
		x.Deadline = r.CompensationTimeoutAt
		doing = "compensating"
	}
	call := fmt.Sprintf("attempt %d of %s step %q", r.Attempt-r.base(k, r.Action()), doing, x.Step.Name)
	switch {
	case r.stopped():
		r.explainStop(&x)
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
	case r.flagged() || r.ordered():
		x.WaitsFor = WaitsTurn
		x.Next = "its node carries out the decision once no call is in flight"
		x.Summary = sentence(r.Pending())
	case r.recorded && r.job() != nil:
		x.WaitsFor, x.Step.Attempts, x.Since = WaitsAnswer, r.Failures+1, r.runBegun
		x.Next = "the outcome of the run decides"
		x.Summary = fmt.Sprintf("It waits for the job run %s, which is %s step %q.", r.run, doing, x.Step.Name)
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
		x.Next = "the answer decides"
		x.Summary = fmt.Sprintf("It waits for the answer to %s.", call)
	}
	waits := len(x.Summary)
	if len(x.Errors) > 0 && r.Failures > 0 && !r.stopped() {
		x.Summary += fmt.Sprintf(
			" The last attempt ended with %s: %s.",
			x.Errors[0].Code,
			strings.TrimSuffix(x.Errors[0].Message, "."),
		)
	}
	if r.Uncertain {
		x.Summary += doubtOf(x.Step)
	}
	if x.Deadline != nil && (r.SuspendedAt == nil || r.stopped()) && !r.flagged() {
		x.Summary += " Its deadline is " + x.Deadline.Format(time.RFC3339) + "."
	}
	if r.bound() {
		x.Summary += " It is not compensated, not even at its deadline: " + r.pivotWhy() + "."
	}
	x.Summary += r.leftWords()
	if r.NeedsAttention {
		x.Summary += fmt.Sprintf(" It needs attention: %s.", *r.AttentionReason)
	}
	x.rest = x.Summary[waits:]
	return x
}

// doubtOf describes the consequences of an attempt whose answer was lost.
func doubtOf(s *ExplainedStep) string {
	if s.Action == Compensate {
		return " An earlier attempt may have been applied."
	}
	return fmt.Sprintf(" An earlier attempt may have been applied: unless a later one succeeds, "+
		"step %q is compensated as well.", s.Name)
}

// Pending describes a decision about the saga that is not carried out yet, and when it will be;
// "": none.
func (r *Instance) Pending() string {
	if r.State.Terminal() || !r.flagged() && !r.ordered() {
		return ""
	}
	when := "this takes effect once no call is in flight"
	if r.SuspendedAt != nil {
		when = "it is suspended, so this takes effect once it is resumed"
	}
	return r.decided() + "; " + when
}

// decided describes a decision about the saga that is not carried out yet.
func (r *Instance) decided() string {
	switch {
	case r.CompensationExpired && r.State == Compensating:
		return "the deadline of its compensation has passed"
	case r.flagged() && *r.EndCause == CauseDeadline:
		return "its deadline has passed"
	case r.flagged():
		return "compensation was requested (" + string(*r.EndCause) + ")"
	}
	return "an operator decided to " + string(r.Interventions.Order.Verb) + " its current step"
}

// leftWords describes the compensations that were left, besides that of the current step.
func (r *Instance) leftWords() string {
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
		return fmt.Sprintf(" The compensation of step %s gave up, too: it has a dead letter of its own.", names[0])
	}
	return fmt.Sprintf(" The compensations of steps %s gave up, too: each has a dead letter of its own.",
		strings.Join(names, ", "))
}

// explainStop explains a saga that is suspended at a step that has failed.
func (r *Instance) explainStop(x *Explanation) {
	x.WaitsFor, x.Next = WaitsOperator, "retry, complete or skip the step, or compensate"
	if r.bound() {
		x.Next = "retry, complete or skip the step"
	}
	if r.SuspendedAt != nil {
		x.Since = *r.SuspendedAt
	}
	x.Summary = fmt.Sprintf("It is suspended at step %q, which has failed, and waits for a person to %s.", x.Step.Name, x.Next)
	if r.Error != nil {
		x.Summary = sentence(r.Error.Message) + " " + x.Summary
	}
	if r.Interventions.Stopped.Besides {
		x.Summary += " A person had suspended it before: it goes on once it is resumed, too."
	}
}

// explainDamage explains a saga with unreadable parts.
func (r *Instance) explainDamage(x *Explanation, what string) {
	x.WaitsFor, x.Next = WaitsOperator, "it continues within a minute after all of it can be read again"
	x.Summary = sentence(what)
	x.Deadline = r.TimeoutAt
	if r.State == Compensating {
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

func (r *Instance) explainEnd(x *Explanation) {
	x.Since = *r.CompletedAt
	step := "" // the current one, as far as it is known
	if r.CurrentStep < len(r.Def.Steps) {
		step = r.Def.Steps[r.CurrentStep].Name
	}
	if f := r.Unreadable(); f != nil {
		defer func() { x.Summary += " " + sentence(f.Detail) }()
	}
	switch {
	case r.Erased():
		x.WaitsFor = WaitsNothing
		x.Summary = fmt.Sprintf("It ended as %s. %s.", r.State, sentence(erasedWhy))
	case r.State == Failed && r.halted():
		x.WaitsFor = WaitsOperator
		x.Summary = fmt.Sprintf("It was forced to fail at step %q; nothing was compensated.", step)
		if step == "" {
			x.Summary = fmt.Sprintf("It was forced to fail at step %d; nothing was compensated.", r.CurrentStep+1)
		}
	case r.State == Failed && step != "":
		x.WaitsFor = WaitsOperator
		x.Step = &ExplainedStep{
			Index: r.CurrentStep, Name: step, Action: Compensate,
			Attempts: r.Attempt - r.base(r.CurrentStep, Compensate),
			InDoubt:  r.Uncertain,
		}
		if !r.undefined {
			x.Step.MaxAttempts = r.Def.CompensationPolicy(r.CurrentStep).MaxAttempts
		}
		x.Summary = fmt.Sprintf("The compensation of step %q gave up.", x.Step.Name)
		if r.Error != nil {
			x.Summary = sentence(r.Error.Message) // says the same, and why
		}
		if r.Interventions == nil || r.Interventions.Reached == nil {
			x.Summary += fmt.Sprintf(" Step %q and those before it are not compensated.", x.Step.Name)
		}
		x.Summary += r.leftWords()
		if x.BlockedBy = r.DeadLetter(); x.BlockedBy != uuid.Nil {
			x.Summary += fmt.Sprintf(
				" It waits for its dead letter %s: retry that, or resolve it once the step was compensated elsewhere.",
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

// sentence writes a message as a sentence.
func sentence(message string) string {
	first, size := utf8.DecodeRuneInString(message)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(message[size:], ".") + "."
}

// lastErrors returns the errors of the last attempts that failed.
func lastErrors(logs []StepLog) []*Error {
	failed := make([]*StepLog, 0, len(logs))
	for i := range logs {
		if logs[i].Error != nil {
			failed = append(failed, &logs[i])
		}
	}
	slices.SortStableFunc(failed, func(a, b *StepLog) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	out := make([]*Error, 0, 5)
	for _, l := range failed[:min(len(failed), 5)] {
		out = append(out, l.Error)
	}
	return out
}
