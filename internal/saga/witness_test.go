package saga

import (
	"bytes"
	"reflect"
	"time"

	"github.com/google/go-cmp/cmp"
)

// witness keeps, beside the rules and apart from them, what the invariants of
// requirements/invariants.md section 2.2 speak about.
type witness struct {
	done      []bool       // EXECUTE SUCCESS is committed
	doubt     []bool       // may have been applied, nobody knows
	ended     map[work]int // its outcome is decided, once more after a resume
	answered  map[work]int // committed answers
	takeovers map[work]int
	resumed   map[work]int
	closed    map[work]int // RUNNING rows of dead owners, closed by the store
	changes   int64        // accepted ones, claims included
	cause     *Error       // why it turned back
}

// work is one direction of one step.
type work struct {
	step   int
	action Action
}

func newWitness(n int) witness {
	return witness{
		done: make([]bool, n), doubt: make([]bool, n), ended: map[work]int{}, answered: map[work]int{},
		takeovers: map[work]int{}, resumed: map[work]int{}, closed: map[work]int{},
	}
}

func at(r *Run) work { return work{r.CurrentStep, r.Action()} }

// mustUndo tells whether step i belongs to the compensation set (I4).
func (w *world) mustUndo(i int) bool { return w.done[i] || w.doubt[i] }

// takenOver notes a takeover: what the dead owner intended may have happened.
func (w *world) takenOver(s *Saga) {
	r := Run{Saga: *s, Def: w.def}
	w.takeovers[at(&r)]++
	if s.State.Forward() {
		w.doubt[s.CurrentStep] = true
	}
}

// checkCommit is called after each commit of e.
func (w *world) checkCommit(e Event, before *Run, c *Change) {
	t, after := w.t, &c.After
	w.changes++
	if why := inconsistent(after); why != "" {
		t.Fatalf("%#v leads to a saga that is %s: %+v", e, why, after.Saga)
	}
	if before.State != after.State && !Reachable(before.State, after.State) || before.State.Terminal() && before.State != Failed { // I5
		t.Fatalf("%#v leads from %s to %s", e, before.State, after.State)
	}
	if after.Version != before.Version+1 || after.LeaseEpoch != before.LeaseEpoch {
		t.Fatalf("version %d → %d, epoch %d → %d", before.Version, after.Version, before.LeaseEpoch, after.LeaseEpoch)
	}
	w.note(e, before, after)
	w.checkAudit(c)
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
		t.Fatalf("rebuilt from the store (-driven +rebuilt):\n%s", cmp.Diff(*after, rebuilt, cmp.AllowUnexported(Run{})))
	}
	if next := after.Next(w.now); next != rebuilt.Next(w.now) {
		t.Fatalf("the rebuilt run goes on otherwise: %d, %d", next, rebuilt.Next(w.now))
	} else if next == Send && !cmp.Equal(after.Call(Defaults{}), rebuilt.Call(Defaults{})) {
		t.Fatalf("the rebuilt run makes another call")
	}
}

// note learns from a committed event.
func (w *world) note(e Event, before, after *Run) {
	k := before.CurrentStep
	if before.EndCause == nil && after.EndCause != nil {
		w.cause = after.Error
	}
	switch e := e.(type) {
	case ResumeRequested:
		w.resumed[at(after)]++
	case Answered:
		w.answered[at(before)]++
		goesOn := after.State.Forward() == before.State.Forward() && after.CurrentStep == k && !after.State.Terminal()
		if before.State.Forward() {
			switch e.Verdict {
			case Done:
				w.done[k], w.doubt[k] = true, false
			case Refused:
				w.doubt[k] = false
			case Unknown:
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
		case c.Action == Execute && i < c.Index && !w.done[i]: // I3
			t.Fatalf("step %d is executed before step %d is done", c.Index, i)
		case c.Action == Compensate && i > c.Index && w.mustUndo(i) && w.row(i, Compensate, LogSuccess, LogSkipped) == nil: // I4
			t.Fatalf("step %d is undone before step %d", c.Index, i)
		}
	}
	if c.Action == Compensate && (!w.mustUndo(c.Index) || w.def.Steps[c.Index].Compensation.None()) {
		t.Fatalf("step %d is undone: done %v, in doubt %v", c.Index, w.done[c.Index], w.doubt[c.Index])
	}
	sent := 0
	for _, earlier := range w.calls {
		if same := earlier.Index == c.Index && earlier.Action == c.Action; !same {
			if earlier.Key == c.Key {
				t.Fatalf("the key of another step or action: %+v, %+v", earlier, c)
			}
			if c.Action == Execute && earlier.Action == Compensate {
				t.Fatalf("executes after it began to undo: %+v", c)
			}
			continue
		}
		sent++
		if earlier.Key != c.Key || !bytes.Equal(earlier.Body, c.Body) || earlier.Attempt >= c.Attempt || earlier.Fence > c.Fence { // I6, I7
			t.Fatalf("not a repetition:\n%+v %s\n%+v %s", earlier, earlier.Body, c, c.Body)
		}
	}
	here := work{c.Index, c.Action}
	if bound := w.policy(here).MaxAttempts*(1+w.resumed[here]) + w.takeovers[here]; sent >= bound { // I8
		t.Fatalf("call %d of step %d %s, at most %d are allowed", sent+1, c.Index, c.Action, bound)
	}
}
