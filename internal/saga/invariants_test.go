package saga

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/retry"
)

// TestInvariantsHoldWhateverHappens drives random workflows with random answers, crashes, flags and
// hand-overs. At every call, every commit and every end it checks the invariants of
// requirements/invariants.md section 2.2.
func TestInvariantsHoldWhateverHappens(t *testing.T) {
	ends := map[State]int{}
	crashed, stale := 0, 0
	happened := map[string]int{}
	missing := func() (none []string) {
		for _, what := range mustHappen {
			if happened["saga."+what] == 0 {
				none = append(none, what)
			}
		}
		return none
	}
	for round := 0; round < 20 || len(missing()) > 0 && round < 200; round++ { // of a hundred runs each
		rapid.Check(t, func(t *rapid.T) {
			w := newWorld(t)
			w.drive()
			w.checkEnd()
			ends[w.head.State]++
			crashed += int(w.node - 1)
			stale += w.stale
			for what, n := range w.happened {
				happened[what] += n
			}
		})
	}
	for _, s := range []State{Completed, Compensated, Failed, Cancelled, TimedOut} {
		if ends[s] == 0 {
			t.Errorf("no run ended %s: the test does not test it", s)
		}
	}
	if crashed == 0 || stale == 0 {
		t.Errorf("%d crashes, %d stale commits: the test does not test them", crashed, stale)
	}
	if none := missing(); none != nil {
		t.Errorf("never happened: %v; the test does not test it", none)
	}
	t.Logf("ends %v, %d crashes, %d stale commits", ends, crashed, stale)
}

// mustHappen lists the events that must occur in some of the random runs.
var mustHappen = []string{
	"RetryRequested in running", "RetryRequested in compensating", "RetryRequested in failed", "StepOrdered in running", "StepOrdered in compensating",
	"StepOrdered in failed", "SuspendRequested in running", "SuspendRequested in compensating", "UnsuspendRequested in running", "DeadlineSet in running",
	"CompletionForced in running", "FailureForced in running", "FailureForced in compensating", "Acknowledged in failed", "Neglected in running",
	"ResumeRequested in failed",
	"stopped", "voided", "persisted", "stop ended by saga.RetryRequested", "stop ended by saga.UnsuspendRequested",
	"stop ended by saga.StepOrdered", "stop ended by saga.CancelRequested", "stop ended by saga.DeadlinePassed",
	"held", "held through a flag", "checkpoint", "in doubt beyond the row", "Forgotten in running",
	string(dlq.GaveUp), string(dlq.RetryStarted), string(dlq.Succeeded), string(dlq.HandledManually),
	string(dlq.RetryStopped),
}

// checkEnd is called when the saga has ended, and at each dirty end before it is reopened.
func (w *world) checkEnd() {
	t, s := w.t, w.head
	if s.Version != 1+w.changes { // I5
		t.Fatalf("version %d after %d changes", s.Version, w.changes)
	}
	w.checkRows()
	lowest := w.lowestUndone()
	for i, p := range w.participants {
		undo := w.row(i, Compensate, LogSuccess, LogSkipped)
		hasUndo := !w.def.Steps[i].Compensation.None()
		switch {
		case s.State == Completed && w.forcedEnd, s.Halted(), w.undoByHand[i]:
		case s.State == Completed && (w.skipped[i] || w.byHand[i]):
		case w.loose[i] && !w.mustUndo(i):
		case s.State == Completed:
			if !w.done[i] || p.applied != 1 || p.undone != 0 {
				t.Fatalf("completed, but step %d: done %v, %+v", i, w.done[i], p)
			}
		case !w.mustUndo(i):
			if p != (participant{}) || w.has(i, Compensate) { // I2, I4
				t.Fatalf("%s, step %d was never done, yet %+v, undo %+v", s.State, i, p, undo)
			}
		case i < lowest:
			if w.has(i, Compensate) { // I4
				t.Fatalf("%s at step %d, yet step %d is undone", s.State, s.CurrentStep, i)
			}
		case s.State == Failed && i == lowest:
			if undo != nil || !hasUndo {
				t.Fatalf("gave up the undo of step %d: %+v", i, undo)
			}
		case undo == nil || hasUndo != (undo.Status == LogSuccess) || hasUndo && p.undone != 1: // I2
			t.Fatalf("%s, step %d: %+v, undo %+v", s.State, i, p, undo)
		}
	}
	w.checkCause()
}

// lowestUndone returns the lowest step that may have been undone.
func (w *world) lowestUndone() int {
	if w.head.State == Failed {
		return w.head.CurrentStep
	}
	return 0
}

