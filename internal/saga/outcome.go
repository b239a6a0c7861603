package saga

import (
	"encoding/json"
	"time"

	"github.com/skald-saga/skald/internal/retry"
)

// Verdict is what a participant's answer means (requirements/invariants.md 3.7).
type Verdict int

// Verdicts.
const (
	Done       Verdict = iota + 1 // 2xx: applied
	Refused                       // a definite no: not applied by this attempt, not retried
	Unknown                       // no answer, 5xx, garbage: may have been applied
	NotApplied                    // certainly not applied, worth another try: dial failed, 425, 429
)

// Outcome is one attempt's result, ready to be recorded.
type Outcome struct {
	Verdict    Verdict
	Class      retry.Class     // why, unless Done
	Code       string          // e.g. "http_409", "timeout": Error.Code and StepLog.Outcome
	Message    string          // for people; never more than 1,000 characters
	Output     json.RawMessage // canonical JSON when Done; nil when the answer had no body
	Response   json.RawMessage // canonical JSON of a refusal's body; nil when there was none
	StackTrace string          // where the participant failed, by its own account; "" when it does not say
	Cause      *Error          // what caused it, by its own account, without times; nil when it does not say
	Request    []byte          // the body sent
	RetryAfter time.Duration   // the participant's wish; 0 when none
	StartedAt  time.Time
	EndedAt    time.Time
	// InDoubt: within this attempt the request had been sent before, over a kept connection
	// that broke without an answer. That may have been applied, whatever this answer says.
	InDoubt bool
	// Last: the retries are used up elsewhere (by the job). No further attempt follows,
	// whatever the step's policy says.
	Last bool
}
