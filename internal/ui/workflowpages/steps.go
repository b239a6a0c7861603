package workflowpages

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// step describes a step of a definition for people.
type step struct {
	Number     int // from 1, in the order of execution
	Name       string
	Call, Undo string // Undo is empty if there is none
	// Stays means that there is no undo, although later steps may fail.
	Stays            bool
	Pivot            bool   // once it is done, nothing is undone
	Later, UndoLater string // how long Skald waits for its report, if its answers may come later
	Ahead            bool   // the next step may be called before this step's outcome is on disk
	UndoFailure      string // what happens when the undo is abandoned, unless the saga stops
	OnFailure        string // what its failure leads to, unless that is compensation
	Retry, UndoRetry string // empty: the workflow's
	Timeout          string // timeout of one call; empty: the server's
	DependsOn        []string
}

// stepsOf returns the steps of a definition in the order of execution.
func stepsOf(d *client.WorkflowDefinition) []step {
	all := make([]step, len(d.Steps))
	pivot := slices.IndexFunc(d.Steps, func(s client.Step) bool { return s.Pivot != nil && *s.Pivot })
	for i := range d.Steps {
		s := &d.Steps[i]
		all[i] = step{
			Number: i + 1, Name: s.Name, DependsOn: s.DependsOn, Retry: policyWords(s.Retry),
			UndoRetry: policyWords(s.CompensationRetry), Timeout: web.Milliseconds(s.TimeoutMS),
			Call: web.CallWords(web.ActionOf(s)), Undo: web.CallWords(web.UndoOf(s)),
		}
		all[i].Pivot, all[i].OnFailure = i == pivot, onFailure(d, s)
		all[i].Ahead = web.GoesAhead(s)
		all[i].Later, all[i].UndoLater = laterWaits(s)
		if goesOn(d, s) && all[i].Undo != "" {
			all[i].UndoFailure = "if it gives up, the steps before it are compensated anyway"
		}
		past := pivot >= 0 && i > pivot
		if past {
			all[i].OnFailure = "retried until it succeeds; a refusal suspends the saga"
		}
		all[i].Stays = all[i].Undo == "" && i+1 < len(d.Steps) && !past && !all[i].Pivot
	}
	return all
}

// laterWaits describes how long Skald waits for the report of a step that is answered later, and
// for the report of its undo. It returns "" if the answers never come later.
func laterWaits(s *client.Step) (action, undo string) {
	if c := web.UndoOf(s); c != nil {
		undo = laterWait(c.Answer)
	}
	return laterWait(s.Answer), undo
}

// laterByDefault is the wait time if the definition does not specify one.
const laterByDefault = 24 * time.Hour

func laterWait(a *client.AnswerRules) string {
	switch {
	case a == nil || a.Later == nil || *a.Later == "":
		return ""
	case a.LaterMS == nil || *a.LaterMS == 0:
		return web.Duration(laterByDefault)
	}
	return web.Milliseconds(a.LaterMS)
}

// onFailure describes what happens when the step has failed, or returns "" if the saga is
// compensated.
func onFailure(d *client.WorkflowDefinition, s *client.Step) string {
	on := d.OnFailure
	if s.OnFailure != nil {
		on = s.OnFailure
	}
	if on == nil || *on != client.OnFailureSuspend {
		return ""
	}
	return "a failure suspends the saga"
}

// goesOn reports whether earlier steps are compensated even though the undo of the step was
// abandoned.
func goesOn(d *client.WorkflowDefinition, s *client.Step) bool {
	on := d.OnCompensationFailure
	if s.OnCompensationFailure != nil {
		on = s.OnCompensationFailure
	}
	return on != nil && *on == client.OnCompensationFailureGoOn
}

// policyWords describes what a retry policy sets: "5 attempts, 1 s to 1 min apart, ×2, on timeout,
// network".
func policyWords(p *client.RetryPolicy) string {
	if p == nil {
		return ""
	}
	var parts []string
	if n := p.MaxAttempts; n != nil {
		parts = append(parts, web.Count(n)+map[bool]string{true: " attempt", false: " attempts"}[*n == 1])
	}
	switch first, last := p.InitialIntervalMS, p.MaxIntervalMS; {
	case first != nil && last != nil:
		parts = append(parts, web.Milliseconds(first)+" to "+web.Milliseconds(last)+" apart")
	case first != nil:
		parts = append(parts, "from "+web.Milliseconds(first)+" apart")
	case last != nil:
		parts = append(parts, "up to "+web.Milliseconds(last)+" apart")
	}
	if m := p.Multiplier; m != nil {
		parts = append(parts, "×"+strconv.FormatFloat(*m, 'f', -1, 64))
	}
	if j := p.Jitter; j != nil {
		parts = append(parts, fmt.Sprintf("±%s %%", strconv.FormatFloat(*j*100, 'f', -1, 64)))
	}
	if p.RetryOn != nil {
		on := make([]string, len(p.RetryOn))
		for i, class := range p.RetryOn {
			on[i] = web.Words(class)
		}
		if len(on) == 0 {
			on = []string{"no failure"}
		}
		parts = append(parts, "on "+strings.Join(on, ", "))
	}
	return strings.Join(parts, ", ")
}

// retentionWords describes how long ended sagas stay live.
func retentionWords(r *client.Retention) string {
	if r == nil {
		return ""
	}
	var parts []string
	for _, of := range []struct {
		what string
		ms   *int64
	}{{"completed", r.CompletedMS}, {"others", r.FailedMS}} {
		switch {
		case of.ms == nil || *of.ms == 0:
		case *of.ms < 0:
			parts = append(parts, of.what+" forever")
		default:
			parts = append(parts, of.what+" "+web.Milliseconds(of.ms))
		}
	}
	return strings.Join(parts, ", ")
}
