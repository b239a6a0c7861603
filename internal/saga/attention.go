package saga

// Why a saga needs attention (Saga.AttentionReason), unless a person has asked for it in words of their own.
const (
	// It ended, and effects may remain.
	ReasonUndoFailed  = "compensation_failed"  // a compensation gave up
	ReasonUndoTimeout = "compensation_timeout" // the compensation did not end before its deadline
	ReasonForced      = "force_failed"         // an operator failed it, and no compensation has given up

	// It makes no progress (Stalled).
	ReasonUnowned  = "unowned"   // due, and no node has taken it
	ReasonNoAnswer = "no_answer" // its call has been in flight for too long
	ReasonFailing  = "failing"   // its retries keep failing

	// It goes on only if a person decides, or it did not do what was asked of it.
	ReasonStepFailed    = "step_failed"          // it is suspended at a step that has failed
	ReasonPivotDeadline = "deadline_after_pivot" // its deadline has passed, and it can no longer be compensated
	ReasonPivotCancel   = "cancel_after_pivot"   // it was to be compensated, but its pivot was done, or may have been
)

// EndReasons, StuckReasons and StopReasons are the three kinds of reasons.
var (
	EndReasons   = []string{ReasonUndoFailed, ReasonUndoTimeout, ReasonForced}
	StuckReasons = []string{ReasonUnowned, ReasonNoAnswer, ReasonFailing}
	StopReasons  = []string{ReasonStepFailed, ReasonPivotDeadline, ReasonPivotCancel}
)
