package sagapages

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// axis is the common time axis for all attempts of a saga.
type axis struct {
	scale         *web.Scale
	Marks         []mark
	Folds         []fold
	Bands         []band
	Now, Deadline *percent
	Limit         *mark  // label of the deadline
	Unfolded      bool   // some wait is drawn at full length on request
	FoldURL       string // URL that folds all waits again
}

// percent is a position in a drawing, or a fraction of its width.
type percent float64

// String formats it for an SVG attribute.
func (p percent) String() string { return strconv.FormatFloat(float64(p), 'f', 2, 64) + "%" }

// bar is one attempt, or several if there are too many to draw separately.
type bar struct {
	X, W  percent
	Back  bool // part of the compensation
	Tone  string
	Title string
	URL   string // URL of the attempt's details; empty: none
}

// drawing is what the axis shows for one step.
type drawing struct {
	Bars   []bar
	Waits  []bar  // waits for the next attempt
	Beside string // describes the attempts that are not drawn separately
}

// mark labels a position of the axis, in one of two lines.
type mark struct {
	web.AxisLabel
	Upper bool
}

// At returns the position of the label.
func (m mark) At() percent { return percent(m.X) }

// fold is a wait that is drawn shortened.
type fold struct {
	X, W  percent
	Title string
	Label mark
	URL   string // URL of the page with this wait drawn at full length
}

// band marks a round: the part of the saga before or after a retry.
type band struct {
	X, W percent
	Odd  bool
}

const (
	railWidth   = 720.0 // width of the drawing, in its own units
	leastBar    = 0.45  // percent; shorter attempts are drawn this wide
	charWidth   = 1.5   // percentage of the axis at its narrowest that a character of a label takes
	mostBars    = 40    // maximum number of bars in one row
	mostBarsAll = 1500  // maximum number of bars in the rail; beyond it, rows show fewer
)

func part(x float64) percent { return percent(x * 100 / railWidth) }

// newAxis lays out the time during which the saga was driven.
func newAxis(s *story) axis {
	busy := make([]web.Interval, len(s.logs), len(s.logs)+2)
	for i := range s.logs {
		busy[i] = web.Interval{From: s.logs[i].StartedAt, To: s.endOf(&s.logs[i])}
	}
	running := s.saga.CompletedAt == nil && len(s.logs) > 0
	if running {
		busy = append(busy, web.Interval{From: s.now, To: s.now})
	}
	deadline := s.deadline()
	if running && deadline != nil && deadline.After(s.now) {
		busy = append(busy, web.Interval{From: *deadline, To: *deadline})
	}
	open, all := unfolded(s.query)
	a := axis{scale: web.NewScale(busy, railWidth, open...), Unfolded: s.query.Get("unfold") != ""}
	if all {
		a.scale = web.NewScale(busy, railWidth, starts(busy)...)
	}
	a.FoldURL = with(s.query, "unfold", "")
	if running {
		x := part(a.scale.At(s.now))
		a.Now = &x
	}
	if n := len(a.scale.Pieces); n > 0 && deadline != nil && !deadline.After(a.scale.Pieces[n-1].To) {
		x := part(a.scale.At(*deadline))
		a.Deadline = &x
	}
	for _, p := range a.scale.Pieces {
		if p.Folded {
			a.Folds = append(a.Folds, a.fold(p, s.query))
		}
	}
	a.rounds(s.logs)
	a.label()
	return a
}

func (a *axis) fold(p web.Piece, q url.Values) fold {
	wait := web.Duration(p.To.Sub(p.From))
	f := fold{X: part(p.X0), W: part(p.X1 - p.X0), Title: wait + " without calls: show in full"}
	f.Label.Text = "⋯ " + wait + " ⋯"
	at := strconv.FormatInt(p.From.UnixMicro(), 10)
	if before := q.Get("unfold"); before != "" {
		at = before + "," + at
	}
	f.URL = with(q, "unfold", at)
	return f
}

