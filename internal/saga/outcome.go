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
	Later                         // the participant has taken the work and will report its outcome
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
	Parts      Parts           // of Request
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

// Parts says what a request consists of that Skald has made itself: the saga's payload, and outputs of its
// steps. Byte i is the attempt of step i whose log has the output; 0: the request has none of that step. The
// payload and logs that have ended never change, so the request can be made from them at any time and need
// not be kept in each step log (decision 0158). Nil: only the bytes of the request say what it was.
type Parts []byte

// givenBy returns an attempt as a byte of Parts; 0 for one that has no room in it.
func givenBy(attempt int) byte {
	if attempt > 255 {
		return 0
	}
	return byte(attempt)
}
