package saga

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
)

// witness keeps track, independently of the rules, of the facts that the invariants of
// requirements/invariants.md section 2.2 refer to.
type witness struct {
	done      []bool       // EXECUTE SUCCESS is committed
	doubt     []bool       // may have been applied, but no answer says so
	loose     []bool       // may be undone although not applied: a retry has hidden how often it failed
	ended     map[work]int // how often its outcome was decided; one more after each resume
	answered  map[work]int // committed answers
	takeovers map[work]int
	resumed   map[work]int
	closed    map[work]int // RUNNING rows of dead owners, closed by the store
	changes   int64        // accepted changes, including claims
	cause     *Error       // why it began to compensate

	// The actions of operators.
	skipped    []bool       // passed without having been done
	byHand     []bool       // done, according to an operator
	undoByHand []bool       // undone or given up, according to an operator
	rows       map[work]int // logs that were not written for a call
	forward    int          // number of calls before it last went forward again
	forcedEnd  bool         // by force
	happened   map[string]int

	letters map[uuid.UUID]dlq.Letter // as a store keeps them
}

// work is one direction of one step.
type work struct {
	step   int
	action Action
}

func newWitness(n int) witness {
	return witness{
		done: make([]bool, n), doubt: make([]bool, n), loose: make([]bool, n),
		ended: map[work]int{}, answered: map[work]int{}, takeovers: map[work]int{},
		resumed: map[work]int{}, closed: map[work]int{},
		skipped:    make([]bool, n),
		byHand:     make([]bool, n),
		undoByHand: make([]bool, n),
		rows:       map[work]int{},
		happened:   map[string]int{},
		letters:    map[uuid.UUID]dlq.Letter{},
	}
}

func at(r *Instance) work { return work{r.CurrentStep, r.Action()} }

// mustUndo reports whether step i belongs to the compensation set (I4).
func (w *world) mustUndo(i int) bool { return w.done[i] || w.doubt[i] }

// takenOver records a takeover: the call that the dead owner intended may have happened.
func (w *world) takenOver(s *Saga) {
	r := Instance{Saga: *s, Def: w.def}
	w.takeovers[at(&r)]++
	if s.State.Forward() {
		w.doubt[s.CurrentStep] = true
		for k := s.CurrentStep; w.goesAhead(k); k++ {
			w.doubt[k+1] = true
			w.takeovers[work{k + 1, Execute}]++
			w.happened["saga.in doubt beyond the row"]++
		}
	}
}

// goesAhead reports whether the step after step k may be called before the outcome of step k is written.
func (w *world) goesAhead(k int) bool {
	if k+1 >= len(w.def.Steps) || w.def.Steps[k].Pivot || w.def.Steps[k+1].Pivot {
		return false
	}
	checkpoint := w.def.Steps[k].Checkpoint
	return checkpoint != nil && !*checkpoint
}

// loosen records that the number of failures of the current step is no longer known.
func (w *world) loosen(r *Instance) {
	for k := r.CurrentStep; w.goesAhead(k); k++ {
		w.loose[k+1] = true
		w.takeovers[work{k + 1, Execute}] += r.Attempt
	}
}

// holds reports whether the driver holds the outcome of step i.
func (w *world) holds(i int) bool {
	return slices.ContainsFunc(w.held, func(p decided) bool { return p.before.CurrentStep == i })
}

// checkCommit is called after each commit of decisions in one change.
func (w *world) checkCommit(parts []decided, c *Change) {
	t, after := w.t, &c.After
	before, e := &parts[0].before, parts[len(parts)-1].e
	w.changes++
	if why := inconsistent(after); why != "" {
		t.Fatalf("%#v leads to a saga that is %s: %+v", e, why, after.Saga)
	}
	if before.State != after.State && !Reachable(before.State, after.State) ||
		before.State.Terminal() && before.State != Failed { // I5
		t.Fatalf("%#v leads from %s to %s", e, before.State, after.State)
	}
	if after.Version != before.Version+1 || after.LeaseEpoch != before.LeaseEpoch {
		t.Fatalf("version %d → %d, epoch %d → %d", before.Version, after.Version, before.LeaseEpoch, after.LeaseEpoch)
	}
	w.happened[fmt.Sprintf("%T in %s", e, before.State)]++
	for i := range parts {
		p := &parts[i]
		if i == len(parts)-1 {
			w.note(p.e, &p.before, after)
		} else {
			w.note(p.e, &p.before, &p.c.After)
		}
	}
	last := parts[len(parts)-1]
	last.c.After = *after
	w.noteByHand(&last.before, &last.c)
	w.checkAudit(c)
	w.checkLetters(e, &last.before, &last.c)
	running := 0
	for _, l := range w.logs {
		if (l.Status == LogRunning) != (l.CompletedAt == nil) {
			t.Fatalf("RUNNING without being so, or the other way round: %+v", l)
		}
		if l.Status == LogRunning {
			running++
		}
	}
	if recorded := after.recorded; running > 1 || recorded != (running == 1) {
		t.Fatalf("%d RUNNING rows, recorded = %v", running, recorded)
	}
	w.checkViews(after)
	rebuilt := w.load()
	if !reflect.DeepEqual(rebuilt, *after) {
		t.Fatalf("rebuilt from the store (-driven +rebuilt):\n%s", cmp.Diff(*after, rebuilt, cmp.AllowUnexported(Instance{})))
	}
	if next := after.Next(w.now); next != rebuilt.Next(w.now) {
		t.Fatalf("the rebuilt run goes on otherwise: %d, %d", next, rebuilt.Next(w.now))
	} else if next == Send && !cmp.Equal(after.Call(Defaults{}), rebuilt.Call(Defaults{})) {
		t.Fatalf("the rebuilt run makes another call")
	}
}