// unfolded returns the start times, given in the URL, of the waits that are drawn at full length.
func unfolded(q url.Values) (open []time.Time, all bool) {
	for _, text := range strings.Split(q.Get("unfold"), ",") {
		if text == "all" {
			return nil, true
		}
		if at, err := strconv.ParseInt(text, 10, 64); err == nil {
			open = append(open, time.UnixMicro(at))
		}
	}
	return open, false
}

// starts returns the times at which a wait may begin.
func starts(busy []web.Interval) (all []time.Time) {
	for _, b := range busy {
		all = append(all, b.To)
	}
	return all
}

// label places words and times next to the axis so that they do not overlap. The upper line
// contains the deadline and the rounds, the lower one the folded waits and round times. The first
// time moves to the upper line if the lower one has no room for it.
func (a *axis) label() {
	upper, lower := web.AxisLabels{PerChar: charWidth}, web.AxisLabels{PerChar: charWidth}
	if a.Deadline != nil {
		at, _ := upper.Place(float64(*a.Deadline), "deadline", false)
		a.Limit = &mark{at, true}
	}
	for i, b := range a.Bands {
		if at, free := upper.Place(float64(b.X), fmt.Sprintf("round %d", i+1), false); free {
			a.Marks = append(a.Marks, mark{at, true})
		}
	}
	middle := func(f *fold) float64 { return float64(f.X + f.W/2) }
	for i := range a.Folds {
		lower.Place(middle(&a.Folds[i]), "⋯", true)
	}
	for i := range a.Folds {
		f := &a.Folds[i]
		lower.Leave(middle(f))
		at, free := lower.Place(middle(f), f.Label.Text, true)
		if !free {
			at, _ = lower.Place(middle(f), "⋯", true)
		}
		f.Label.AxisLabel = at
	}
	var open time.Duration
	for _, p := range a.scale.Pieces {
		if !p.Folded {
			open += p.To.Sub(p.From)
		}
	}
	every := roundStep(open / 5)
	for i, p := range a.scale.Pieces {
		if i == 0 {
			begin := p.From.UTC().Format("15:04:05") + " UTC"
			if at, free := lower.Place(0, begin, false); free {
				a.Marks = append(a.Marks, mark{at, false})
			} else if at, free := upper.Place(0, begin, false); free {
				a.Marks = append(a.Marks, mark{at, true})
			}
		}
		if p.Folded || p.To.Equal(p.From) {
			continue
		}
		first := a.scale.Pieces[0].From
		for at := p.Since.Truncate(every); at <= p.To.Sub(first); at += every {
			if at <= p.Since {
				continue
			}
			x := float64(part(a.scale.At(first.Add(at))))
			if label, free := lower.Place(x, "+"+web.Duration(at), false); free {
				a.Marks = append(a.Marks, mark{label, false})
			}
		}
	}
}

// roundStep returns the smallest round duration that is at least d.
func roundStep(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{
		time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute,
		10 * time.Minute, time.Hour, 24 * time.Hour, 240 * time.Hour,
	} {
		for _, times := range []time.Duration{1, 2, 5} {
			if times*unit >= d {
				return times * unit
			}
		}
	}
	return max(d, time.Millisecond)
}

// rounds draws bands if steps were executed again after they had been compensated or had failed.
func (a *axis) rounds(logs []client.StepLog) {
	inOrder := slices.Clone(logs)
	slices.SortStableFunc(inOrder, func(x, y client.StepLog) int { return x.StartedAt.Compare(y.StartedAt) })
	begins := []float64{0}
	back, ended := false, map[int]bool{}
	for i := range inOrder {
		l := &inOrder[i]
		if l.Action == client.StepActionCOMPENSATE {
			back = true
			continue
		}
		if back || ended[l.StepIndex] {
			begins = append(begins, a.scale.At(l.StartedAt))
			back, ended = false, map[int]bool{}
		}
		ended[l.StepIndex] = l.Final && l.CompletedAt != nil
	}
	for i, x := range begins {
		end := railWidth
		if i+1 < len(begins) {
			end = begins[i+1]
		}
		if len(begins) > 1 {
			a.Bands = append(a.Bands, band{X: part(x), W: part(end - x), Odd: i%2 == 1})
		}
	}
}

