package sagapages

import (
	"fmt"
	"net/url"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// rail shows the steps of a saga in the order of their execution: the way forward in one
// track, the compensations on the way back in another, and every attempt on one axis of
// time.
type rail struct {
	Rows  []railRow
	Marks []mark // of the axis
	Folds []fold
	Now   float64 // position of the present; negative: the saga has ended
}

// railWidth is the width of the drawing of attempts, in its own units.
const railWidth = 720.0

// railRow is a step.
type railRow struct {
	Index         int
	Name          string
	Call, Undo    string // what is sent; Undo is "no compensation" when there is none
	Forward, Back node
	Bars          []bar
	TurnsHere     bool // forward execution ended at this step, and compensation began
	Note          string
}

// node is the state of a step in one of the two tracks.
type node struct {
	Shape, Tone, Words string
	Line               string // class of the line that passes: "", "to" (here and on), "from"
}

// bar is one attempt.
type bar struct {
	X, W  float64
	Back  bool // of the compensation
	Tone  string
	Title string
	URL   string // of the attempt's details
}

// mark labels a position of the axis.
type mark struct {
	X    float64
	Text string
}

// fold is a wait that is not drawn in full.
type fold struct {
	X, W  float64
	Title string
}

var forwardNodes = map[client.StepStateName]node{
	client.StepStateNamePending:      {Shape: "◌", Tone: "muted", Words: "not reached"},
	client.StepStateNameRunning:      {Shape: "▶", Tone: "run", Words: "running"},
	client.StepStateNameCompleted:    {Shape: "●", Tone: "done", Words: "done"},
	client.StepStateNameFailed:       {Shape: "◆", Tone: "bad", Words: "failed"},
	client.StepStateNameCompensating: {Shape: "●", Tone: "done", Words: "done"},
	client.StepStateNameCompensated:  {Shape: "●", Tone: "done", Words: "done"},
	client.StepStateNameSkipped:      {Shape: "○", Tone: "muted", Words: "skipped"},
}

// States of a compensation by number, as the contract lists them.
var backNodes = []node{
	{Shape: "◌", Tone: "wait", Words: "to be compensated"},
	{Shape: "↺", Tone: "undo", Words: "being compensated"},
	{Shape: "○", Tone: "undone", Words: "compensated"},
	{Shape: "◇", Tone: "bad", Words: "compensation gave up"},
	{Shape: "–", Tone: "muted", Words: "nothing to compensate"},
}

// newRail draws the steps and their attempts. definition may be nil: what the steps call
// is then not known.
func newRail(
	s *client.Saga,
	steps []client.StepView,
	logs []client.StepLog,
	definition *client.WorkflowDefinition,
	now time.Time,
) rail {
	end := func(l client.StepLog) time.Time {
		if l.CompletedAt != nil {
			return *l.CompletedAt
		}
		return now
	}
	busy := make([]web.Interval, len(logs))
	for i, l := range logs {
		busy[i] = web.Interval{From: l.StartedAt, To: end(l)}
	}
	if s.CompletedAt == nil && len(logs) > 0 {
		busy = append(busy, web.Interval{From: now, To: now})
	}
	axis := web.NewScale(busy, railWidth)
	r := rail{Now: -1}
	if s.CompletedAt == nil && len(logs) > 0 {
		r.Now = axis.At(now)
	}
	for i, p := range axis.Pieces {
		if p.Folded {
			wait := web.Duration(p.To.Sub(p.From)) + " in which nothing was called"
			r.Folds = append(r.Folds, fold{p.X0, p.X1 - p.X0, wait})
			continue
		}
		text := "+" + web.Duration(p.Since)
		if i == 0 {
			text = p.From.UTC().Format("15:04:05") + " UTC"
		}
		if n := len(r.Marks); n == 0 || p.X0-r.Marks[n-1].X > 90 {
			r.Marks = append(r.Marks, mark{p.X0, text})
		}
	}
	last := -1 // the last step that was called
	for _, l := range logs {
		if l.Action == client.StepActionEXECUTE {
			last = max(last, l.StepIndex)
		}
	}
	turned := s.Lifecycle == client.SagaLifecycleCompensating ||
		s.Lifecycle == client.SagaLifecycleFailed || s.State == client.SagaStateCancelled
	for i := range steps {
		st := &steps[i]
		row := railRow{Index: st.StepIndex, Name: st.Name, Forward: forwardOf(st), TurnsHere: turned && st.StepIndex == last}
		if c := st.CompensationState; c != nil && c.State >= 0 && c.State < len(backNodes) {
			row.Back = backNodes[c.State]
			if c.Attempts > 1 {
				row.Back.Words += fmt.Sprintf(" %d/%d", c.Attempts, c.MaxAttempts)
			}
		}
		if definition != nil && st.StepIndex < len(definition.Steps) {
			row.Call, row.Undo = callsOf(&definition.Steps[st.StepIndex])
		}
		if st.Error != nil {
			row.Note = st.Error.Code
		}
		if st.StepIndex <= last {
			row.Forward.Line = "on"
		}
		if row.Back.Shape != "" {
			row.Back.Line = "on"
		}
		r.Rows = append(r.Rows, row)
	}
	for i := range logs {
		l := &logs[i]
		b := bar{
			X: axis.At(l.StartedAt), Back: l.Action == client.StepActionCOMPENSATE, Tone: toneOf(l),
			Title: attemptTitle(l, end(*l)), URL: attemptURL(l),
		}
		b.W = max(3, axis.At(end(*l))-b.X)
		b.X = min(b.X, railWidth-b.W)
		for j := range r.Rows {
			if r.Rows[j].Index == l.StepIndex {
				r.Rows[j].Bars = append(r.Rows[j].Bars, b)
			}
		}
	}
	return r
}

func forwardOf(st *client.StepView) node {
	n, ok := forwardNodes[st.StateName]
	if !ok {
		n = node{Shape: "?", Tone: "muted", Words: string(st.StateName)}
	}
	if st.Attempts > 1 {
		n.Words += fmt.Sprintf(" %d/%d", st.Attempts, st.MaxAttempts)
	}
	return n
}

// callsOf says what a step calls, forward and back.
func callsOf(st *client.Step) (call, undo string) {
	switch {
	case st.Action != nil:
		call = callText(st.Action)
	case st.Job != nil:
		call = "job " + *st.Job
	}
	if back, err := st.Compensation.AsCall(); err == nil && (back.HTTP != nil || back.Job != nil) {
		return call, callText(&back)
	}
	return call, "no compensation"
}

func callText(c *client.Call) string {
	switch {
	case c.HTTP != nil:
		method := client.HTTPCallMethod("POST")
		if c.HTTP.Method != nil {
			method = *c.HTTP.Method
		}
		if at, err := url.Parse(c.HTTP.URL); err == nil {
			return string(method) + " " + at.Host + at.Path
		}
		return string(method) + " " + c.HTTP.URL
	case c.Job != nil:
		return "job " + *c.Job
	}
	return ""
}

func toneOf(l *client.StepLog) string {
	switch l.Status {
	case client.StepLogStatusSUCCESS:
		if l.Action == client.StepActionCOMPENSATE {
			return "undone"
		}
		return "done"
	case client.StepLogStatusRUNNING:
		return "run"
	case client.StepLogStatusSKIPPED:
		return "muted"
	}
	return "bad"
}

func attemptTitle(l *client.StepLog, end time.Time) string {
	what := "attempt"
	if l.Action == client.StepActionCOMPENSATE {
		what = "compensation, attempt"
	}
	text := fmt.Sprintf("%s: %s %d, %s", l.StepName, what, l.Attempt, l.Status)
	if l.OutcomeCode != nil {
		text += " " + *l.OutcomeCode
	}
	return text + " after " + web.Duration(end.Sub(l.StartedAt))
}

func attemptURL(l *client.StepLog) string { return "?tab=attempts#a-" + l.ID.String() }
