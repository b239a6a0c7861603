package simulate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/strictjson"
)

// SagaID is the id of simulated sagas.
var SagaID = uuid.UUID{6: 0x70, 8: 0x80, 15: 1}

// MostCalls is the maximum number of calls and job runs in a simulation, MostAnswers the maximum
// number of chosen answers, and MostBytes the total size of requests and answers after which it
// stops.
const (
	MostCalls   = 500
	MostAnswers = 500
	MostBytes   = 8 << 20

	mostSteps = 10 * MostCalls // of a play, including waits and turns
)

// Limits are the limits of the server.
type Limits struct {
	StepTimeout         time.Duration
	Timeout             time.Duration // of a saga; 0 means none
	CompensationTimeout time.Duration // 0 means none
	Budget              saga.Budget
}

// Scenario is a saga to be played.
type Scenario struct {
	Definition *workflow.Definition
	Version    int // 0 means 1
	Spec       saga.Spec
	// Answers contains the answers to the successive calls of a step, by KeyOf; the last one is
	// repeated. A call without answers succeeds without a body.
	Answers map[string][]Answer
	// CancelAt is the step during whose first call a cancel is requested; "" means none.
	CancelAt string
	Start    time.Time
	Limits   Limits
	// Address fills in the address of a call that names its participant; false means that there is
	// no such participant. A nil function means that every participant exists, at an unknown
	// address.
	Address func(c *saga.Call) bool
}

// undo is the suffix of a compensation's key. Names contain no slash.
const undo = "/compensate"

// KeyOf returns the key of the answers to a step's action or to its compensation.
func KeyOf(step string, a saga.Action) string {
	if a == saga.Compensate {
		return step + undo
	}
	return step
}

// Check returns the mistakes in a scenario that will be played with a Transport: a payload that the
// workflow does not accept (at /payload), mistakes in the answers (at /answers), and an unknown
// step (at /cancel_at).
func (s *Scenario) Check(by Transport) fault.Mistakes {
	wrong := s.Definition.Unfit("/payload", s.Spec.Payload)
	n := 0
	for _, key := range slices.Sorted(maps.Keys(s.Answers)) {
		at := "/answers/" + strictjson.Token(key)
		c, of := s.callOf(key)
		if c == nil {
			wrong.Add(at, "invalid", "is neither a step of the workflow nor one of its compensations (STEP%s)", undo)
			continue
		}
		for i, a := range s.Answers[key] {
			at := fmt.Sprintf("%s/%d", at, i)
			if why := a.mistake(c.Job != ""); why != "" {
				wrong.Add(at, "invalid", "%s", why)
				continue
			}
			if n += 1 + len(a.Reports); len(a.Reports) > 0 {
				s.checkReports(by, of, &a, at+"/reports", &wrong)
			}
		}
	}
	if n > MostAnswers {
		wrong.Add("/answers", "maximum", "has %d answers and reports; at most %d are allowed", n, MostAnswers)
	}
	if s.CancelAt != "" && !slices.Contains(s.Definition.StepNames(), s.CancelAt) {
		wrong.Add("/cancel_at", "invalid", "is not a step of the workflow")
	}
	return wrong
}

// callOf returns the call that a key refers to, or nil if there is none.
func (s *Scenario) callOf(key string) (c *workflow.Call, of saga.Call) {
	name, compensation := strings.CutSuffix(key, undo)
	for i := range s.Definition.Steps {
		step := &s.Definition.Steps[i]
		switch {
		case step.Name != name:
		case !compensation:
			return &step.Action, saga.Call{Step: name, Index: i, Action: saga.Execute, Rules: s.Definition.Rules(i, false)}
		case !step.Compensation.None():
			return &step.Compensation.Call,
				saga.Call{Step: name, Index: i, Action: saga.Compensate, Rules: s.Definition.Rules(i, true)}
		}
	}
	return nil, of
}

// filled returns an answer to a call with its defaults filled in.
func (s *Scenario) filled(a Answer, c *saga.Call) Answer {
	if a.Status == 0 && a.Fault == "" {
		a.Status = 200
	}
	if step := &s.Definition.Steps[c.Index]; a.Body == nil && a.Status == 200 &&
		c.Action == saga.Execute && (step.Answer == nil || step.Answer.Output == nil) {
		a.Body = exampleOf(step.OutputSchema)
	}
	return a
}

// checkReports finds the mistakes in the reports after an answer to a call: either a server would
// refuse such a report, or the answer does not announce any.
func (s *Scenario) checkReports(by Transport, of saga.Call, a *Answer, at string, wrong *fault.Mistakes) {
	if !of.Rules.Later() {
		wrong.Add(at, "invalid", "need an answer that means \"later\", but this call has no rule for such answers")
		return
	}
	if by.Outcome(of, s.filled(*a, &of)).Verdict != saga.Later {
		wrong.Add(at, "invalid", "need an answer that means \"later\", but by the rules of this call this answer does not")
		return
	}
	for i := range a.Reports {
		r, at := &a.Reports[i], fmt.Sprintf("%s/%d", at, i)
		if !slices.Contains(reported.Results, r.Result) {
			wrong.Add(at+"/result", "invalid", "must be one of %v", reported.Results)
			continue
		}
		if i > 0 && a.Reports[i-1].Result != reported.Heartbeat {
			wrong.Add(at, "invalid", "comes after a report that already decided the attempt")
		}
		misplaced := r.Result.Misplaced(of.Action == saga.Compensate, r.Output != nil, r.Error != nil)
		for _, w := range misplaced {
			wrong.Add(at+w.Pointer, "invalid", "%s", w.Why)
		}
		if misplaced != nil || r.Result == reported.Heartbeat {
			continue
		}
		_, err := by.Report(of, r.Result, r.content())
		if unfit := (*reported.Unfit)(nil); errors.As(err, &unfit) {
			wrong.Add(at+unfit.Pointer, "invalid", "%s", unfit.Why)
		}
	}
}