// note updates the witness from a committed event.
func (w *world) note(e Event, before, after *Instance) {
	k := before.CurrentStep
	_, forced := e.(FailureForced)
	switch {
	case forced && before.EndCause == nil:
		w.cause = before.Error // nothing but force, or the error that had stopped it
	case before.EndCause != nil && after.EndCause == nil && before.State.Forward():
		w.cause = nil
		w.happened["saga.voided"]++
	case before.EndCause == nil && after.EndCause != nil,
		w.cause == nil && before.Halted() && !after.Halted() && after.Error != nil:
		w.cause = after.Error
	}
	if after.Stopped() && !before.Stopped() {
		w.happened["saga.stopped"]++
	}
	if before.Stopped() && !after.Stopped() {
		w.happened[fmt.Sprintf("saga.stop ended by %T", e)]++
	}
	if after.past() && after.Failures >= w.policy(at(after)).MaxAttempts {
		w.happened["saga.persisted"]++
	}
	switch e := e.(type) {
	case UnsuspendRequested:
		if before.Stopped() {
			w.resumed[at(after)]++
			w.loosen(after)
		}
	case ResumeRequested:
		w.resumed[at(after)]++
	case RetryRequested:
		w.resumed[at(after)]++
		w.loosen(after)
	case StepOrdered:
		w.resumed[at(after)]++
	case FailureForced, CompletionForced:
		w.forcedEnd = after.State == Completed
		w.loosen(after)
	case Forgotten:
		w.takenOver(&before.Saga)
	case Passed:
		w.note(Answered(e), before, after)
	case Answered:
		w.answered[at(before)]++
		goesOn := after.State.Forward() == before.State.Forward() && after.CurrentStep == k && !after.State.Terminal() &&
			!after.Stopped()
		if before.State.Forward() {
			switch { // no refusal ends a doubt
			case e.Verdict == Done:
				w.done[k], w.doubt[k] = true, false
			case e.Verdict == Unknown, e.InDoubt:
				w.doubt[k] = true
			}
		}
		if !goesOn {
			w.ended[at(before)]++
		} else if wait := after.NextRunAt; wait == nil || wait.Before(w.now.Add(min(e.RetryAfter, time.Hour))) {
			w.t.Fatalf("retried at %v though it is %v and the participant asks for %v", wait, w.now, e.RetryAfter)
		}
	}
}

// checkCall is called before each call is sent.
func (w *world) checkCall(c Call) {
	t := w.t
	for i := range w.def.Steps {
		switch {
		case c.Action == Execute && i < c.Index && !w.done[i] && !w.skipped[i] && !w.holds(i): // I3
			t.Fatalf("step %d is executed before step %d is done", c.Index, i)
		// I4
		case c.Action == Compensate && i > c.Index && w.mustUndo(i) && w.row(i, Compensate, LogSuccess, LogSkipped) == nil:
			t.Fatalf("step %d is undone before step %d", c.Index, i)
		}
	}
	if c.Action == Compensate && (!w.mustUndo(c.Index) && !w.loose[c.Index] || w.def.Steps[c.Index].Compensation.None()) {
		t.Fatalf("step %d is undone: done %v, in doubt %v", c.Index, w.done[c.Index], w.doubt[c.Index])
	}
	if pivot := w.def.Pivot(); c.Action == Compensate && pivot >= 0 && (w.done[pivot] || w.skipped[pivot]) { // I21
		t.Fatalf("step %d is undone after the pivot is done: %s", c.Index, w.story())
	}
	if w.run.SuspendedAt != nil { // I15
		t.Fatalf("sent while suspended: %+v", c)
	}
	sent := 0
	for i, earlier := range w.calls {
		if same := earlier.Index == c.Index && earlier.Action == c.Action; !same {
			if earlier.Key == c.Key {
				t.Fatalf("the key of another step or action: %+v, %+v", earlier, c)
			}
			if c.Action == Execute && earlier.Action == Compensate && i >= w.forward {
				t.Fatalf("executes after it began to undo: %+v", c)
			}
			continue
		}
		if earlier.Key != c.Key { // a different run of the step
			if earlier.Attempt >= c.Attempt || !strings.Contains(c.Key, "#") {
				t.Fatalf("another key without a new run, or a new run that does not count on:\n%+v\n%+v", earlier, c)
			}
			continue
		}
		sent++
		differs := !bytes.Equal(earlier.Body, c.Body) && !w.byPerson(c.Index)
		if differs || earlier.Attempt >= c.Attempt || earlier.Fence > c.Fence { // I6, I7
			t.Fatalf("not a repetition:\n%+v %s\n%+v %s", earlier, earlier.Body, c, c.Body)
		}
	}
	here := work{c.Index, c.Action}
	bound := w.policy(here).MaxAttempts*(1+w.resumed[here]) + w.takeovers[here]
	if pivot := w.def.Pivot(); sent >= bound && (pivot < 0 || c.Index <= pivot) { // I8
		t.Fatalf("call %d of step %d %s, at most %d are allowed", sent+1, c.Index, c.Action, bound)
	}
}

