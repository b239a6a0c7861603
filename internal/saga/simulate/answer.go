package simulate

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/skald-saga/skald/internal/saga/callback/reported"
)

// Answer is the result of a call: an HTTP answer, a fault, or the end of a job run.
type Answer struct {
	Status   int // the HTTP status
	Headers  map[string]string
	Body     json.RawMessage // JSON; for a run, its result
	Fault    string          // one of Faults
	RunState string          // one of RunStates
	TakesMS  int64           // how long the call takes; a timeout takes as long as the call is allowed to
	Reports  []Report        // what is reported afterwards if the answer is "later", in order
}

// Faults are the failures that can occur instead of an answer.
var Faults = []string{"timeout", "connection_lost", "invalid_response", "dial_failed"}

// RunStates are the states in which a job run can end.
var RunStates = []string{"SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELED", "SKIPPED"}

// Report is a participant's report on a call that it has answered with "later".
type Report struct {
	Result  reported.Result
	Output  json.RawMessage // JSON; only for an action that was done
	Error   json.RawMessage // JSON; only for an action that was not done
	AfterMS int64           // how long after the answer or the previous report
}

// content returns the JSON from which an outcome is built.
func (r *Report) content() json.RawMessage {
	if r.Output != nil {
		return r.Output
	}
	return r.Error
}

// mistake returns what is wrong with an answer to a call, or "" if it is valid.
func (a *Answer) mistake(job bool) string {
	given := 0
	for _, there := range []bool{a.Status != 0, a.Fault != "", a.RunState != ""} {
		if there {
			given++
		}
	}
	switch {
	case given > 1:
		return "may have only one of status, fault and run_state"
	case job && (a.Status != 0 || a.Fault != "" || a.Headers != nil || a.Reports != nil):
		return "is for a job: only run_state, body and takes_ms are allowed"
	case !job && a.RunState != "":
		return "is for an HTTP call: run_state is not allowed"
	case a.Fault != "" && !slices.Contains(Faults, a.Fault):
		return fmt.Sprintf("has an unknown fault; it must be one of %v", Faults)
	case a.RunState != "" && !slices.Contains(RunStates, a.RunState):
		return fmt.Sprintf("has an unknown run_state; it must be one of %v", RunStates)
	case a.Fault != "" && (a.Body != nil || a.Headers != nil):
		return "is a fault: body and headers are not allowed"
	}
	return ""
}
