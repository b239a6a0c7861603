package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/examples/order/ledger"
)

type violation = ledger.Violation

// jobsVerdict contains the judge's findings and counts.
type jobsVerdict struct {
	violations []violation
	ends       map[string]int
	overlaps   int // of executions, whose workers were stopped, were rude, or lost the run to an operator (J4)
	refused    int // reports of zombies
	confirmed  int
	doubted    int
	orphaned   int
	lost       int
	skipped    int
	epochs     int
	rounds     int
	fired      int
	offloaded  int
	chunks     int
	worstWait  int // largest number of the leader's rounds between a deadline and its consequence
}

func (v *jobsVerdict) add(invariant, run, format string, args ...any) {
	v.violations = append(v.violations, violation{Invariant: invariant, Saga: run, Detail: fmt.Sprintf(format, args...)})
}

// judgeJobs checks a record against J1 to J9 and the other promises.
func judgeJobs(r *jobRecord) *jobsVerdict {
	v := &jobsVerdict{ends: map[string]int{}}
	for _, rule := range []func(*jobRecord, *jobsVerdict){
		ruleSlots, ruleOneAtATime, ruleReports, ruleOverlaps, ruleLeaders, ruleMoves, rulePromptness, ruleEnds,
		ruleLogs, ruleKeys, ruleWishes, ruleBudgets, ruleRetries, ruleLetters, ruleEmitted, ruleMet, ruleSagas,
	} {
		rule(r, v)
	}
	return v
}

// ruleSlots: J1 and J8. The slots that were fired or recorded as skipped are exactly those of the
// job's own enumeration, with no slot missing or handled twice.
func ruleSlots(r *jobRecord, v *jobsVerdict) {
	for _, j := range r.jobs {
		if j.due == nil {
			continue
		}
		got := map[time.Time]int{}
		for _, run := range r.runs {
			if run.job == j.name && run.trigger == "TIME" {
				got[run.scheduled.UTC()]++
			}
		}
		for _, at := range j.slots() {
			switch n := got[at.UTC()]; {
			case n == 0:
				v.add("J8", "", "%s has no run of %s", j.name, at.UTC().Format(clockFormat))
			case n > 1:
				v.add("J1", "", "%s has %d runs of %s", j.name, n, at.UTC().Format(clockFormat))
			}
			delete(got, at.UTC())
			v.fired++
		}
		for at := range got {
			v.add("J8", "", "%s has a run of %s, which is not a slot of it", j.name, at.Format(clockFormat))
		}
	}
}

// ruleOneAtATime: J2. The attempts of a run do not overlap, and each attempt has a token of its
// own.
func ruleOneAtATime(r *jobRecord, v *jobsVerdict) {
	tokens := map[string]string{}
	ended := map[string]map[int]attemptRow{}
	for _, a := range r.attempts {
		if ended[a.run] == nil {
			ended[a.run] = map[int]attemptRow{}
		}
		ended[a.run][a.number] = a
		if a.ended.Before(a.assigned) {
			v.add("J2", a.run, "attempt %d ended before it was assigned", a.number)
		}
		if other, twice := tokens[a.token]; twice {
			v.add("J2", a.run, "the token of attempt %d is also that of %s", a.number, other)
		}
		tokens[a.token] = fmt.Sprintf("attempt %d of %s", a.number, a.run)
	}
	holder := map[string]string{} // of runs that are RUNNING, in order of events
	assigned := map[string]map[int]time.Time{}
	for _, m := range r.moves {
		who := fmt.Sprintf("%s/%d/%s", m.worker, m.attempt, m.token)
		switch m.to {
		case "RUNNING":
			if h := holder[m.run]; h != "" && h != who {
				v.add("J2", m.run, "is RUNNING for %s and for %s", h, who)
			}
			holder[m.run] = who
		default:
			holder[m.run] = ""
		}
		if m.to == "ASSIGNED" {
			if assigned[m.run] == nil {
				assigned[m.run] = map[int]time.Time{}
			}
			assigned[m.run][m.attempt] = m.at
		}
	}
	for id, run := range r.runs {
		for n := 1; n < run.attempt; n++ {
			a, there := ended[id][n]
			next, known := assigned[id][n+1]
			switch {
			case !there:
				v.add("J2", id, "attempt %d of %d is not on record", n, run.attempt)
			case known && next.Before(a.ended):
				v.add("J2", id, "attempt %d ended after the next one was assigned", n)
			}
		}
	}
}

