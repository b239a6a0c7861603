package chaos

import (
	"fmt"
	"slices"

	"github.com/skald-saga/skald/examples/order/ledger"
	"github.com/skald-saga/skald/internal/saga"
)

// checkRecord checks an ended saga: its row, its step logs and the ledger must agree.
// ledger.Checker checks the ledger alone.
func checkRecord(r *record, add func(invariant, step, format string, args ...any)) {
	if !r.state.Terminal() {
		add("I1", "", "is %s at step %d long after everything is well again", r.state, r.step)
		return
	}
	checkHead(r, add)
	checkBounds(r, add)
	checkLogs(r, add)
	checkUndoLogs(r, add)
	checkLogsAgainstLedger(r, add)
}

// checkHead checks that the state matches its causes.
func checkHead(r *record, add func(invariant, step, format string, args ...any)) {
	dirty := r.state == saga.Failed
	if r.clean == nil || *r.clean == dirty || r.attention != dirty {
		add("I2", "", "ended %s with clean = %v and needs_attention = %v", r.state, r.clean, r.attention)
	}
	causes := map[saga.State][]string{
		saga.Completed: {""}, saga.Compensated: {"step_failed"}, saga.Cancelled: {"cancelled"},
		saga.TimedOut: {"deadline"}, saga.Failed: {"step_failed", "cancelled", "deadline"},
	}
	if !slices.Contains(causes[r.state], r.cause) {
		add("I5", "", "ended %s for the cause %q", r.state, r.cause)
	}
	if r.cause == "deadline" && (r.timeoutAt == nil || r.timedOut == nil || r.timedOut.Before(*r.timeoutAt)) {
		add("I13", "", "timed out at %v, due at %v", r.timedOut, r.timeoutAt)
	}
	o := r.order
	switch {
	case o == nil:
	case o.cancelAccepted && r.cause != "cancelled":
		add("I5", "", "its cancel was accepted, and it ended %s for the cause %q", r.state, r.cause)
	case r.cause == "cancelled" && !o.cancelSent:
		add("I5", "", "was canceled though nobody asked for it")
	}
	if r.version < 2 {
		add("I5", "", "ended at version %d", r.version)
	}
}

// checkBounds checks I8: no more attempts than the policy allows, plus one per owner that may have
// lost the response to a call.
func checkBounds(r *record, add func(invariant, step, format string, args ...any)) {
	type call struct {
		step   string
		action ledger.Action
	}
	n := map[call]map[int]bool{} // an attempt may be sent twice if its connection breaks
	for _, c := range r.calls {
		of := call{c.Step, c.Action}
		if n[of] == nil {
			n[of] = map[int]bool{}
		}
		n[of][c.Attempt] = true
	}
	for c, attempts := range n {
		calls := len(attempts)
		limit := r.flow.attempts
		if c.action == ledger.Compensate {
			limit = r.flow.undos
		}
		if calls > limit+int(r.epoch) {
			add(
				"I8",
				c.step,
				"%d calls to %s, where the policy allows %d attempts and the saga had %d owners",
				calls,
				c.action,
				limit,
				r.epoch,
			)
		}
	}
}

// checkLogs compares the recorded executions with the final state.
func checkLogs(r *record, add func(invariant, step, format string, args ...any)) {
	done := map[int]bool{}
	failures := map[int]int{}
	final := map[string]bool{}
	for _, l := range r.logs {
		step, call := stepName(l.step), fmt.Sprintf("%d %s", l.step, l.action)
		if l.status == "RUNNING" {
			add("I5", step, "%s attempt %d is recorded as RUNNING though the saga has ended", l.action, l.attempt)
		}
		if final[call] {
			add("I5", step, "%s attempt %d is recorded after its final outcome", l.action, l.attempt)
		}
		final[call] = final[call] || l.final
		if l.action != "EXECUTE" {
			continue
		}
		if l.status == "SUCCESS" {
			done[l.step] = true
		} else if l.outcome != "owner_lost" {
			failures[l.step]++
		}
	}
	for i := range r.flow.steps {
		if done[i] && i > 0 && !done[i-1] {
			add("I3", stepName(i), "is recorded as done, and the step before it is not")
		}
		if r.state == saga.Completed && !done[i] {
			add("I2", stepName(i), "is not recorded as done, yet the saga completed")
		}
		if failures[i] > r.flow.attempts {
			add("I8", stepName(i), "%d failed attempts are recorded, where the policy allows %d", failures[i], r.flow.attempts)
		}
	}
}

// checkUndoLogs compares the recorded compensations with the final state: they must be in strictly
// descending order, without a gap down to the first step or to the step that gave up.
func checkUndoLogs(r *record, add func(invariant, step, format string, args ...any)) {
	highest := -1 // highest step recorded as completed
	for _, l := range r.logs {
		if l.action == "EXECUTE" && l.status == "SUCCESS" {
			highest = max(highest, l.step)
		}
	}
	next, gaveUp := -1, false // the step to compensate next; -1 before the first one
	for _, l := range r.logs {
		if l.action != "COMPENSATE" || !l.final {
			continue
		}
		step := stepName(l.step)
		switch {
		case r.state == saga.Completed:
			add("I4", step, "has an undo recorded, yet the saga completed")
		case next < 0 && l.step < highest:
			add("I4", step, "its undo is the first that is recorded, though %s is recorded as done", stepName(highest))
		case next >= 0 && l.step != next:
			add("I4", step, "its undo is recorded when that of %s was next", stepName(next))
		case gaveUp:
			add("I4", step, "its undo is recorded after one gave up")
		case (l.status == "SKIPPED") == r.flow.hasUndo(step):
			add("I4", step, "its undo is recorded as %s", l.status)
		}
		if l.status == "FAILED" || l.status == "TIMEOUT" {
			gaveUp = true
		}
		if next = l.step - 1; next < 0 {
			next = len(r.flow.steps) // no other compensation may follow
		}
	}
	whole := next < 0 || next == len(r.flow.steps)
	if r.state != saga.Failed && (gaveUp || !whole) {
		add("I4", "", "ended %s before every undo was recorded as done", r.state)
	}
	if r.state == saga.Failed && !gaveUp {
		add("I2", "", "ended dirty though no undo is recorded as given up")
	}
	if next < 0 && highest >= 0 && r.state != saga.Completed {
		add("I4", stepName(highest), "is recorded as done and not as undone, and the saga ended %s", r.state)
	}
}

// checkLogsAgainstLedger looks for recorded calls that never happened.
func checkLogsAgainstLedger(r *record, add func(invariant, step, format string, args ...any)) {
	action := map[string]ledger.Action{"EXECUTE": ledger.Execute, "COMPENSATE": ledger.Compensate}
	for _, l := range r.logs {
		step := stepName(l.step)
		if l.status == "SUCCESS" && !slices.ContainsFunc(r.calls, func(e ledger.Entry) bool {
			return e.Step == step && e.Action == action[l.action] && e.Attempt == l.attempt && e.Done()
		}) {
			add("I10", step, "%s attempt %d is recorded as a success that no participant gave", l.action, l.attempt)
		}
	}
}
