package chaos

import (
	"fmt"
	"slices"
	"strings"
)

// jobOf returns the definition with this name, or nil if the campaign has none.
func (r *jobRecord) jobOf(name string) *job {
	i := slices.IndexFunc(r.jobs, func(j *job) bool { return j.name == name })
	if i < 0 {
		return nil
	}
	return r.jobs[i]
}

// ruleLogs: J9. Every acknowledged line can be read, and each log is in exactly one place.
func ruleLogs(r *jobRecord, v *jobsVerdict) {
	for i := range r.journal {
		e := &r.journal[i]
		if e.Kind != didLog {
			continue
		}
		v.chunks++
		if got, ok := r.logs[fmt.Sprintf("%s/%d/%d", e.Run, e.Attempt, e.Seq)]; !ok || got != e.Text {
			v.add("J9", e.Run, "chunk %d of attempt %d was acknowledged as %q, and is %q", e.Seq, e.Attempt, e.Text, got)
		}
	}
	for id, run := range r.runs {
		if run.logRef != "" {
			v.offloaded++
			if run.chunks > 0 {
				v.add("J9", id, "its log is at %s, and %d chunks are here", run.logRef, run.chunks)
			}
		}
	}
}

// ruleWishes: J0. Whatever was created for a client exists once, refused requests created nothing,
// and there is no run that was not requested.
func ruleWishes(r *jobRecord, v *jobsVerdict) {
	asked, unknown := map[string]bool{}, 0
	events := map[string][]publishedRow{}
	for _, p := range r.published {
		events[p.dedupe] = append(events[p.dedupe], p)
	}
	for _, w := range r.asked {
		slices.Sort(w.ids)
		ids := slices.Compact(slices.Clone(w.ids))
		if len(ids) > 1 {
			v.add("J0", ids[0], "%s under one key is also %s", w.job, ids[1])
		}
		if w.kind == ofSaga {
			continue // ruleSagas checks these
		}
		if w.kind == ofEvent {
			there := events[w.key]
			if len(there) > 1 || len(ids) == 1 && (len(there) == 0 || there[0].id != ids[0]) {
				v.add("J0", "", "event %s was accepted as %v, and is there %d times", w.key, ids, len(there))
			}
			continue
		}
		for _, id := range ids {
			asked[id] = true
			if r.runs[id] == nil {
				v.add("J0", id, "of %s was accepted and is not there", w.job)
			}
		}
		if len(ids) == 0 && w.unknown {
			unknown++
		}
	}
	for id, run := range r.runs {
		if run.byHand() && !asked[id] {
			if unknown--; unknown < 0 {
				v.add("J0", id, "of %s was made, and nobody was told so", run.job)
			}
		}
	}
}

// ruleBudgets: S7. Assignments are lost and executions fail no more often than allowed, and each
// loss and failure is counted.
func ruleBudgets(r *jobRecord, v *jobsVerdict) {
	lost, ended, released := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, a := range r.attempts {
		ended[a.run]++
		if a.outcome == "ORPHANED" {
			lost[a.run]++
		}
		released[fmt.Sprintf("%s/%d", a.run, a.number)] = a.outcome == "RELEASED"
	}
	// A run that is given back after its lease has expired counts as lost too. For a release close
	// to the end of the lease, the trigger that records moves can't determine which side it was on.
	late := map[string]int{}
	for _, m := range r.moves {
		if m.to == "ORPHANED" && released[fmt.Sprintf("%s/%d", m.run, m.attempt)] &&
			!m.oldLease.IsZero() && !m.at.Before(m.oldLease) {
			late[m.run]++
		}
	}
	for id, run := range r.runs {
		j := r.jobOf(run.job)
		if j == nil {
			v.add("J0", id, "of %s, which is not a job of the campaign", run.job)
			continue
		}
		failed := run.state == "FAILED" || run.state == "TIMED_OUT"
		switch {
		case run.losses < lost[id] || run.losses > lost[id]+late[id]:
			v.add("S7", id, "has lost %d assignments, gave back %d late, and counts %d", lost[id], late[id], run.losses)
		case run.losses > j.losses:
			v.add("S7", id, "has lost %d assignments, and %d may be", run.losses, j.losses)
		case run.errorCode == "LOST" && run.losses != j.losses:
			v.add("S7", id, "was given up as lost after %d of %d", run.losses, j.losses)
		case run.failures != r.failedBefore(run)+btoi(failed) || run.failures > j.attempts:
			v.add(
				"S7",
				id,
				"%s, retry %d, counts %d failures of %d, %d before it",
				run.state,
				run.retry,
				run.failures,
				j.attempts,
				r.failedBefore(run),
			)
		case run.attempt > ended[id]+1:
			v.add("S7", id, "has %d attempts, and %d ended", run.attempt, ended[id])
		}
	}
}