// ruleReports: J3. The row contains the accepted report, anything it says about a worker's work was
// reported by some worker, and refused reports have changed nothing.
func ruleReports(r *jobRecord, v *jobsVerdict) {
	intends := map[string]bool{}
	ends := map[string]attemptRow{} // released attempts, by fence
	for _, a := range r.attempts {
		ends[fmt.Sprintf("%s/%d/%s/%d", a.run, a.number, a.token, a.epoch)] = a
	}
	decided := map[string]decision{} // decisions that ended a run
	for _, d := range r.decisions {
		if d.from != d.to && slices.Contains(terminalStates, d.to) {
			decided[d.run] = d
		}
	}
	for i := range r.journal {
		e := &r.journal[i]
		run := r.runs[e.Run]
		switch {
		case e.Kind == didIntend:
			intends[e.fence()+e.Outcome] = true
		case e.Kind != didHear || e.Outcome == "":
		case run == nil:
			v.add("J3", e.Run, "a worker has reported on a run that is not there")
		case e.Status == 409 || e.Status == 410:
			v.refused++
			if e.Outcome == "SUCCEEDED" && run.state == "SUCCEEDED" && fenceOf(run) == e.fence() {
				v.add("J3", e.Run, "attempt %d was refused (%s), and its success was recorded", e.Attempt, e.Code)
			}
		case e.Status == 200 && e.Outcome == "ORPHANED":
			if a, ok := ends[e.fence()]; (!ok || a.outcome != "RELEASED" && !e.Replayed) && run.state != "CANCELED" {
				v.add("J3", e.Run, "attempt %d was given back, and is recorded as %q", e.Attempt, a.outcome)
			}
		case e.Status == 200 && (run.state != e.Outcome || fenceOf(run) != e.fence()):
			v.add(
				"J3",
				e.Run,
				"attempt %d was accepted as %s, and the run is %s by attempt %d",
				e.Attempt,
				e.Outcome,
				run.state,
				run.attempt,
			)
		}
	}
	for id, run := range r.runs {
		d := decided[id]
		byWorker := run.state == "SUCCEEDED" ||
			d.to != "" && d.epoch == 0 && d.actor == "" && d.from == "RUNNING" && run.state != "SKIPPED"
		switch {
		case run.state == "SUCCEEDED" && run.resultToken != run.token:
			v.add("J3", id, "the result is that of token %q, and the fence is %q", run.resultToken, run.token)
		case byWorker && !intends[fenceOf(run)+run.state] && !(run.state == "CANCELED" && intends[fenceOf(run)+"ORPHANED"]):
			v.add("J3", id, "is %s by attempt %d, which has not reported that", run.state, run.attempt)
		}
	}
}

func fenceOf(run *jobRow) string {
	return fmt.Sprintf("%s/%d/%s/%d", run.id, run.attempt, run.token, run.epoch)
}

var terminalStates = []string{"SUCCEEDED", "FAILED", "CANCELED", "TIMED_OUT", "SKIPPED"}

