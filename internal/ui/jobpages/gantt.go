package jobpages

import (
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// gantt shows the attempts of a run on a common time axis.
type gantt struct {
	Rows        []attemptRow
	Folds       []ganttFold
	First, Last time.Time
	Now         float64 // position of the current time; negative: the run has ended
}

// ganttWidth is the width of the drawing in its own units.
const ganttWidth = 720.0

// attemptRow is one assignment of the run.
type attemptRow struct {
	client.JobAttempt
	Badge        *web.Badge // nil: it is still running
	Wait, Bar    ganttBar   // from the assignment to the start, and from there to the end
	Took, Waited string
}

type ganttBar struct {
	X, W float64
	Tone string
}

// ganttFold is a wait that is drawn shortened.
type ganttFold struct {
	X, W  float64
	Title string
}

func newGantt(r *client.JobRun, attempts []client.JobAttempt, now time.Time) gantt {
	g := gantt{Now: -1}
	if len(attempts) == 0 {
		return g
	}
	var busy []web.Interval
	end := func(a *client.JobAttempt) time.Time {
		if a.EndedAt != nil {
			return *a.EndedAt
		}
		return now
	}
	for i := range attempts {
		busy = append(busy, web.Interval{From: attempts[i].AssignedAt, To: end(&attempts[i])})
	}
	s := web.NewScale(busy, ganttWidth)
	g.First, g.Last = attempts[0].AssignedAt, end(&attempts[len(attempts)-1])
	for _, piece := range s.Pieces {
		if piece.Folded {
			g.Folds = append(g.Folds, ganttFold{
				X: piece.X0, W: piece.X1 - piece.X0, Title: web.Duration(piece.To.Sub(piece.From)) + " without a worker",
			})
		}
	}
	for i := range attempts {
		a := &attempts[i]
		row := attemptRow{JobAttempt: *a}
		started := end(a)
		if a.StartedAt != nil {
			started = *a.StartedAt
			row.Bar = barOf(s, started, end(a), "run")
			row.Took = web.Duration(end(a).Sub(started))
		}
		row.Wait = barOf(s, a.AssignedAt, started, "wait")
		row.Waited = web.Duration(started.Sub(a.AssignedAt))
		if a.Outcome != nil {
			b := web.BadgeOf(*a.Outcome)
			row.Badge, row.Bar.Tone = &b, b.Tone
		}
		g.Rows = append(g.Rows, row)
	}
	if r.FinishedAt == nil {
		g.Now = s.At(now)
	}
	return g
}

// barOf returns a bar that is at least wide enough to be visible.
func barOf(s *web.Scale, from, to time.Time, tone string) ganttBar {
	x := s.At(from)
	w := max(2, s.At(to)-x)
	return ganttBar{X: min(x, ganttWidth-w), W: w, Tone: tone}
}
