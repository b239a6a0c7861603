package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// executed is one execution, by the monotonic clock, as its worker has noted it.
type executed struct {
	run, fence, process, key, job string
	attempt                       int
	span
	excuse string // why another one may have begun before it stopped; "": nothing excuses it
}

// executions joins the beginnings and ends of journals. Of a worker that was
// killed an execution ends with it.
func (r *jobRecord) executions() []*executed {
	taken := map[string]bool{} // by force, or the time of a rude one was up: somebody decided not to wait
	for _, a := range r.attempts {
		if a.outcome == "REASSIGNED" {
			taken[fmt.Sprintf("%s/%d", a.run, a.number)] = true
		}
	}
	for _, d := range r.decisions {
		if d.to == "CANCELED" && d.from == "RUNNING" && (d.actor != "" || d.epoch > 0) { // by force, or its grace was over
			taken[fmt.Sprintf("%s/%d", d.run, d.attempt)] = true
		}
	}
	open := map[string]*executed{}
	var all []*executed
	for i := range r.journal {
		e := &r.journal[i]
		switch e.Kind {
		case didBegin:
			x := &executed{run: e.Run, fence: e.fence(), process: e.process, key: e.Key, job: e.Job, attempt: e.Attempt, span: span{from: e.Mono}}
			switch {
			case e.Rude:
				x.excuse = "rude"
			case taken[fmt.Sprintf("%s/%d", e.Run, e.Attempt)]:
				x.excuse = "taken away by force"
			case r.detached[e.Worker]:
				x.excuse = "its worker was detached"
			}
			open[e.fence()] = x
			all = append(all, x)
		case didEnd:
			if x := open[e.fence()]; x != nil {
				x.to = e.Mono
			}
		}
	}
	for _, x := range all {
		life := r.lives[x.process]
		if x.to == 0 {
			x.to = cmp.Or(life.end, x.from)
		}
		for _, s := range life.stops {
			if x.excuse == "" && s.from < x.to && x.from < s.to {
				x.excuse = "its worker was stopped"
			}
		}
	}
	return all
}

// ruleOverlaps: J4. Two executions of a run, or of a concurrency key, overlap only
// if the first was by a worker that could not know: it was stopped, or it would not
// know, or somebody took the run by force. Nothing is begun twice.
func ruleOverlaps(r *jobRecord, v *jobsVerdict) {
	by := map[string][]*executed{}
	fences := map[string]bool{}
	for _, x := range r.executions() {
		if fences[x.fence] {
			v.add("J4", x.run, "attempt %d was begun twice", x.attempt)
		}
		fences[x.fence] = true
		by["run "+x.run] = append(by["run "+x.run], x)
		if x.key != "" {
			by["key "+x.key] = append(by["key "+x.key], x)
		}
	}
	for what, all := range by {
		slices.SortFunc(all, func(a, b *executed) int { return cmp.Compare(a.from, b.from) })
		for i, a := range all {
			for _, b := range all[i+1:] {
				if b.from >= a.to {
					break
				}
				if v.overlaps++; a.excuse == "" {
					v.add("J4", b.run, "of %s, attempt %d began %s before attempt %d of %s had stopped, which nothing kept from knowing",
						what, b.attempt, time.Duration(a.to-b.from), a.attempt, a.run)
				}
			}
		}
	}
}

// lateRounds is how many rounds the leader may complete between a deadline and what
// must follow from it: the one under way when the deadline passes, and two more.
const lateRounds = 3

// rulePromptness: J7. A run whose lease has ended is in doubt, and one that nobody
// confirmed is given up, within two rounds of whoever leads; not before.
func rulePromptness(r *jobRecord, v *jobsVerdict) {
	var rounds []time.Time
	for _, l := range r.reigns {
		if l.round {
			rounds = append(rounds, l.at)
		}
	}
	between := func(from, to time.Time) int {
		a, _ := slices.BinarySearchFunc(rounds, from, time.Time.Compare)
		b, _ := slices.BinarySearchFunc(rounds, to, time.Time.Compare)
		return b - a
	}
	taken := map[string]bool{}
	for _, a := range r.attempts {
		if a.outcome != "ORPHANED" {
			taken[fmt.Sprintf("%s/%d", a.run, a.number)] = true // given back, or taken away: at any time
		}
	}
	for _, m := range r.moves {
		var due time.Time
		switch {
		case m.from == "RUNNING" && m.to == "RUNNING" && m.before == "NONE" && m.continuation == "CONFIRMING",
			m.from == "ASSIGNED" && m.to == "ORPHANED":
			due = m.oldLease
		case m.from == "RUNNING" && m.to == "ORPHANED":
			if due = m.oldDeadline; m.before != "CONFIRMING" && !taken[fmt.Sprintf("%s/%d", m.run, m.attempt)] {
				v.add("J7", m.run, "was given up and nobody had doubted it")
			}
		}
		if due.IsZero() || taken[fmt.Sprintf("%s/%d", m.run, m.attempt)] {
			continue
		}
		if m.at.Before(due) {
			v.add("J7", m.run, "%s became %s %s before its time", m.from, m.to, due.Sub(m.at))
		}
		n := between(due, m.at)
		v.worstWait = max(v.worstWait, n)
		if n > lateRounds {
			v.add("J7", m.run, "%s (%s) became %s (%s) %s late, after %d rounds of the leader", m.from, m.before, m.to, m.continuation, m.at.Sub(due), n)
		}
	}
}

// ruleEnds: J7, in the end. Everything has ended, or waits for a time to come.
func ruleEnds(r *jobRecord, v *jobsVerdict) {
	for id, run := range r.runs {
		v.ends[run.state]++
		if !slices.Contains(terminalStates, run.state) {
			v.add("J7", id, "of %s is still %s", run.job, run.state)
		}
		if run.state == "FAILED" && run.errorCode == "LOST" {
			v.lost++
		}
	}
	v.skipped = v.ends["SKIPPED"]
	reasons := map[string]string{}
	for _, d := range r.decisions {
		if d.to == "SKIPPED" {
			reasons[d.run] = d.reason
		}
	}
	for id, run := range r.runs {
		if run.state == "SKIPPED" && reasons[id] == "" {
			v.add("J8", id, "of %s was skipped, and nothing says why", run.job)
		}
	}
}

// ruleKeys: S18. Of a concurrency key at most one run is with a worker, or may come
// back to one.
func ruleKeys(r *jobRecord, v *jobsVerdict) {
	holder := map[string]string{}
	for _, m := range r.moves {
		if m.key == "" {
			continue
		}
		switch m.to {
		case "ASSIGNED", "RUNNING", "ORPHANED":
			if h := holder[m.key]; h != "" && h != m.run {
				v.add("S18", m.run, "has key %s, and %s has it too", m.key, h)
			}
			holder[m.key] = m.run
		default:
			if holder[m.key] == m.run {
				holder[m.key] = ""
			}
		}
	}
}