// draw draws the attempts of a step. If there are very many, those in the middle are drawn as a
// single bar.
func (a *axis) draw(attempts []*client.StepLog, s *story) (row drawing) {
	most := mostBars
	if len(s.logs) > mostBarsAll {
		most = max(4, most*mostBarsAll/len(s.logs)/4)
	}
	for _, back := range []bool{false, true} {
		lane := make([]*client.StepLog, 0, len(attempts))
		for _, l := range attempts {
			if (l.Action == client.StepActionCOMPENSATE) == back {
				lane = append(lane, l)
			}
		}
		a.drawLane(&row, lane, most, s)
	}
	return row
}

func (a *axis) drawLane(row *drawing, lane []*client.StepLog, most int, s *story) {
	left := 0 // attempts in the middle that are not drawn
	if len(lane) > most {
		left = len(lane) - most
	}
	for i, l := range lane {
		if left > 0 && i >= most/2 && i < most/2+left {
			if i == most/2 {
				a.leave(row, lane[i], lane[i+left-1], left, s)
			}
			continue
		}
		b := bar{
			X: part(a.scale.At(l.StartedAt)), Back: l.Action == client.StepActionCOMPENSATE, Tone: toneOf(l),
			Title: attemptTitle(l, s.endOf(l)), URL: attemptURL(s.query, l),
		}
		b.W = max(leastBar, part(a.scale.At(s.endOf(l)))-b.X)
		b.X = min(b.X, 100-b.W)
		row.Bars = append(row.Bars, b)
		if i+1 < len(lane) && !l.Final {
			a.wait(row, b, lane[i+1].StartedAt)
		} else if i+1 == len(lane) && !l.Final && l.CompletedAt != nil && s.saga.CompletedAt == nil {
			a.wait(row, b, s.now)
		}
	}
}

// leave draws excess attempts as a single bar.
func (a *axis) leave(row *drawing, first, last *client.StepLog, n int, s *story) {
	b := bar{X: part(a.scale.At(first.StartedAt)), Back: first.Action == client.StepActionCOMPENSATE, Tone: "many"}
	b.W = max(leastBar, part(a.scale.At(s.endOf(last)))-b.X)
	took := web.Duration(s.endOf(last).Sub(first.StartedAt))
	b.Title = fmt.Sprintf("%d attempts in %s", n, took)
	b.URL = with(url.Values{"tab": {"attempts"}}, "step", first.StepName)
	row.Bars = append(row.Bars, b)
	row.Beside = b.Title + " folded"
}

// wait hatches the time between an attempt and the next one.
func (a *axis) wait(row *drawing, after bar, until time.Time) {
	w := bar{X: after.X + after.W, Back: after.Back}
	if w.W = part(a.scale.At(until)) - w.X; w.W > 0 {
		row.Waits = append(row.Waits, w)
	}
}

func toneOf(l *client.StepLog) string {
	switch l.Status {
	case client.StepLogStatusSUCCESS:
		if l.Action == client.StepActionCOMPENSATE {
			return "undo"
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
	text := l.StepName + ": " + attemptName(l) + ", " + web.Words(l.Status)
	if l.OutcomeCode != nil {
		text += " " + *l.OutcomeCode
	}
	return text + " after " + web.Duration(end.Sub(l.StartedAt))
}

// attemptName names an attempt next to its step.
func attemptName(l *client.StepLog) string {
	if l.Action == client.StepActionCOMPENSATE {
		return fmt.Sprintf("undo, attempt %d", l.Attempt)
	}
	return fmt.Sprintf("attempt %d", l.Attempt)
}

// attemptKey identifies an attempt of a step in URLs.
func attemptKey(l *client.StepLog) string {
	return fmt.Sprintf("%s-%d", strings.ToLower(string(l.Action)), l.Attempt)
}

// attemptURL returns the URL of the page with an attempt's details.
func attemptURL(q url.Values, l *client.StepLog) string {
	to := url.Values{"step": {l.StepName}, "attempt": {attemptKey(l)}}
	for _, keep := range []string{"tab", "show", "unfold"} {
		if v := q.Get(keep); v != "" {
			to.Set(keep, v)
		}
	}
	return "?" + to.Encode() + "#attempt"
}
