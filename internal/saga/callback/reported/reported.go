// Package reported defines the vocabulary of reports. A participant that has answered "later" sends
// one with the outcome to the callback URL of the call.
//
// The package is pure: values in, values out.
package reported

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Result is the result in a report. The words have the same meaning as in the rules for answers,
// except Heartbeat.
type Result string

// Results.
const (
	Done       Result = "done"
	Refused    Result = "refused"
	NotApplied Result = "not_applied"
	Unknown    Result = "unknown"
	Heartbeat  Result = "heartbeat" // the work is still in progress, so the wait starts again
)

// Results lists every result.
var Results = []Result{Done, Refused, NotApplied, Unknown, Heartbeat}

// Failed reports whether the result says that the work was not done, or may not have been done.
// Such a report may contain an error.
func (r Result) Failed() bool { return r == Refused || r == NotApplied || r == Unknown }

// Misplaced returns the members of a report that do not go with its result. undo means that the
// report is on a compensation, whose output is not stored.
func (r Result) Misplaced(undo, output, problem bool) (wrong []Unfit) {
	if output && (r != Done || undo) {
		wrong = append(wrong, Unfit{"/output", "is allowed only with the result done of an action"})
	}
	if problem && !r.Failed() {
		wrong = append(wrong, Unfit{"/error", "is allowed only with the results refused, not_applied and unknown"})
	}
	return wrong
}

// Counters for reports that decide nothing, for metrics.
const (
	CountedRepeated = "repeated"
	CountedEarly    = "early"
	CountedLate     = "late"
	CountedInvalid  = "invalid"
)

// Counted lists the possible results of a report for metrics.
var Counted = []string{
	string(Done), string(Refused), string(NotApplied), string(Unknown), string(Heartbeat),
	CountedRepeated, CountedEarly, CountedLate, CountedInvalid,
}

// Attempt is the attempt to which a callback URL belongs.
type Attempt struct {
	Tenant, Saga uuid.UUID
	Step         int
	Undo         bool // whether it is an attempt of the step's compensation
	Number       int  // as in X-Saga-Attempt: unique within the action, even after a manual retry
}

// Bytes returns the attempt in the form used in callback tokens.
func (a Attempt) Bytes() []byte {
	b := append(append(make([]byte, 0, 48), a.Tenant[:]...), a.Saga[:]...)
	undo := uint64(0)
	if a.Undo {
		undo = 1
	}
	b = binary.AppendUvarint(b, 2*uint64(a.Step)+undo) //nolint:gosec // never negative
	return binary.AppendUvarint(b, uint64(a.Number))   //nolint:gosec // never negative
}

// AttemptOf is the inverse of Bytes. ok is false if the bytes do not encode an attempt.
func AttemptOf(b []byte) (a Attempt, ok bool) {
	if len(b) < 2*len(a.Saga) {
		return a, false
	}
	b = b[copy(a.Tenant[:], b):]
	b = b[copy(a.Saga[:], b):]
	step, n := binary.Uvarint(b)
	number, m := binary.Uvarint(b[max(n, 0):])
	if n <= 0 || m <= 0 || n+m != len(b) || step > 1<<32 || number > 1<<32 {
		return a, false
	}
	a.Step, a.Undo, a.Number = int(step/2), step%2 == 1, int(number) //nolint:gosec // checked above
	return a, true
}

// Unfit says why the content of a report cannot be stored.
type Unfit struct {
	Pointer string // JSON Pointer into the report
	Why     string
}

func (e *Unfit) Error() string { return e.Pointer + ": " + e.Why }

// Standing is the state of an attempt.
type Standing int

// Standings.
const (
	Awaited Standing = iota + 1 // the saga waits for its outcome
	Early                       // its answer is not stored yet, so the report must be sent again soon
	Decided                     // decided by an earlier report
	Late                        // decided without a report; reports no longer change anything
)

// CodeLater is the outcome code of a step log whose outcome the participant is going to report.
const CodeLater = "later"

// codePrefix is the prefix of the outcome codes of attempts that a report has decided.
const codePrefix = "reported_"

// Code returns the outcome code of an attempt that was decided by the result.
func (r Result) Code() string { return codePrefix + string(r) }

// Of returns the result that decided an attempt with this outcome code, or "" if no report decided
// it.
func Of(code *string) Result {
	for _, r := range Results {
		if code != nil && *code == r.Code() {
			return r
		}
	}
	return ""
}

// Outcome codes of a wait that ended without a report. The step is in doubt.
const (
	CodeExpired = "later_expired" // answer.later_ms has passed since the answer or the last heartbeat
	CodeEnded   = "later_ended"   // the saga is to be compensated, or an operator has decided on the step
)

// Progress is how far the work has progressed according to the last heartbeat.
type Progress struct {
	At      time.Time `json:"at"`
	Percent *float64  `json:"percent,omitempty"` // 0 to 100
	Message string    `json:"message,omitempty"` // one line, cleaned
}

// Stored returns the progress in the form in which the attempt's log stores it.
func (p *Progress) Stored() json.RawMessage {
	b, err := json.Marshal(p)
	if err != nil { // impossible: JSON can represent all of its numbers
		return nil
	}
	return b
}

// ProgressIn returns the progress stored in a log, or nil if there was no heartbeat.
func ProgressIn(stored json.RawMessage) *Progress {
	p := &Progress{}
	if stored == nil || json.Unmarshal(stored, p) != nil || p.At.IsZero() {
		return nil
	}
	return p
}

// Wait is a wait for a report.
type Wait struct {
	Attempt  int
	Since    time.Time  // when the call to the participant began
	Until    *time.Time // when it ends unless a heartbeat arrives; nil means that it is over
	Progress *Progress  // from the last heartbeat; nil if there was none
}
