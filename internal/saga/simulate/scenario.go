package simulate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/strictjson"
)

// SagaID is the id that simulated sagas have.
var SagaID = uuid.UUID{6: 0x70, 8: 0x80, 15: 1}

// MostCalls is how many calls and job runs a simulation makes, MostAnswers how many answers one may choose, and
// MostBytes after how many bytes of requests and answers it stops.
const (
	MostCalls   = 500
	MostAnswers = 500
	MostBytes   = 8 << 20

	mostSteps = 10 * MostCalls // of a play, with waits and turns
)

// Limits are those of the server.
type Limits struct {
	StepTimeout         time.Duration
	Timeout             time.Duration // of a saga; 0: none
	CompensationTimeout time.Duration // 0: none
	Budget              saga.Budget
}

// Scenario is a saga to be played.
type Scenario struct {
	Definition *workflow.Definition
	Version    int // 0: 1
	Spec       saga.Spec
	// Answers are for the successive calls of a step, by KeyOf; the last one is repeated. A call without any
	// succeeds without a body.
	Answers map[string][]Answer
	// CancelAt is the step during whose first call a cancel is requested; "": none.
	CancelAt string
	Start    time.Time
	Limits   Limits
	// Address fills in where a call goes that names its participant; false: there is no such
	// participant. Nil: every participant is there, at an address that is not known.
	Address func(c *saga.Call) bool
}

// Answer is what comes back: an HTTP answer, a fault, or the end of a job run.
type Answer struct {
	Status   int // of HTTP
	Headers  map[string]string
	Body     json.RawMessage // JSON; of a run: its result
	Fault    string          // one of Faults
	RunState string          // one of RunStates
	TakesMS  int64           // how long it takes; a timeout takes as long as it may
}

// Faults are what can happen instead of an answer.
var Faults = []string{"timeout", "connection_lost", "invalid_response", "dial_failed"}

// RunStates are how a job run can end.
var RunStates = []string{"SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELED", "SKIPPED"}

// undo is the suffix of the key of a compensation. Names contain no slash.
const undo = "/compensate"

// KeyOf returns the key of the answers to a step's action, or to its compensation.
func KeyOf(step string, a saga.Action) string {
	if a == saga.Compensate {
		return step + undo
	}
	return step
}

// Check returns the mistakes in a scenario: a payload that the workflow does not take, at /payload, those of the
// answers, at /answers, and in /cancel_at.
func (s *Scenario) Check() fault.Mistakes {
	wrong := s.Definition.Unfit("/payload", s.Spec.Payload)
	n := 0
	for _, key := range slices.Sorted(maps.Keys(s.Answers)) {
		at := "/answers/" + strictjson.Token(key)
		c := s.callOf(key)
		if c == nil {
			wrong.Add(at, "invalid", "is neither a step of the workflow nor a compensation (STEP%s) that it has", undo)
			continue
		}
		for i, a := range s.Answers[key] {
			if why := a.mistake(c.Job != ""); why != "" {
				wrong.Add(fmt.Sprintf("%s/%d", at, i), "invalid", "%s", why)
			}
		}
		n += len(s.Answers[key])
	}
	if n > MostAnswers {
		wrong.Add("/answers", "maximum", "has %d answers; at most %d are allowed", n, MostAnswers)
	}
	if s.CancelAt != "" && !slices.Contains(s.Definition.StepNames(), s.CancelAt) {
		wrong.Add("/cancel_at", "invalid", "is not a step of the workflow")
	}
	return wrong
}

// callOf returns the call that a key stands for, nil: there is none.
func (s *Scenario) callOf(key string) *workflow.Call {
	name, compensation := strings.CutSuffix(key, undo)
	for i := range s.Definition.Steps {
		step := &s.Definition.Steps[i]
		switch {
		case step.Name != name:
		case !compensation:
			return &step.Action
		case !step.Compensation.None():
			return &step.Compensation.Call
		}
	}
	return nil
}

// mistake returns what is wrong with an answer to a call; "": nothing.
func (a *Answer) mistake(job bool) string {
	given := 0
	for _, there := range []bool{a.Status != 0, a.Fault != "", a.RunState != ""} {
		if there {
			given++
		}
	}
	switch {
	case given > 1:
		return "may have one of status, fault and run_state"
	case job && (a.Status != 0 || a.Fault != "" || a.Headers != nil):
		return "is for a job: it may have run_state, body and takes_ms"
	case !job && a.RunState != "":
		return "is for a call by HTTP: it has no run_state"
	case a.Fault != "" && !slices.Contains(Faults, a.Fault):
		return fmt.Sprintf("has an unknown fault; known are %v", Faults)
	case a.RunState != "" && !slices.Contains(RunStates, a.RunState):
		return fmt.Sprintf("has an unknown run_state; known are %v", RunStates)
	case a.Fault != "" && (a.Body != nil || a.Headers != nil):
		return "is a fault: it has neither body nor headers"
	}
	return ""
}
