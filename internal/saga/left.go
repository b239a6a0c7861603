package saga

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/retry"
)

// With on_compensation_failure: go_on, a compensation that gives up is left open with its dead
// letter, and the steps before it are compensated. The saga then ends as failed, and each
// compensation that was left open can be repeated or settled separately (decision 0148).

// left returns the compensations that were left open, except that of the current step.
func (s *Saga) left() map[int]LeftUndo {
	if s.Interventions == nil {
		return nil
	}
	return s.Interventions.Left
}

// LeftSteps returns the indexes of the steps whose compensations were left open, except the current
// step, the last step first.
func (s *Saga) LeftSteps() []int {
	steps := slices.Sorted(maps.Keys(s.left()))
	slices.Reverse(steps)
	return steps
}

// Letters returns the open letters of the saga's compensations and the steps that they belong to.
func (s *Saga) Letters() map[uuid.UUID]int {
	all := map[uuid.UUID]int{}
	for k, l := range s.left() {
		all[l.Letter] = k
	}
	all[s.DeadLetter()] = s.CurrentStep
	delete(all, uuid.Nil)
	return all
}

// partly reports whether the saga has compensations that were left open, so that it can only be
// compensated to the end.
func (s *Saga) partly() bool {
	return s.Interventions != nil && (len(s.Interventions.Left) > 0 || s.Interventions.Reached != nil)
}

// undoGaveUp is called when the compensation of the current step has given up because of e. The
// saga either ends, or leaves the compensation open and continues. It always ends if it was meant
// to go forward again, or if its time is up.
func (d *decision) undoGaveUp(e *Error) {
	restarts := d.s.Interventions != nil && d.s.Interventions.RestartAt != nil
	goesOn := d.After.Def.GoesOn(d.s.CurrentStep)
	if d.s.CompensationExpired || restarts || !goesOn && !d.s.queued() {
		d.dirtyEnd(e, ReasonUndoFailed)
		return
	}
	d.gaveUpUndo(e)
	if i := d.edit(); !goesOn && i.Reached == nil { // it stops here once the queued compensations are repeated
		i.Reached = new(d.s.CurrentStep)
	}
	d.park(e)
	d.undoNext()
}

// queued reports whether compensations that were left open must be repeated after that of the
// current step.
func (s *Saga) queued() bool {
	for _, l := range s.left() {
		if l.Again {
			return true
		}
	}
	return false
}

// park leaves the compensation of the current step open. e is its error.
func (d *decision) park(e *Error) {
	i := d.edit()
	if i.Left == nil {
		i.Left = map[int]LeftUndo{}
	}
	l := LeftUndo{Letter: i.DeadLetter, Attempt: d.s.Attempt, Uncertain: d.s.Uncertain, Refused: d.After.undoRefused}
	if e != nil {
		l.Code, l.Class = e.Code, e.Type
	}
	i.Left[d.s.CurrentStep] = l
	i.DeadLetter, i.RetriedBy = uuid.Nil, ""
}

// take makes the compensation of step k, which was left open, the current one.
func (d *decision) take(k int) {
	i := d.edit()
	l := i.Left[k]
	delete(i.Left, k)
	if len(i.Left) == 0 {
		i.Left = nil
	}
	i.DeadLetter = l.Letter
	d.s.CurrentStep, d.s.Attempt, d.s.Failures, d.s.Uncertain = k, l.Attempt, 0, l.Uncertain
	d.After.undoRefused = l.Refused
}

// choose makes step k of a failed saga the current one, if its compensation was left open.
func (d *decision) choose(k int) {
	if _, left := d.s.left()[k]; !left {
		return
	}
	if i := d.edit(); i.Reached == nil {
		i.Reached = new(d.s.CurrentStep)
	}
	d.park(d.s.Error)
	d.take(k)
}

// leftToOrder reports whether an operator may decide about step k of a failed saga because its
// compensation was left open.
func (d *decision) leftToOrder(k int) bool {
	_, left := d.s.left()[k]
	return left && d.s.State == Failed
}

