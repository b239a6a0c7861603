package explain

import (
	"fmt"
	"time"

	"github.com/skald-saga/skald/internal/saga"
)

// Archived explains how an archived saga ended, and that it must be restored before it
// accepts any action.
func Archived(r *saga.Instance, logs []saga.StepLog, at, now time.Time) Explanation {
	x := Saga(r, logs, true, now)
	x.Allowed = []saga.VerbRule{saga.RestoreRule}
	x.Summary += fmt.Sprintf(
		" It has been in the archive since %s: restore it before acting on it.",
		at.Format(time.RFC3339),
	)
	return x
}

// WaitsAt corrects the explanation of a saga that appears to wait for the time of its next attempt
// but actually waits at a gate.
func (x *Explanation) WaitsAt(r *saga.Instance, g *saga.AtGate) {
	if x.WaitsFor != WaitsRetry || x.Step == nil || g.Call != r.NextCall() {
		return
	}
	x.WaitsFor, x.Since, x.NextAt, x.AtGateOf = WaitsParticipant, g.Since, g.NextAt, g.Participant
	x.Next = "the gate lets it through, and its call is made"
	others := "no other saga waits"
	if g.Waiting > 1 {
		others = fmt.Sprintf("%d sagas wait", g.Waiting)
	}
	x.Summary = fmt.Sprintf("It waits for the participant %s, which has been %s; %s for it.%s", g.Participant, g.Gate, others,
		x.rest)
}
