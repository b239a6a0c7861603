// Package reported is the vocabulary of reports: what a participant that has answered "later" says of the outcome, to
// the callback URL of the call.
//
// Pure: values in, values out.
package reported

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Result is what a report says. Its words mean what those of the rules of answers mean, except Heartbeat.
type Result string

// Results.
const (
	Done       Result = "done"
	Refused    Result = "refused"
	NotApplied Result = "not_applied"
	Unknown    Result = "unknown"
	Heartbeat  Result = "heartbeat" // the work goes on: the wait begins again
)

// Results lists them.
var Results = []Result{Done, Refused, NotApplied, Unknown, Heartbeat}

// Failed reports whether it says that the work was not done, or perhaps not: such a report may have an error.
func (r Result) Failed() bool { return r == Refused || r == NotApplied || r == Unknown }

// Misplaced returns the members of a report that do not go with its result. undo: it is of a compensation, of which
// nothing is kept.
func (r Result) Misplaced(undo, output, problem bool) (wrong []Unfit) {
	if output && (r != Done || undo) {
		wrong = append(wrong, Unfit{"/output", "goes with the result done of an action"})
	}
	if problem && !r.Failed() {
		wrong = append(wrong, Unfit{"/error", "goes with the results refused, not_applied and unknown"})
	}
	return wrong
}

// What happens to reports that decide nothing, for metrics.
const (
	CountedRepeated = "repeated"
	CountedEarly    = "early"
	CountedLate     = "late"
	CountedInvalid  = "invalid"
)

// Counted lists what happens to reports.
var Counted = []string{
	string(Done), string(Refused), string(NotApplied), string(Unknown), string(Heartbeat),
	CountedRepeated, CountedEarly, CountedLate, CountedInvalid,
}

// Attempt is the attempt that a callback URL is for.
type Attempt struct {
	Tenant, Saga uuid.UUID
	Step         int
	Undo         bool // of the step's compensation
	Number       int  // as in X-Saga-Attempt: no other attempt of the action has it, also after a retry by hand
}

// Bytes returns the attempt as callback tokens have it.
func (a Attempt) Bytes() []byte {
	b := append(append(make([]byte, 0, 48), a.Tenant[:]...), a.Saga[:]...)
	undo := uint64(0)
	if a.Undo {
		undo = 1
	}
	b = binary.AppendUvarint(b, 2*uint64(a.Step)+undo) //nolint:gosec // never negative
	return binary.AppendUvarint(b, uint64(a.Number))   //nolint:gosec // never negative
}

// AttemptOf returns the attempt that Bytes has written; ok is false if they are of none.
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

// Unfit is why what a report returns cannot be kept.
type Unfit struct {
	Pointer string // into the report
	Why     string
}

func (e *Unfit) Error() string { return e.Pointer + ": " + e.Why }

// Standing is the state of an attempt.
type Standing int

// Standings.
const (
	Awaited Standing = iota + 1 // the saga waits for its outcome
	Early                       // its answer is not stored yet: report again soon
	Decided                     // by an earlier report
	Late                        // without a report: nothing that is reported changes anything
)

// CodeLater is the outcome code of a step log whose outcome the participant will report.
const CodeLater = "later"

// codePrefix begins the outcome codes of attempts that a report has decided.
const codePrefix = "reported_"

// Code is the outcome code of an attempt that the result has decided.
func (r Result) Code() string { return codePrefix + string(r) }

// Of returns the result that has decided an attempt with this outcome code; "": none has.
func Of(code *string) Result {
	for _, r := range Results {
		if code != nil && *code == r.Code() {
			return r
		}
	}
	return ""
}

// Outcome codes of a wait that has ended without a report. The step is in doubt.
const (
	CodeExpired = "later_expired" // answer.later_ms has passed since the answer or the last heartbeat
	CodeEnded   = "later_ended"   // the saga is to be compensated, or an operator has decided about the step
)

// Progress is how far the work is, as the last heartbeat said.
type Progress struct {
	At      time.Time `json:"at"`
	Percent *float64  `json:"percent,omitempty"` // 0 to 100
	Message string    `json:"message,omitempty"` // one line, cleaned
}

// Stored returns the progress as it is kept in the log of its attempt.
func (p *Progress) Stored() json.RawMessage {
	b, err := json.Marshal(p)
	if err != nil { // impossible: JSON has all of its numbers
		return nil
	}
	return b
}

// ProgressIn returns the progress that is kept in a log, nil if there was no heartbeat.
func ProgressIn(stored json.RawMessage) *Progress {
	p := &Progress{}
	if stored == nil || json.Unmarshal(stored, p) != nil || p.At.IsZero() {
		return nil
	}
	return p
}

// Wait is the wait for a report.
type Wait struct {
	Attempt  int
	Since    time.Time  // when the participant was called
	Until    *time.Time // when it ends unless a heartbeat comes; nil: it is over
	Progress *Progress  // as the last heartbeat said; nil: there was none
}
