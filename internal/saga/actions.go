package saga

// Verb is an operator's action, named as in the API.
type Verb string

// Verbs, in the order in which they are listed.
const (
	Cancel             Verb = "cancel"
	CompensateVerb     Verb = "compensate"
	ResumeCompensation Verb = "resume-compensation"
	RetryVerb          Verb = "retry"
	SkipStepVerb       Verb = "skip-step"
	CompleteStepVerb   Verb = "complete-step"
	FailStepVerb       Verb = "fail-step"
	SuspendVerb        Verb = "suspend"
	ResumeVerb         Verb = "resume"
	ExtendDeadline     Verb = "extend-deadline"
	ForceComplete      Verb = "force-complete"
	ForceFail          Verb = "force-fail"
	Acknowledge        Verb = "acknowledge"
)

// orderVerbs are the verbs with which an operator decides about the current step.
var orderVerbs = map[OrderVerb]Verb{SkipStep: SkipStepVerb, CompleteStep: CompleteStepVerb, FailStep: FailStepVerb,
	UndoneStep: SkipStepVerb}

// The verb of each event that records an operator's request, in the order of Verbs.

func (CancelRequested) event() Verb     { return Cancel }
func (CompensateRequested) event() Verb { return CompensateVerb }
func (ResumeRequested) event() Verb     { return ResumeCompensation }
func (RetryRequested) event() Verb      { return RetryVerb }
func (e StepOrdered) event() Verb       { return orderVerbs[e.Verb] }
func (SuspendRequested) event() Verb    { return SuspendVerb }
func (UnsuspendRequested) event() Verb  { return ResumeVerb }
func (DeadlineSet) event() Verb         { return ExtendDeadline }
func (CompletionForced) event() Verb    { return ForceComplete }
func (FailureForced) event() Verb       { return ForceFail }
func (Acknowledged) event() Verb        { return Acknowledge }

// Permission is the permission that a verb requires.
type Permission string

// The permissions of verbs.
const (
	Write Permission = "sagas:write"
	Admin Permission = "sagas:admin"
)

// VerbRule is one row of the table of verbs.
type VerbRule struct {
	Verb        Verb
	Needs       Permission
	Description string // its effect, described for operators
	allowed     func(*Instance) bool
	needs       needs // the content of the saga that must be readable
}

// needs is the set of things that a verb requires of a saga beyond its head row.
type needs int

const (
	needsDefinition needs = 1 << iota
	needsContent
	needsCall // the call in flight: it may be a job run that must be canceled
)

// Verbs is the only definition of when a verb is accepted. Apply rejects a verb if and only if its
// row does.
var Verbs = []VerbRule{
	{Cancel, Write, "compensate everything and end as cancelled", unbound, 0},
	{CompensateVerb, Write, "compensate everything and end as compensated", unbound, 0},
	{
		ResumeCompensation,
		Write,
		"continue compensating, starting with the compensation that gave up",
		func(r *Instance) bool { return r.State == Failed && !r.bound() },
		needsDefinition | needsContent,
	},
	{
		RetryVerb,
		Write,
		"make the next attempt now, with the full number of attempts; a failed saga goes forward again",
		retriable,
		needsDefinition | needsContent,
	},
	{SkipStepVerb, Admin, "skip the current step, or its compensation", orderable, needsDefinition | needsContent},
	{
		CompleteStepVerb,
		Admin,
		"record the current step, or its compensation, as done outside of Skald",
		orderable,
		needsDefinition | needsContent,
	},
	{FailStepVerb, Admin, "fail the current step, or its compensation, without another attempt", func(r *Instance) bool {
		return !r.State.Terminal() && orderable(r) && !r.past()
	}, needsDefinition | needsContent},
	{
		SuspendVerb,
		Write,
		"send nothing new until resumed",
		func(r *Instance) bool { return !r.State.Terminal() && r.SuspendedAt == nil },
		0,
	},
	{
		ResumeVerb,
		Write,
		"resume after a suspension",
		func(r *Instance) bool { return !r.State.Terminal() && r.SuspendedAt != nil },
		0,
	},
	{
		ExtendDeadline,
		Write,
		"set a new deadline for the current phase",
		func(r *Instance) bool { return turnable(r) || undoing(r) },
		0,
	},
	{
		ForceComplete,
		Admin,
		"end as completed, regardless of which steps have run",
		func(r *Instance) bool { return turnable(r) && r.Attempt > 0 },
		needsDefinition | needsContent,
	},
	{
		ForceFail,
		Admin,
		"end as failed immediately, without further compensation",
		func(r *Instance) bool { return !r.State.Terminal() && r.Attempt > 0 },
		needsContent | needsCall,
	},
	{
		Acknowledge,
		Write,
		"mark the saga as seen: it no longer needs attention",
		func(r *Instance) bool { return r.NeedsAttention },
		0,
	},
}

func turnable(r *Instance) bool { return r.State.Forward() && r.EndCause == nil }

// unbound reports whether an operator may ask to compensate the saga.
func unbound(r *Instance) bool { return turnable(r) && !r.bound() }

func undoing(r *Instance) bool { return r.State == Compensating && !r.CompensationExpired }

// orderable reports whether an operator may decide about the current step.
func orderable(r *Instance) bool {
	if r.State == Failed {
		return !r.Halted() // this is the compensation that gave up
	}
	return (turnable(r) || undoing(r)) && r.Attempt > 0 && !r.ordered()
}

// retriable reports whether the saga is waiting for another attempt, or has failed with no step
// undone or possibly undone.
func retriable(r *Instance) bool {
	if r.State == Failed {
		return r.Halted() || !r.partly() && r.EndCause != nil && *r.EndCause == CauseStepFailed && r.undoRefused && !r.undone
	}
	return (turnable(r) || undoing(r)) && r.Failures > 0 && r.NextRunAt != nil && r.awaited == nil && !r.ordered()
}

// ErasedWhy is the reason why a saga without content accepts no actions.
const ErasedWhy = "its content was erased, so it cannot continue"

// lacks reports whether content that a verb requires cannot be read.
func (r *Instance) lacks(n needs) bool {
	return r.undefined && n&needsDefinition != 0 || r.undefined && r.recorded && n&needsCall != 0 ||
		r.ContentUnreadable && n&needsContent != 0 ||
		r.ContentUnreadable && r.Error != nil && r.Error.Message == SealedMessage // the verb would overwrite it
}

// allows reports whether the saga accepts the verb now. A saga without content cannot continue.
func (v *VerbRule) allows(r *Instance) bool { return !r.Erased() && !r.lacks(v.needs) && v.allowed(r) }

// AllowedVerbs returns the verbs that the saga accepts now.
func (r *Instance) AllowedVerbs() (all []VerbRule) {
	for i := range Verbs {
		if Verbs[i].allows(r) {
			all = append(all, Verbs[i])
		}
	}
	return all
}

func allows(v Verb, r *Instance) bool {
	for i := range Verbs {
		if Verbs[i].Verb == v {
			return Verbs[i].allows(r)
		}
	}
	return false
}

// AllowedActions lists the verbs that the saga accepts now.
func (r *Instance) AllowedActions() []string {
	out := []string{}
	for i := range Verbs {
		if Verbs[i].allows(r) {
			out = append(out, string(Verbs[i].Verb))
		}
	}
	return out
}

// AllowedActions lists the verbs that the saga accepts, judged by its head row alone. Whether a
// failed saga may be retried can depend on its step logs; in that case retry is omitted from the
// list.
func (s *Saga) AllowedActions() []string {
	r := Instance{Saga: *s}
	return r.AllowedActions()
}