// byPerson reports whether an operator has decided about an earlier step after which step i may
// have been called ahead. The output of that step may then differ from the earlier one.
func (w *world) byPerson(i int) bool {
	for k := i - 1; k >= 0 && w.goesAhead(k); k-- {
		if w.byHand[k] || w.skipped[k] {
			return true
		}
	}
	return false
}

// noteByHand updates the witness from logs that were not written for a call, and from steps that
// start over.
func (w *world) noteByHand(before *Instance, c *Change) {
	after := &c.After
	for _, l := range c.Logs {
		k := work{l.StepIndex, l.Action}
		switch {
		case l.Status == LogSkipped && l.Response != nil: // undone outside Skald
		case l.Outcome == nil || *l.Outcome != OutcomeOperator:
			continue
		case l.Completes:
		}
		w.rows[k]++
		w.ended[k]++
		switch {
		case l.Action == Compensate && l.Status != LogFailed:
			w.undoByHand[l.StepIndex] = true
		case l.Action == Execute && l.Status == LogSuccess:
			w.done[l.StepIndex], w.byHand[l.StepIndex], w.doubt[l.StepIndex] = true, true, false
		case l.Action == Execute && l.Status == LogSkipped:
			w.skipped[l.StepIndex] = true
		case l.Action == Execute && l.Error.Code == "abandoned":
			w.doubt[l.StepIndex] = true
			for k := l.StepIndex; w.goesAhead(k); k++ {
				w.doubt[k+1] = true
			}
		}
	}
	if before.Interventions == after.Interventions {
		return
	}
	for k := range w.def.Steps {
		was, is := before.intervened(k), after.intervened(k)
		if is.Runs > was.Runs {
			w.anew(k)
		}
		if is.UndoBase > was.UndoBase || is.Runs > was.Runs {
			undo := work{k, Compensate}
			for _, m := range []map[work]int{w.answered, w.closed, w.rows, w.ended, w.resumed, w.takeovers} {
				delete(m, undo)
			}
			w.undoByHand[k] = false
		}
	}
	if after.State.Forward() && !before.State.Forward() {
		w.forward, w.cause = len(w.calls), nil
		for k := range after.CurrentStep {
			if p := w.participants[k]; p.undone > 0 && !w.undoByHand[k] {
				w.t.Fatalf("goes forward from step %d, but step %d was undone: %+v\n%s", after.CurrentStep, k, p, w.story())
			}
		}
	}
}

// anew starts a new run of step k. The effect of the earlier run must have been undone, by its
// compensation or by declaration, unless an operator knows better.
func (w *world) anew(k int) {
	p := w.participants[k]
	undone := w.undoByHand[k] || p.undone == 1 || w.row(k, Compensate, LogSkipped) != nil ||
		w.def.Steps[k].Compensation.None()
	if w.mustUndo(k) && !undone {
		w.t.Fatalf("step %d begins anew, but it was not undone: %+v\n%s", k, p, w.story())
	}
	w.participants[k] = participant{}
	w.done[k], w.doubt[k], w.skipped[k], w.byHand[k], w.loose[k] = false, false, false, false, false
	for _, m := range []map[work]int{w.answered, w.closed, w.rows, w.ended, w.resumed, w.takeovers} {
		delete(m, work{k, Execute})
	}
}

// story returns everything that was logged, in order.
func (w *world) story() string {
	var b strings.Builder
	for _, l := range w.logs {
		fmt.Fprintf(&b, "%s %d#%d %s final=%t", l.Action, l.StepIndex, l.Attempt, l.Status, l.Final)
		if l.Outcome != nil {
			fmt.Fprintf(&b, " %s", *l.Outcome)
		}
		if l.Error != nil {
			fmt.Fprintf(&b, " %s %s", l.Error.Type, l.Error.Code)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
