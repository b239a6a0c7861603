package saga

import (
	"encoding/json"
	"time"

	"github.com/skald-saga/skald/internal/retry"
)

// Verdict is the meaning of a participant's answer (requirements/invariants.md 3.7).
type Verdict int

// Verdicts.
const (
	Done       Verdict = iota + 1 // 2xx: applied
	Refused                       // definite: not applied by this attempt, not retried
	Unknown                       // no answer, 5xx, garbage: may have been applied
	NotApplied                    // certainly not applied, worth another try: dial failed, 425, 429
)

// Outcome is the result of one attempt, ready to be recorded.
type Outcome struct {
	Verdict    Verdict
	Class      retry.Class     // why, unless Done
	Code       string          // e.g. "http_409", "timeout": Error.Code and StepLog.Outcome
	Message    string          // for people; never more than 1,000 characters
	Output     json.RawMessage // canonical JSON when Done; nil when the answer had no body
	Response   json.RawMessage // canonical JSON of a refusal's body; nil when there was none
	StackTrace string          // where the participant failed, as it reports; "" if it does not
	Cause      *Error          // the cause, as the participant reports, without times; nil if it does not
	Request    []byte          // the body sent
	RetryAfter time.Duration   // the participant's Retry-After; 0 if none
	StartedAt  time.Time
	EndedAt    time.Time
	// InDoubt means that this attempt had already sent the request over a kept connection,
	// which broke without an answer. That request may have been applied, regardless of this
	// answer.
	InDoubt bool
	// Last means that the retries are used up elsewhere (by the job). No further attempt
	// follows, regardless of the step's policy.
	Last bool
}
