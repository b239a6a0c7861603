package sagapages

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// rail shows the steps of a saga in the order of their execution. Forward execution is drawn in one
// track, compensations in another, and all attempts on a common time axis.
type rail struct {
	Rows   []railRow
	Axis   axis
	Views  []web.Tab // what is shown: all steps, all that are not done, or only failed ones
	Hidden int       // number of rows that the view omits
}

// railRow is a step.
type railRow struct {
	Index         int
	Name          string
	Kind          string // http or job
	Call, Undo    string // what is sent; empty if unknown; Undo is also empty if there is no compensation
	Forward, Back node
	Track         track
	Drawing       drawing
	Code          string
	Report        *client.AwaitedReport // the report that is awaited
	Now           time.Time
	Selected      bool
	Checkpoint    string       // note that the next step does not wait for the disk; empty: it does
	Pivot         string       // effect of the step on whether the saga may be compensated; empty: none
	Buttons       []web.Button // for the actions that are possible on this step
}

// node is the state of a step in one of the two tracks.
type node struct {
	Shape, Tone, Words string
}

var forwardNodes = map[client.StepStateName]node{
	client.StepStateNamePending:      {"dashed", "muted", "pending"},
	client.StepStateNameRunning:      {"full", "run", "running"},
	client.StepStateNameCompleted:    {"full", "done", "done"},
	client.StepStateNameFailed:       {"diamond", "bad", "gave up"},
	client.StepStateNameCompensating: {"full", "done", "done"},
	client.StepStateNameCompensated:  {"full", "done", "done"},
	client.StepStateNameSkipped:      {"ring", "muted", "skipped"},
}

var backNodes = map[client.CompensationStateName]node{
	client.CompensationStateNamePending:   {"dashed", "undo", "undo pending"},
	client.CompensationStateNameRunning:   {"full", "undo", "being undone"},
	client.CompensationStateNameCompleted: {"ring", "undo", "undone"},
	client.CompensationStateNameFailed:    {"hollow", "bad", "undo gave up"},
	client.CompensationStateNameSkipped:   {"ring", "muted", "undo skipped"},
}

// marksOf maps a tone to the sign that precedes the words of a state.
var marksOf = map[string]string{"done": "✓", "bad": "✕", "undo": "↺", "run": "▶"}

// Mark returns the sign that precedes the words.
func (n node) Mark() string { return marksOf[n.Tone] }

// newRail draws the steps and their attempts.
func newRail(s story) rail {
	r := rail{Axis: newAxis(&s)}
	last := -1 // the last step that was called
	for _, l := range s.logs {
		if l.Action == client.StepActionEXECUTE {
			last = max(last, l.StepIndex)
		}
	}
	attempts := map[int][]*client.StepLog{}
	for i := range s.logs {
		attempts[s.logs[i].StepIndex] = append(attempts[s.logs[i].StepIndex], &s.logs[i])
	}
	view := s.query.Get("show")
	rows := make([]railRow, 0, len(s.steps))
	for i := range s.steps {
		rows = append(rows, s.row(&s.steps[i], last))
	}
	lay(rows, last, s.turned(), s.saga.CompletedAt != nil)
	for i := range rows {
		row := &rows[i]
		if view == "open" && row.settled() || view == "failed" && !row.failed() {
			r.Hidden++
			continue
		}
		row.Selected = row.Name == s.query.Get("step")
		row.Drawing = r.Axis.draw(attempts[row.Index], &s)
		r.Rows = append(r.Rows, *row)
	}
	for _, v := range []struct{ name, key string }{{"All steps", ""}, {"Hide done", "open"}, {"Only failed", "failed"}} {
		r.Views = append(r.Views, web.Tab{Name: v.name, URL: with(s.query, "show", v.key), Current: view == v.key})
	}
	return r
}

// settled reports whether the step is finished without problems.
func (r *railRow) settled() bool {
	never := r.Forward.Tone == "muted" && !strings.HasPrefix(r.Forward.Words, "pending")
	undone := r.Back.Shape == "ring" // this also settles a step that may have been done
	return !r.failed() && (never || r.Forward.Tone == "done") && (r.Back.Shape == "" || undone) ||
		strings.Contains(r.Forward.Words, mayBeDone) && undone
}

func (r *railRow) failed() bool { return r.Forward.Tone == "bad" || r.Back.Tone == "bad" }

