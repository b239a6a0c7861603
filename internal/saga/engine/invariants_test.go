package engine_test

import (
	"bytes"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/longpoll"
	"github.com/skald-saga/skald/internal/saga"
)

// checkInvariants checks ended sagas against the participants' ledger (requirements/invariants.md
// 2.2): I1, I2, I4 and I8. Conditions that can be checked when a call arrives are checked at that
// time (checkCall).
func (w *world) checkInvariants(ids ...uuid.UUID) {
	w.t.Helper()
	for _, id := range ids {
		l := w.load(id)
		if !l.Saga.State.Terminal() {
			w.t.Errorf("saga %s is %s: it has not ended", id, l.Saga.State)
			continue
		}
		v := invariants{w: w, run: w.run(id), logs: l.Logs, calls: w.participants.of(id)}
		v.effects()
		v.undone()
		v.repetition()
		v.rows()
		w.checkTold(l)
	}
}

// watcher returns a channel that receives this node's report of the end of a saga.
func (n *node) watcher(ref saga.Ref) (ended <-chan any, stop func()) {
	w := n.ends.Watch(longpoll.Key{Kind: longpoll.Saga, Tenant: ref.Tenant, ID: ref.ID})
	return w.Done, w.Stop
}

// watch lets checkInvariants compare this node's report of the end of a saga with the store.
func (n *node) watch(id uuid.UUID) {
	ended, _ := n.watcher(saga.Ref{Tenant: home.ID, ID: id})
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.w.watched[id] = append(n.w.watched[id], ended)
}

// checkTold compares an ended saga with the answers given to clients that waited for its end.
func (w *world) checkTold(stored saga.Loaded) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ended := range w.watched[stored.Saga.ID] {
		select {
		case committed := <-ended:
			told, ok := committed.(*saga.Loaded)
			if !ok {
				continue
			}
			w.told++
			for _, l := range [][]saga.StepLog{told.Logs, saga.InOrder(stored.Logs)} {
				for i := range l {
					l[i].Completes = false
				}
			}
			got, _ := json.Marshal(told)
			want, _ := json.Marshal(stored)
			if !bytes.Equal(got, want) {
				w.t.Errorf("who waited was told\n%s\nand the store has\n%s", got, want)
			}
		default:
		}
	}
	delete(w.watched, stored.Saga.ID)
}

type invariants struct {
	w     *world
	run   saga.Instance
	logs  []saga.StepLog
	calls []entry
}

func (v *invariants) wrong(format string, args ...any) {
	v.w.t.Helper()
	v.w.t.Errorf(
		"saga %s (%s, %s): "+format,
		append([]any{v.run.ID, v.run.State, v.w.participants.sequence(v.run.ID)}, args...)...)
}

func (v *invariants) effect(step int) effect {
	if e := v.w.participants.effects[effectID{v.run.ID, step}]; e != nil {
		return *e
	}
	return effect{}
}

// effects is I2: all or nothing, or an operator learns what is left.
func (v *invariants) effects() {
	v.w.t.Helper()
	s := &v.run.Saga
	if clean := s.State != saga.Failed; s.Clean == nil || *s.Clean != clean || s.NeedsAttention == clean {
		v.wrong("clean %v, needs attention %v", s.Clean, s.NeedsAttention)
	}
	for i := range s.TotalSteps {
		e, undoable := v.effect(i), !v.run.Def.Steps[i].Compensation.None()
		switch {
		case e.applied > 1 || e.undone > 1:
			v.wrong("step %d was applied %d times and undone %d times", i, e.applied, e.undone)
		case s.State == saga.Completed && (e.applied != 1 || e.undone != 0):
			v.wrong("step %d of a completed saga: %+v", i, e)
		case s.State == saga.Failed && e.holds() && i > s.CurrentStep && undoable:
			v.wrong("step %d still holds, and the open undo is that of step %d", i, s.CurrentStep)
		case s.State != saga.Completed && s.State != saga.Failed && e.holds() && undoable:
			v.wrong("step %d still holds", i)
		}
	}
}

// undone is I4: steps that were done, or may have been done, are compensated from the last to the
// first, and no others are.
func (v *invariants) undone() {
	v.w.t.Helper()
	lowest := len(v.run.Def.Steps)
	for _, c := range v.calls {
		if c.Action == saga.Execute {
			if lowest < len(v.run.Def.Steps) {
				v.wrong("%s is executed after an undo", c.Step)
			}
			continue
		}
		if c.Index > lowest {
			v.wrong("%s is undone after an earlier step", c.Step)
		}
		lowest = min(lowest, c.Index)
	}
	for i := range v.run.Def.Steps {
		may := v.has(i, saga.Execute, saga.LogSuccess) || v.possible(i)
		if called := v.count(i, saga.Compensate) > 0; called && !may {
			v.wrong("step %d is undone though it was definitely not done", i)
		}
		ended := v.run.State != saga.Completed && v.run.State != saga.Failed
		if ended && v.has(i, saga.Execute, saga.LogSuccess) && !v.has(i, saga.Compensate, saga.LogSuccess) &&
			!v.has(i, saga.Compensate, saga.LogSkipped) {
			v.wrong("step %d was done and no row says that it is undone or has no undo", i)
		}
	}
}

// possible reports whether a step may have been done as far as its node could know. It is false
// only if every call of it was definitely refused and the node was not lost.
func (v *invariants) possible(step int) bool {
	if v.w.takeovers[v.run.ID] > 0 {
		return true
	}
	for _, c := range v.calls {
		if c.Index == step && c.Action == saga.Execute && c.verdict != saga.Refused && c.verdict != saga.NotApplied {
			return true
		}
	}
	return false
}

// repetition is I8: there are no more calls than the policy allows, plus one per takeover.
func (v *invariants) repetition() {
	v.w.t.Helper()
	for i := range v.run.Def.Steps {
		most := v.run.Def.ActionRetry(i, nil).MaxAttempts + v.w.takeovers[v.run.ID]
		if n := v.count(i, saga.Execute); n > most {
			v.wrong("step %d was executed %d times, at most %d are allowed", i, n, most)
		}
		most = v.run.Def.CompensationPolicy(i).MaxAttempts*(1+v.w.resumes[v.run.ID]) + v.w.takeovers[v.run.ID]
		if n := v.count(i, saga.Compensate); n > most {
			v.wrong("step %d was undone %d times, at most %d are allowed", i, n, most)
		}
	}
}

// rows checks the step logs: one per attempt, none left RUNNING.
func (v *invariants) rows() {
	v.w.t.Helper()
	seen := map[[3]any]bool{}
	for _, l := range v.logs {
		k := [3]any{l.StepIndex, l.Action, l.Attempt}
		if seen[k] {
			v.wrong("two rows of %v", k)
		}
		seen[k] = true
		if l.Status == saga.LogRunning || l.CompletedAt == nil {
			v.wrong("%s %s is still %s", l.StepName, l.Action, l.Status)
		}
	}
}

func (v *invariants) has(step int, a saga.Action, s saga.LogStatus) bool {
	for _, l := range v.logs {
		if l.StepIndex == step && l.Action == a && l.Status == s {
			return true
		}
	}
	return false
}

func (v *invariants) count(step int, a saga.Action) (n int) {
	for _, c := range v.calls {
		if c.Index == step && c.Action == a {
			n++
		}
	}
	return n
}
