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
)

// EndReasons and StuckReasons are the two kinds of reasons.
var (
	EndReasons   = []string{ReasonUndoFailed, ReasonUndoTimeout, ReasonForced}
	StuckReasons = []string{ReasonUnowned, ReasonNoAnswer, ReasonFailing}
)
