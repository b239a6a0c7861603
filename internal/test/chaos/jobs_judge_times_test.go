package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// executed is one execution by the monotonic clock, from its worker's journal.
type executed struct {
	run, fence, process, key, job string
	attempt                       int
	since                         int64 // when its claim was sent: the worker's information may be that old
	order                         int64 // order of assignments: the second half of the fencing token
	span
	excuse string // why another execution may have begun before it stopped; "": none may
}

// executions pairs the beginnings and ends in the journals. The execution of a killed worker ends
// with the worker.
func (r *jobRecord) executions() []*executed {
	taken := map[string]bool{} // by force, or after the grace period of a rude execution: Skald did not wait
	for _, a := range r.attempts {
		if a.outcome == "REASSIGNED" {
			taken[fmt.Sprintf("%s/%d", a.run, a.number)] = true
		}
	}
	for _, d := range r.decisions {
		if d.to == "CANCELED" && d.from == "RUNNING" && (d.actor != "" || d.epoch > 0) { // forced, or after the grace period
			taken[fmt.Sprintf("%s/%d", d.run, d.attempt)] = true
		}
	}
	open := map[string]*executed{}
	var all []*executed
	for i := range r.journal {
		e := &r.journal[i]
		switch e.Kind {
		case didBegin:
			x := &executed{
				run:     e.Run,
				fence:   e.fence(),
				process: e.process,
				key:     e.Key,
				job:     e.Job,
				attempt: e.Attempt,
				since:   cmp.Or(e.Since, e.Mono),
				span:    span{from: e.Mono},
			}
			_, seq, _ := strings.Cut(e.Fencing, ".")
			x.order, _ = strconv.ParseInt(seq, 10, 64) // 0 if it has none: it then follows no other execution
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
			if x.excuse == "" && s.from < x.to && x.since < s.to {
				x.excuse = "its worker was stopped"
			}
		}
	}
	return all
}

// ruleOverlaps: J4. Two executions of a run or of a concurrency key overlap only if the worker of
// the earlier assignment could not know that its assignment had ended: the worker was stopped, it
// was rude, or the run was taken by force. No execution begins twice.
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
				stale, young := a, b // stale: its assignment has ended; young: its assignment has not
				if b.order < a.order {
					stale, young = b, a
				}
				if v.overlaps++; stale.excuse == "" {
					v.add(
						"J4",
						young.run,
						"of %s, attempt %d was executed %s beside attempt %d of %s, which nothing kept from knowing",
						what,
						young.attempt,
						time.Duration(min(a.to, b.to)-b.from),
						stale.attempt,
						stale.run,
					)
				}
			}
		}
	}
}

// lateRounds is the number of rounds that the leader may complete between a deadline and its
// consequence: the round in progress when the deadline passes, and two more.
const lateRounds = 3

// rulePromptness: J7. A run whose lease has ended is put in doubt, and an unconfirmed run is given
// up, within two rounds of the leader but not before the deadline.
func rulePromptness(r *jobRecord, v *jobsVerdict) {
	var rounds []time.Time
	for i, l := range r.reigns {
		// The first record of a term only says that the term began. A stopped node may hold row
		// locks, which sweeps skip, until the database ends the node's transaction.
		if l.round && i > 0 && r.reigns[i-1].round &&
			!slices.ContainsFunc(r.held, func(h interval) bool { return l.at.After(h.from) && l.at.Before(h.to) }) {
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
			taken[fmt.Sprintf("%s/%d", a.run, a.number)] = true // released or taken from the worker, at any time
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
			v.add(
				"J7",
				m.run,
				"%s (%s) became %s (%s) %s late, after %d rounds of the leader",
				m.from,
				m.before,
				m.to,
				m.continuation,
				m.at.Sub(due),
				n,
			)
		}
	}
}

// ruleEnds: J7, at the end of the campaign. Every run has ended or is waiting for a time in the
// future.
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

// ruleKeys: S18. At most one run of a concurrency key is assigned to a worker or may still return
// to one.
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