// row describes what a step calls and its progress. last is the last step that was called.
func (s *story) row(st *client.StepView, last int) railRow {
	row := railRow{Index: st.StepIndex, Name: st.Name}
	if s.definition != nil && st.StepIndex < len(s.definition.Steps) {
		of := &s.definition.Steps[st.StepIndex]
		action := web.ActionOf(of)
		row.Kind, row.Call, row.Undo = web.CallKind(action), web.CallWords(action), web.CallWords(web.UndoOf(of))
		if web.GoesAhead(of) {
			row.Checkpoint = "no checkpoint: the next step does not wait for the disk write"
		}
		if of.Pivot != nil && *of.Pivot {
			row.Pivot = "pivot: once done, nothing is undone"
			if st.StepIndex < s.saga.CurrentStep && !s.turned() {
				row.Pivot = "pivot passed: the saga can only go forward"
			}
		}
	}
	row.Forward = s.forward(st, last)
	if s.awaits(st, client.StepActionEXECUTE) || s.awaits(st, client.StepActionCOMPENSATE) {
		row.Report, row.Now = s.explain.Report, s.now
	}
	if st.Error != nil {
		row.Code = st.Error.Code
	}
	c := st.CompensationState
	switch {
	case c != nil:
		n, ok := backNodes[c.StateName]
		if !ok {
			n = node{"dashed", "muted", string(c.StateName)}
		}
		if c.Attempts > 1 || n.Tone == "bad" && c.Attempts > 0 {
			n.Words += attemptsOf(c.Attempts, c.MaxAttempts)
		}
		if c.StateName == client.CompensationStateNameSkipped && st.StateName == client.StepStateNameCompensated &&
			row.Undo != "" {
			n = node{"ring", "undo", "undone by a person"}
		}
		if s.atGate() != "" && s.explain.Step.Index == st.StepIndex && s.explain.Step.Action == client.StepActionCOMPENSATE {
			n = node{"ring", "wait", s.atGate()}
		}
		if s.awaits(st, client.StepActionCOMPENSATE) {
			n = node{"ring", "wait", "undo waits for a report"}
		}
		if s.left(st) {
			n.Words += ", left to a person: the saga continued"
		}
		row.Back = n
		if c.Error != nil && n.Tone == "bad" {
			row.Code = c.Error.Code
		}
	case s.turned() && row.Forward.Tone == "done" && s.saga.Clean != nil && !*s.saga.Clean:
		row.Back = backNodes[client.CompensationStateNamePending]
		if s.saga.CompletedAt != nil {
			row.Back.Words = "not undone"
		}
	}
	if row.Call != "" && row.Undo == "" && row.Back.Shape != "" && row.Back.Tone != "bad" {
		row.Back = node{"", "muted", "nothing to undo"}
	}
	return row
}

func (s *story) forward(st *client.StepView, last int) node {
	n, ok := forwardNodes[st.StateName]
	if !ok {
		n = node{"dashed", "muted", string(st.StateName)}
	}
	inDoubt := st.InDoubt != nil && *st.InDoubt
	skipped := st.Skipped != nil && *st.Skipped
	if skipped { // whatever the state of its compensation
		n = forwardNodes[client.StepStateNameSkipped]
		if s.unless(st) {
			n.Words = "skipped: its condition was false"
		}
	}
	switch {
	case inDoubt && st.StateName != client.StepStateNameRunning:
		words := mayBeDone
		if skipped {
			words = n.Words + ", " + mayBeDone
		}
		n = node{"hollow", "wait", words}
	case st.StateName == client.StepStateNamePending && (s.turned() || s.saga.CompletedAt != nil):
		n.Words = "never reached"
	case st.StateName == client.StepStateNameFailed && st.Error != nil && st.Error.Type == "refused":
		n.Words = "refused"
	case s.explain != nil && s.explain.Step != nil && s.explain.Step.Index == st.StepIndex &&
		s.explain.Step.Action == client.StepActionEXECUTE && n.Tone == "run":
		switch s.explain.WaitsFor {
		case client.SagaExplanationWaitsForRetry:
			n = node{"ring", "wait", "waits to retry"}
		case client.SagaExplanationWaitsForParticipant:
			n = node{"ring", "wait", s.atGate()}
		case client.SagaExplanationWaitsForReport:
			n = node{"ring", "wait", "waits for a report"}
		case client.SagaExplanationWaitsForResume:
			n = node{"ring", "wait", "suspended"}
		}
	}
	if inDoubt && st.StateName == client.StepStateNameRunning {
		n.Words += ", " + mayBeDone
	}
	if s.stoppedAt(st) {
		n.Words = "suspended, " + n.Words
	}
	switch {
	case n.Tone == "done" && s.byHand(st):
		n.Words = "completed by a person"
		if st.Attempts > 1 {
			n.Words += attemptsOf(st.Attempts, 0)
		}
	case st.Attempts > 1:
		n.Words += attemptsOf(st.Attempts, st.MaxAttempts)
	}
	return n
}

