package saga

import (
	"encoding/json"
	"time"

	"github.com/skald-saga/skald/internal/retry"
)

// Verdict is the meaning of a participant's answer (requirements/invariants.md 3.7).
type Verdict int

// The verdicts.
const (
	Done       Verdict = iota + 1 // 2xx: applied
	Refused                       // definite: not applied by this attempt, not retried
	Unknown                       // no answer, 5xx or an invalid answer: may have been applied
	NotApplied                    // certainly not applied and worth another try: dial failed, 425, 429
	Later                         // the participant has accepted the work and will report its outcome
)

// Outcome is the result of one attempt, ready to be recorded.
type Outcome struct {
	Verdict    Verdict
	Class      retry.Class     // the reason, unless Done
	Code       string          // e.g. "http_409", "timeout": Error.Code and StepLog.Outcome
	Message    string          // for people; at most 1,000 characters
	Output     json.RawMessage // canonical JSON when Done; nil if the answer had no body
	Response   json.RawMessage // canonical JSON of a refusal's body; nil if there was none
	StackTrace string          // where the participant failed, as it reports; "" if it reports nothing
	Cause      *Error          // the cause as the participant reports it, without times; nil if it reports none
	Request    []byte          // the body that was sent
	Parts      Parts           // of Request
	RetryAfter time.Duration   // the participant's Retry-After; 0 if none
	StartedAt  time.Time
	EndedAt    time.Time
	// InDoubt means that this attempt had already sent the request over a reused connection, which
	// broke without an answer. That request may have been applied, regardless of this answer.
	InDoubt bool
	// Last means that the retries are already used up elsewhere (by the job). No further attempt
	// follows, regardless of the step's policy.
	Last bool
}

// Parts describes a request that Skald has built from the saga's payload and the outputs of its
// steps. Byte i is the attempt of step i whose log has the output; 0 means that the request does
// not contain that step's output. The payload and ended logs never change, so the request can be
// rebuilt at any time and need not be kept in each step log (decision 0158). If Parts is nil, the
// request can only be kept as bytes.
type Parts []byte

// givenBy returns an attempt as a byte of Parts, or 0 if it does not fit into a byte.
func givenBy(attempt int) byte {
	if attempt > 255 {
		return 0
	}
	return byte(attempt)
}
