package statistics

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/explain"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// MostCallers is how many sagas are checked to find out whether a participant answers: the newest
// ones of one workflow, and the same number across all workflows.
const MostCallers = 100

// CallsFilter selects calls of other sagas to the host of a participant.
type CallsFilter struct {
	Host         string // in the form that HostOfCall returns
	WorkflowName string // the workflow whose newest sagas are always checked, however many other sagas there are
	Except       uuid.UUID
}

// OtherCall is the result of the last attempt of another saga's call.
type OtherCall struct {
	At     time.Time
	Status saga.LogStatus
	Class  retry.Class // class of a failed call
}

// HostOf returns the host and port of a URL, or "" if it has none.
func HostOf(call string) string {
	u, err := url.Parse(call)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// HostOfCall returns the host and port of a call's URL, or "participant" and a name if the call
// names its participant, or "" for a job.
func HostOfCall(c *workflow.Call) string {
	if name := c.Names(); name != "" {
		return "participant " + name
	}
	_, at := c.Endpoint()
	return HostOf(at)
}

// Reached says whether a participant answers other sagas.
type Reached string

// Values of Reached.
const (
	ReachedAgain   Reached = "again"
	ReachedNot     Reached = "no"
	ReachedUnknown Reached = "unknown" // no other saga has called it since then
)

// Participant is the participant that a saga's last call failed to reach.
type Participant struct {
	Host     string
	FailedAt time.Time
	Reached  Reached
	Since    time.Time // for ReachedAgain: the first success since the last failure
	Last     time.Time // for ReachedAgain: the last success
}

// Unanswered returns the participant of the call that a saga waits for, if the call's last attempt
// ended without a definite answer. logs are the step logs of the saga.
func Unanswered(x *explain.Explanation, r *saga.Instance, logs []saga.StepLog) (p Participant, ok bool) {
	if x.Step == nil || r.Undefined() || x.Step.Index >= len(r.Def.Steps) {
		return p, false
	}
	step := &r.Def.Steps[x.Step.Index]
	call := step.Action
	if x.Step.Action == saga.Compensate {
		call = step.Compensation.Call
	}
	if p.Host = HostOfCall(&call); p.Host == "" {
		return p, false
	}
	var last *saga.StepLog
	for i := range logs {
		l := &logs[i]
		if l.StepIndex == x.Step.Index && l.Action == x.Step.Action && l.CompletedAt != nil &&
			(last == nil || l.Attempt > last.Attempt) {
			last = l
		}
	}
	if last == nil || last.Error == nil || !unanswered(last.Status, retry.Class(last.Error.Type)) {
		return p, false
	}
	p.FailedAt = *last.CompletedAt
	return p, true
}

// unanswered reports whether an attempt got no definite answer from its participant.
func unanswered(status saga.LogStatus, class retry.Class) bool {
	return (status == saga.LogFailed || status == saga.LogTimeout) && slices.Contains(retry.Classes, class)
}

// Hear evaluates what calls of other sagas say about the participant. A refusal says nothing,
// because it may come from a gateway.
func (p *Participant) Hear(calls []OtherCall) {
	p.Reached = ReachedUnknown
	slices.SortFunc(calls, func(a, b OtherCall) int { return b.At.Compare(a.At) })
	for _, c := range calls {
		switch {
		case !c.At.After(p.FailedAt):
			return
		case c.Status == saga.LogSuccess:
			if p.Reached = ReachedAgain; p.Last.IsZero() {
				p.Last = c.At
			}
			p.Since = c.At
		case !unanswered(c.Status, c.Class):
		case p.Reached == ReachedUnknown:
			p.Reached = ReachedNot
			return
		default:
			return
		}
	}
}

// Summary describes the result in one sentence.
func (p *Participant) Summary() string {
	switch p.Reached {
	case ReachedAgain:
		return fmt.Sprintf("%s answers again: calls of other sagas have succeeded since %s.", p.Host,
			p.Since.UTC().Format(time.RFC3339))
	case ReachedNot:
		return fmt.Sprintf("Calls of other sagas to %s fail as well.", p.Host)
	}
	return fmt.Sprintf("No other saga has called %s since the last attempt.", p.Host)
}