// ruleLeaders: J5. Epochs increase, each belongs to one process, and every decision of a leader was
// made during the term of its epoch.
func ruleLeaders(r *jobRecord, v *jobsVerdict) {
	leader := map[int64]string{}
	var last int64
	for _, l := range r.reigns {
		if l.round {
			v.rounds++
		}
		if other, known := leader[l.epoch]; known && other != l.leader {
			v.add("J5", "", "epoch %d was led by %s and by %s", l.epoch, other, l.leader)
		}
		leader[l.epoch] = l.leader
		switch {
		case l.epoch < last:
			v.add("J5", "", "epoch %d follows %d", l.epoch, last)
		case l.epoch == last && !l.round:
			v.add("J5", "", "epoch %d was taken twice", l.epoch)
		case l.epoch > last:
			v.epochs++
		}
		last = l.epoch
	}
	for _, d := range r.decisions {
		if d.epoch == 0 || d.kind == "refused" || d.kind == "confirmed" {
			continue // their epoch is the fence's
		}
		if d.ledEpoch != d.epoch || d.leader != leader[d.epoch] {
			v.add("J5", d.run, "%s was decided under epoch %d, and epoch %d was in force", d.kind, d.epoch, d.ledEpoch)
		}
	}
	for _, m := range r.moves {
		if m.to == "ASSIGNED" && (m.epoch > last || leader[m.epoch] == "") {
			v.add("J5", m.run, "was assigned under epoch %d, which nobody has led", m.epoch)
		}
	}
}

// legal is the transition table of seed 5 with S6, copied from the requirements by hand.
var legal = strings.Fields(`
	PENDING>ASSIGNED PENDING>CANCELED PENDING>SKIPPED
	ASSIGNED>RUNNING ASSIGNED>ORPHANED ASSIGNED>CANCELED ASSIGNED>SKIPPED
	RUNNING>SUCCEEDED RUNNING>FAILED RUNNING>TIMED_OUT RUNNING>CANCELED RUNNING>ORPHANED
	ORPHANED>ASSIGNED ORPHANED>FAILED ORPHANED>TIMED_OUT ORPHANED>CANCELED`)

// ruleMoves: J6. Every move is in the table and increments the version, tokens change only with
// assignments, ended runs do not change, and each recorded decision corresponds to a move.
func ruleMoves(r *jobRecord, v *jobsVerdict) {
	at := map[string]move{}
	moved := map[string]bool{}
	for _, m := range r.moves {
		before, known := at[m.run]
		at[m.run] = m
		moved[fmt.Sprint(m.run, m.from, m.to, m.version)] = true
		if m.continuation == "CONFIRMING" && m.before != "CONFIRMING" {
			v.doubted++
		}
		switch {
		case m.from == "":
			if known || m.to != "PENDING" && m.to != "SKIPPED" {
				v.add("J6", m.run, "was made as %s", m.to)
			}
		case before.finished:
			v.add("J6", m.run, "has ended as %s and moved to %s", before.to, m.to)
		case before.to != m.from:
			v.add("J6", m.run, "was %s and moved from %s", before.to, m.from)
		case m.from == m.to:
			if m.version < before.version || m.token != m.oldToken {
				v.add(
					"J6",
					m.run,
					"stayed %s with version %d after %d, token %s after %s",
					m.to,
					m.version,
					before.version,
					m.token,
					m.oldToken,
				)
			}
		case !slices.Contains(legal, m.from+">"+m.to):
			v.add("J6", m.run, "%s became %s", m.from, m.to)
		case m.version != before.version+1:
			v.add("J6", m.run, "%s at version %d became %s at version %d", m.from, before.version, m.to, m.version)
		case (m.token != m.oldToken) != (m.to == "ASSIGNED"):
			v.add("J6", m.run, "the token changed from %s to %s as it became %s", m.oldToken, m.token, m.to)
		case m.attempt != before.attempt+btoi(m.to == "ASSIGNED"):
			v.add("J6", m.run, "attempt %d became %d with %s", before.attempt, m.attempt, m.to)
		}
	}
	for id, run := range r.runs {
		if m, ok := at[id]; !ok || m.to != run.state || m.version != run.version && !run.canceling {
			v.add("J6", id, "is %s at version %d, and its last move was to %s at %d", run.state, run.version, m.to, m.version)
		}
	}
	for _, d := range r.decisions {
		if d.from != d.to && d.from != "" && d.to != "" && !moved[fmt.Sprint(d.run, d.from, d.to, d.version)] {
			v.add("J6", d.run, "%s: from %s to %s at version %d, which did not happen", d.kind, d.from, d.to, d.version)
		}
		switch d.kind {
		case "confirmed":
			v.confirmed++
		case "orphaned":
			v.orphaned++
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
