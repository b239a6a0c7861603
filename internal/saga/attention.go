package saga

// The reasons why a saga needs attention (Saga.AttentionReason), unless an operator has asked for
// attention in their own words.
const (
	// These mean that the saga has ended and effects may remain.
	ReasonUndoFailed  = "compensation_failed"  // a compensation gave up
	ReasonUndoTimeout = "compensation_timeout" // the compensation did not end before its deadline
	ReasonForced      = "force_failed"         // an operator forced it to fail, and no compensation has given up

	// These mean that the saga makes no progress (Stalled).
	ReasonUnowned  = "unowned"   // it is due, and no node has taken it
	ReasonNoAnswer = "no_answer" // its call has been in flight for too long
	ReasonFailing  = "failing"   // its retries keep failing

	// These mean that the saga continues only if an operator decides, or that it did not do what
	// was asked of it.
	ReasonStepFailed    = "step_failed"          // it is suspended at a step that has failed
	ReasonPivotDeadline = "deadline_after_pivot" // its deadline has passed, and it can no longer be compensated
	ReasonPivotCancel   = "cancel_after_pivot"   // it was to be compensated, but its pivot was or may have been done
)

// EndReasons, StuckReasons and StopReasons are the three kinds of reasons.
var (
	EndReasons   = []string{ReasonUndoFailed, ReasonUndoTimeout, ReasonForced}
	StuckReasons = []string{ReasonUnowned, ReasonNoAnswer, ReasonFailing}
	StopReasons  = []string{ReasonStepFailed, ReasonPivotDeadline, ReasonPivotCancel}
)
