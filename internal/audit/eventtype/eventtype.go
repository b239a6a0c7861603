// Package eventtype lists the types of audit events of sagas and of participants.
//
// It is pure: values in, values out.
package eventtype

// Type is the type of an audit event. The types of seed 2 (section saga_events, 事件类型) come first,
// followed by additional ones.
type Type string

// These are the types of seed 2. The first group concerns the saga, the second its compensation.
const (
	SagaStarted   Type = "saga.started"
	SagaCompleted Type = "saga.completed"
	SagaFailed    Type = "saga.failed"
	SagaCancelled Type = "saga.cancelled"
	SagaTimedOut  Type = "saga.timed_out"
	StepStarted   Type = "saga.step.started"
	StepFinished  Type = "saga.step.completed"
	StepFailed    Type = "saga.step.failed"

	CompensationStarted   Type = "compensation.started"
	CompensationCompleted Type = "compensation.completed"
	CompensationFailed    Type = "compensation.failed"
	UndoStarted           Type = "compensation.step.started"
	UndoCompleted         Type = "compensation.step.completed"
	UndoFailed            Type = "compensation.step.failed"

	RetryAttempted Type = "retry.attempted" // another attempt is due
	RetryExhausted Type = "retry.exhausted"
	StateChanged   Type = "state.changed" // a change of state that has no type of its own
)

// These are additional types. They record requests of clients, operators or deadlines before the
// state reflects them.
const (
	CancelAsked       Type = "saga.cancel_requested"
	CompensationAsked Type = "saga.compensation_requested"
	DeadlineReached   Type = "saga.deadline_passed"
	SagaRestored      Type = "saga.restored" // from the archive
	SagaErased        Type = "saga.erased"   // its content was erased

	RetryAsked       Type = "saga.retry_requested"
	ResumeAsked      Type = "saga.compensation_resumed"
	Suspended        Type = "saga.suspended"
	Unsuspended      Type = "saga.resumed"
	DeadlineChanged  Type = "saga.deadline_changed"
	ForceAsked       Type = "saga.end_forced"
	AttentionRaised  Type = "saga.attention_raised"
	AttentionCleared Type = "saga.attention_cleared"
	StepOrder        Type = "saga.step.ordered" // the order is skip, complete or fail
	StepSkipped      Type = "saga.step.skipped"
	NoteChanged      Type = "saga.note_changed"
	CallbackOrphaned Type = "callback.orphaned" // a report came too late

	ParticipantHeld, ParticipantReleased Type = "participant.held", "participant.released" // these belong to no saga
)

// All lists all types.
var All = []Type{
	SagaStarted, SagaCompleted, SagaFailed, SagaCancelled, SagaTimedOut, StepStarted, StepFinished, StepFailed,
	CompensationStarted, CompensationCompleted, CompensationFailed, UndoStarted, UndoCompleted, UndoFailed,
	RetryAttempted, RetryExhausted, StateChanged, CancelAsked, CompensationAsked, DeadlineReached, SagaRestored,
	RetryAsked, ResumeAsked, Suspended, Unsuspended, DeadlineChanged, ForceAsked, AttentionRaised, AttentionCleared,
	StepOrder, StepSkipped, SagaErased, NoteChanged, CallbackOrphaned, ParticipantHeld, ParticipantReleased,
}

// Common reports whether nearly every saga has an event of the type.
func (t Type) Common() bool {
	return t == SagaStarted || t == StepStarted || t == StepFinished || t == SagaCompleted
}