// awaits reports whether the saga is waiting for a report from this step.
func (s *story) awaits(st *client.StepView, action client.StepAction) bool {
	x := s.explain
	return x != nil && x.Report != nil && x.Step != nil && x.Step.Index == st.StepIndex && x.Step.Action == action
}

// atGate returns the participant for which the current step waits, or "" if it is not waiting at a
// gate.
func (s *story) atGate() string {
	if s.explain == nil || s.explain.Step == nil || s.explain.AtGateOf == nil {
		return ""
	}
	return "waits for " + *s.explain.AtGateOf
}

// byHand reports whether a person has completed the step, so that it was not completed by any of
// its calls.
func (s *story) byHand(st *client.StepView) bool {
	var last *client.StepLog
	for i := range s.logs {
		l := &s.logs[i]
		if l.StepIndex == st.StepIndex && l.Action == client.StepActionEXECUTE && (last == nil || l.Attempt > last.Attempt) {
			last = l
		}
	}
	return last != nil && last.Status == client.StepLogStatusSUCCESS && codeOf(last) == codeByHand
}

// unless reports whether the condition of the step was false, so that it was not called.
func (s *story) unless(st *client.StepView) bool {
	return slices.ContainsFunc(s.logs, func(l client.StepLog) bool {
		return l.StepIndex == st.StepIndex && l.Status == client.StepLogStatusSKIPPED && codeOf(&l) == codeWhen
	})
}

// left reports whether the compensation of the step was abandoned and the saga continued without
// it.
func (s *story) left(st *client.StepView) bool {
	return slices.ContainsFunc(s.saga.LeftCompensations, func(l client.LeftCompensation) bool {
		return l.StepIndex == st.StepIndex
	})
}

// stoppedAt reports whether the failure of the step has suspended the saga.
func (s *story) stoppedAt(st *client.StepView) bool {
	return s.saga.SuspendedAt != nil && s.explain != nil && s.explain.Step != nil &&
		s.explain.WaitsFor == client.SagaExplanationWaitsForOperator && s.explain.Step.Index == st.StepIndex
}

// attemptsOf describes how many of the allowed attempts were made; most is 0 if the definition
// cannot be read. Attempts that a person makes manually are counted in addition.
func attemptsOf(made, most int) string {
	if most == 0 || made > most {
		return fmt.Sprintf(", %d attempts", made)
	}
	return fmt.Sprintf(" %d/%d", made, most)
}

const mayBeDone = "may have been done"

// lay draws the lines between the rows. last is the last step that was called; over reports whether
// the saga has ended.
func lay(rows []railRow, last int, turned, over bool) {
	top := len(rows) // the first step that the compensation has reached
	due := len(rows) // the first step that the compensation must reach
	for i := range rows {
		b := rows[i].Back
		if b.Shape == "" {
			continue
		}
		due = min(due, i)
		if b.Shape != "dashed" {
			top = min(top, i)
		}
	}
	for i := range rows {
		t := &rows[i].Track
		switch {
		case rows[i].Index <= last:
			if i > 0 {
				t.Forward.Above = gone
			}
			if rows[i].Index < last {
				t.Forward.Below = gone
			} else if !turned && !over && i+1 < len(rows) {
				t.Forward.Below = coming
			}
		case !turned && !over:
			if i > 0 {
				t.Forward.Above = coming
			}
			if i+1 < len(rows) {
				t.Forward.Below = coming
			}
		}
		if !turned || due == len(rows) || rows[i].Index > last {
			continue
		}
		t.Turn = rows[i].Index == last
		if !t.Turn && i >= due {
			t.Back.Below = kindOf(i >= top)
		}
		if i > due {
			t.Back.Above = kindOf(i > top)
		}
	}
}

func kindOf(reached bool) string {
	if reached {
		return gone
	}
	return coming
}