// takeAll repeats the compensation of the current step and all compensations that were left open,
// the last step first.
func (d *decision) takeAll() {
	if len(d.s.left()) == 0 {
		return
	}
	i := d.edit()
	if i.Reached == nil {
		i.Reached = new(d.s.CurrentStep)
	}
	d.park(d.s.Error)
	for k, l := range i.Left {
		l.Again = true
		i.Left[k] = l
	}
	d.take(d.s.LeftSteps()[0])
}

// undoNext continues when the compensation of the current step is over, either with the next one
// that must be repeated or at the point that the compensation had reached.
func (d *decision) undoNext() {
	if !d.s.partly() || d.s.Interventions.Reached == nil {
		d.undoFrom(d.s.CurrentStep - 1)
		return
	}
	reached := *d.s.Interventions.Reached
	if d.repeatNext() {
		return
	}
	if _, open := d.s.left()[reached]; open { // this is where it had stopped
		d.leftEnd()
		return
	}
	d.edit().Reached = nil
	d.undoFrom(reached - 1)
}

// repeatNext makes the next compensation that must be repeated the current one. Its driver begins
// it in a separate change, because that change concerns another letter.
func (d *decision) repeatNext() bool {
	for _, k := range d.s.LeftSteps() {
		if d.s.left()[k].Again {
			d.take(k)
			d.edit().Repeat = true
			d.s.Attempt++
			d.After.undoRefused = false
			d.s.NextRunAt = nil
			if d.s.LeaseOwner == nil {
				d.s.NextRunAt = &d.m.Now
			}
			return true
		}
	}
	return false
}

// atBottom is called once every compensation was called. It ends the saga if some were left open,
// and returns false if none was.
func (d *decision) atBottom() bool {
	if len(d.s.left()) == 0 {
		return false
	}
	d.edit().Reached = new(0)
	if !d.repeatNext() {
		d.leftEnd()
	}
	return true
}

// leftEnd ends the saga in FAILED because compensations were left open.
func (d *decision) leftEnd() {
	i := d.edit()
	steps := d.s.LeftSteps()
	k := steps[0]
	if _, stopped := i.Left[*i.Reached]; stopped {
		k, i.Reached = *i.Reached, nil
	}
	l := i.Left[k]
	d.take(k)
	var names []string
	for _, n := range steps {
		names = append(names, fmt.Sprintf("%q", d.After.Def.Steps[n].Name))
	}
	text := fmt.Sprintf("the compensation of step %s gave up: %s", names[0], l.Code)
	if len(names) > 1 {
		text = fmt.Sprintf("the compensations of steps %s gave up; error of step %q: %s",
			strings.Join(names, ", "), d.After.Def.Steps[k].Name, l.Code)
	}
	e := d.newError(l.Code, l.Class, text)
	e.Retryable = l.Class != string(retry.Refused) && l.Class != typeOperator
	e.Cause = d.s.Error
	reason := ReasonUndoFailed
	if l.Code == forcedError {
		reason = ReasonForced
	}
	d.s.Error, d.s.NeedsAttention, d.s.AttentionReason = e, true, &reason
	d.end(Failed)
}

// beginRepeat starts the compensation of the current step again.
func (d *decision) beginRepeat() {
	d.edit().Repeat = false
	d.tellLetter(dlq.RetryStarted)
	d.s.NextRunAt = nil
	d.tellOfStep(eventtype.UndoStarted)
}

// queue records that the compensation of step k must be repeated once that of the current step is
// over. It returns false if the compensation was not left open, or will be repeated anyway.
func (d *decision) queue(k int, by, reason string) bool {
	l, left := d.s.left()[k]
	if !left || l.Again || d.s.State != Compensating {
		return false
	}
	l.Again = true
	i := d.edit()
	i.Left[k] = l
	d.tell(eventtype.ResumeAsked).say(words{By: by, Reason: reason})
	d.Letter = &dlq.SourceUpdate{Outcome: dlq.RetryStarted, ID: l.Letter, Token: d.m.NewID(), Actor: d.m.Actor}
	return true
}

// forgetRepeats drops the queued repetitions, because the saga has ended.
func (d *decision) forgetRepeats(final State) {
	if !d.s.partly() {
		return
	}
	i := d.edit()
	i.Repeat = false
	if final != Failed {
		i.Left, i.Reached = nil, nil
		return
	}
	for k, l := range i.Left {
		l.Again = false
		i.Left[k] = l
	}
}