// checkCause checks the cause that is recorded for the end.
func (w *world) checkCause() {
	t, s := w.t, w.head
	switch s.State {
	case Completed:
		if s.Error != nil || w.cause != nil {
			t.Fatalf("completed with error %+v", s.Error)
		}
	case Failed: // I2: the remaining effects are listed by CurrentStep and in the message
		if s.Error == nil || !cmp.Equal(s.Error.Cause, w.cause) {
			t.Fatalf("dirty end does not keep why it turned back (-turned back +kept):\n%s", cmp.Diff(w.cause, s.Error.Cause))
		}
		last := w.last(work{s.CurrentStep, Compensate})
		if s.AttentionReason == nil {
			return // acknowledged
		}
		switch *s.AttentionReason {
		case "compensation_failed":
			if last == nil || !last.Final || last.Status != LogFailed && last.Status != LogTimeout {
				t.Fatalf("an undo gave up without a final row: %+v", last)
			}
		case "force_failed":
		case "compensation_timeout":
			if !s.CompensationExpired {
				t.Fatal("too late without a deadline")
			}
		default:
			t.Fatalf("reason %q", *s.AttentionReason)
		}
	default:
		if !cmp.Equal(s.Error, w.cause) {
			t.Fatalf("clean end (-turned back +kept):\n%s", cmp.Diff(w.cause, s.Error))
		}
	}
}

// checkRows compares the step logs with the events of the run (I10).
func (w *world) checkRows() {
	t := w.t
	type count struct{ Rows, Final, Skipped int }
	want, got := map[work]count{}, map[work]count{}
	for i := range w.def.Steps {
		for _, a := range []Action{Execute, Compensate} {
			k := work{i, a}
			c := count{Rows: w.answered[k] + w.closed[k] + w.rows[k], Final: w.ended[k]}
			passed := !w.head.State.Forward() && w.head.State != Completed && (i > w.head.CurrentStep || w.head.State != Failed)
			if a == Compensate && passed && w.mustUndo(i) && w.def.Steps[i].Compensation.None() {
				c = count{Rows: 1, Final: 1, Skipped: 1}
			}
			if w.rows[k] > 0 || w.loose[i] { // by hand: there only has to be a row for it
				continue
			}
			if c != (count{}) {
				want[k] = c
			}
		}
	}
	r := Instance{Saga: w.head}
	for _, l := range w.logs {
		k := work{l.StepIndex, l.Action}
		if l.Attempt <= r.base(k.step, k.action) || w.rows[k] > 0 || w.loose[k.step] {
			continue
		}
		c := got[k]
		c.Rows++
		if l.Final {
			c.Final++
		}
		if l.Status == LogSkipped {
			c.Skipped++
		}
		if l.Status == LogRunning || l.StepName != w.def.Steps[l.StepIndex].Name || l.SagaID != w.head.ID {
			t.Fatalf("wrong row: %+v", l)
		}
		if l.Status == LogSuccess && (!l.Final || l.Error != nil) ||
			l.Error != nil && l.Error.Retryable == (l.Error.Type == string(retry.Refused)) {
			t.Fatalf("a row that contradicts itself: %+v, %+v", l, l.Error)
		}
		got[k] = c
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s: rows per step and action (-want +got):\n%s\n%+v", w.head.State, diff, w.logs)
	}
}

// has reports whether an action of a step was called or logged since the saga last went forward
// again.
func (w *world) has(step int, a Action) bool {
	r := Instance{Saga: w.head}
	return slices.ContainsFunc(w.calls[w.forward:], func(c Call) bool { return c.Index == step && c.Action == a }) ||
		slices.ContainsFunc(
			w.logs,
			func(l StepLog) bool { return l.StepIndex == step && l.Action == a && l.Attempt > r.base(step, a) },
		)
}

// last returns the row with the highest attempt.
func (w *world) last(at work) *StepLog {
	var out *StepLog
	for i := range w.logs {
		if l := &w.logs[i]; l.StepIndex == at.step && l.Action == at.action && (out == nil || l.Attempt > out.Attempt) {
			out = l
		}
	}
	return out
}

func (w *world) policy(at work) retry.Policy {
	if at.action == Execute {
		return w.def.ActionRetry(at.step, nil)
	}
	return w.def.CompensationPolicy(at.step)
}

// row returns the row of a step and action with one of these statuses, or nil if there is none.
func (w *world) row(step int, a Action, statuses ...LogStatus) *StepLog {
	r := Instance{Saga: w.head}
	i := slices.IndexFunc(w.logs, func(l StepLog) bool {
		return l.Attempt > r.base(step, a) && l.StepIndex == step && l.Action == a && slices.Contains(statuses, l.Status)
	})
	if i < 0 {
		return nil
	}
	return &w.logs[i]
}
