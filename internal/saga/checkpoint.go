package saga

import (
	"slices"

	"github.com/skald-saga/skald/internal/audit/eventtype"
)

// The outcome of a step with checkpoint: false may be written together with later ones (decision
// 0157). Its driver holds the change (Deferrable), continues from it, and combines it with the next
// change (Then).
//
// If the driver is lost, the row shows the first step whose outcome was not written. Every step
// from there up to the first step whose outcome must be written immediately (reach) may have been
// called. None of this is stored: it follows from the definition and from the attempts of the
// current step that have no answer.

// unanswered returns how many calls of the current step have no recorded answer because their node
// was lost. It does not count the row's current attempt, unless the saga was forced to fail. After
// an operator's retry it also counts failures, which is safe.
func (r *Instance) unanswered() int {
	n := r.Attempt - 1 - r.base(r.CurrentStep, Execute) - r.Failures
	if r.Halted() {
		n++
	}
	return max(n, 0)
}

// reach returns the last step that may have been called. It is the current step unless a lost node
// may have continued without writing.
func (r *Instance) reach() int {
	k := r.CurrentStep
	if r.Def == nil || !r.Uncertain || !r.State.Forward() && !r.Halted() || r.unanswered() == 0 {
		return k
	}
	for r.Def.Ahead(k) {
		k++
	}
	return k
}

// InDoubtAfter returns the steps after the current one that a lost node may have called.
func (r *Instance) InDoubtAfter() (names []string) {
	for k := r.CurrentStep + 1; k <= r.reach(); k++ {
		names = append(names, r.Def.Steps[k].Name)
	}
	return names
}

// Ahead returns the steps after the current one that its node may call, or may have called, before
// the row shows it.
func (r *Instance) Ahead() (names []string) {
	if r.Def == nil || !r.State.Forward() {
		return nil
	}
	for k := r.CurrentStep; r.Def.Ahead(k); k++ {
		names = append(names, r.Def.Steps[k+1].Name)
	}
	return names
}

// Deferrable reports whether the change may be held while the next step is called. It must be an
// ordinary change for a step that was done, after which the definition does not require a commit.
func (c *Change) Deferrable() bool {
	r := &c.After
	k := r.CurrentStep - 1
	if r.State != Running || !r.Def.Ahead(k) || len(c.Logs) != 1 {
		return false
	}
	l := &c.Logs[0]
	ordinary := l.StepIndex == k && l.Action == Execute && l.Status == LogSuccess && !l.Completes
	plain := c.Key == nil && c.Operated == nil && c.Letter == nil && c.Run == nil && c.Steer == nil && c.Park == ""
	return ordinary && plain && r.EndCause == nil && r.LeaseOwner != nil && r.NextRunAt == nil && r.SuspendedAt == nil
}

// Then combines c, which was held, and next, which was decided on c.After, into one change.
func (c Change) Then(next Change) Change {
	next.Before = c.Before
	next.After.Version = c.Before.Version + 1
	next.Logs = append(slices.Clip(c.Logs), next.Logs...)
	next.Audit = append(slices.Clip(c.Audit), next.Audit...)
	return next
}

// passed applies the outcome of a step after which the next one was already called. The size of its
// output was checked when the outcome arrived.
func (d *decision) passed(o Outcome) bool {
	if !d.s.State.Forward() || d.s.Attempt == 0 || o.Verdict != Done || !d.After.Def.Ahead(d.s.CurrentStep) {
		return false
	}
	d.passes = true
	d.dispatched(o.StartedAt)
	d.stepAnswered(o)
	return true
}

// forgotten puts the call in flight in doubt, as a claim does.
func (d *decision) forgotten() bool {
	if !d.s.State.Forward() || d.s.Attempt == 0 || d.After.recorded || d.After.job() != nil {
		return false
	}
	d.s.Attempt++
	d.s.Uncertain = true
	d.tellOfStep(eventtype.RetryAttempted).say(words{Action: Execute})
	return true
}

// doubtNext is called after step k was done or skipped. If a lost node may have called the next
// step, that step is in doubt from the start, and its attempts continue the count.
func (d *decision) doubtNext(k int) {
	if k < d.reach {
		d.s.Uncertain = true
		d.s.Attempt += d.lost
	}
}