// byHand reports whether a client created the run, by requesting a run or a rerun.
func (run *jobRow) byHand() bool { return strings.HasPrefix(run.idempotent, "manual:") }

// failedBefore returns the number of failures in a run's chain before that run. A rerun starts a
// new chain.
func (r *jobRecord) failedBefore(run *jobRow) int {
	if before := r.runs[run.retryOf]; before != nil && !run.byHand() {
		return before.failures
	}
	return 0
}

// ruleRetries: S5. A retryable failure has one successor; every other run has none.
func ruleRetries(r *jobRecord, v *jobsVerdict) {
	next := map[string]int{}
	for _, run := range r.runs {
		if run.trigger == "RETRY" && !run.byHand() {
			next[run.retryOf]++
		}
	}
	for id, run := range r.runs {
		j := r.jobOf(run.job)
		if j == nil {
			continue
		}
		want := btoi(
			(run.state == "FAILED" || run.state == "TIMED_OUT") && run.retryable && !run.canceling && run.failures < j.attempts,
		)
		if next[id] != want {
			v.add(
				"S5",
				id,
				"%s, failure %d of %d: it has %d retries, want %d",
				run.state,
				run.failures,
				j.attempts,
				next[id],
				want,
			)
		}
	}
}

// ruleLetters: a chain that has given up has one dead letter if its job is configured to create
// one; there are no other letters.
func ruleLetters(r *jobRecord, v *jobsVerdict) {
	for id, run := range r.runs {
		j := r.jobOf(run.job)
		if j == nil {
			continue
		}
		gaveUp := (run.state == "FAILED" || run.state == "TIMED_OUT") && !run.canceling &&
			!(run.retryable && run.failures < j.attempts)
		if want := btoi(gaveUp && j.letter); r.letters[id] != want {
			v.add("J0", id, "of %s is %s (%s): %d dead letters, want %d", run.job, run.state, run.errorCode, r.letters[id], want)
		}
	}
}

// ruleEmitted: everything that a successful run emits exists once, and nothing that a failed run
// would have emitted exists. Every event has created one run of each job that it triggers.
func ruleEmitted(r *jobRecord, v *jobsVerdict) {
	events, follow := map[string]int{}, map[string]int{}
	for _, p := range r.published {
		if p.source != "" {
			events[p.source]++
		}
		listeners := 0
		for _, j := range r.jobs {
			listeners += btoi(j.listens != "" && strings.HasPrefix(p.kind, j.listens))
		}
		if !p.processed || p.runs != listeners {
			v.add("J0", "", "event %s of %s: processed %v, %d runs, want %d", p.id, p.kind, p.processed, p.runs, listeners)
		}
	}
	for _, run := range r.runs {
		if run.trigger == "EVENT" && run.event == "" {
			if parts := strings.Split(run.idempotent, ":"); len(parts) > 1 {
				follow[parts[1]]++
			}
		}
	}
	for id, run := range r.runs {
		j := r.jobOf(run.job)
		if j == nil {
			continue
		}
		done := run.state == "SUCCEEDED"
		if want := btoi(done && j.manner.EmitType != ""); events[id] != want {
			v.add("J0", id, "of %s is %s and has left %d events behind, want %d", run.job, run.state, events[id], want)
		}
		if want := btoi(done && j.manner.EmitJob != ""); follow[id] != want {
			v.add("J0", id, "of %s is %s and has left %d runs behind, want %d", run.job, run.state, follow[id], want)
		}
	}
}

// ruleMet: no client or worker got a response that must never occur.
func ruleMet(r *jobRecord, v *jobsVerdict) {
	for i := range r.journal {
		if e := &r.journal[i]; e.Kind == didMeet {
			v.add("O4", e.Run, "%s was answered %d: %s", e.Call, e.Status, e.Text)
		}
	}
}
