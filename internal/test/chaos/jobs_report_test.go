package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/examples/order/ledger"
)

// tell prints the stories of the first few runs with violations.
func (c *campaign) tell(r *jobRecord, found []ledger.Violation) {
	told := map[string]bool{}
	for _, f := range found {
		if r.runs[f.Saga] != nil && !told[f.Saga] && len(told) < maxTimelines {
			told[f.Saga] = true
			c.t.Log(c.story(r, f.Saga))
		}
	}
}

// story returns everything that happened to a run and around it, in order.
func (c *campaign) story(r *jobRecord, id string) string {
	var all []note
	tell := func(at time.Time, format string, args ...any) {
		all = append(all, note{at.UTC(), fmt.Sprintf(format, args...)})
	}
	for _, m := range r.moves {
		if m.run == id {
			tell(
				m.at,
				"  row     %s %s → %s %s, version %d, attempt %d, epoch %d, worker %.13s, token %.8s, lease until %s, deadline %s",
				m.from,
				m.before,
				m.to,
				m.continuation,
				m.version,
				m.attempt,
				m.epoch,
				m.worker,
				m.token,
				m.oldLease.UTC().Format(clockFormat),
				m.oldDeadline.UTC().Format(clockFormat),
			)
		}
	}
	for _, d := range r.decisions {
		if d.run == id {
			tell(
				d.at,
				"  event   %s %s → %s, version %d, attempt %d, epoch %d (in force %d) %s %s",
				d.kind,
				d.from,
				d.to,
				d.version,
				d.attempt,
				d.epoch,
				d.ledEpoch,
				d.actor,
				d.reason,
			)
		}
	}
	for i := range r.journal {
		if e := &r.journal[i]; e.Run == id {
			tell(
				e.At,
				"  worker  %s %.13s attempt %d token %.8s: %s %s %s %s %d %s %s",
				e.process,
				e.Worker,
				e.Attempt,
				e.Token,
				e.Kind,
				e.How,
				e.Call,
				e.Outcome,
				e.Status,
				e.Code,
				e.State,
			)
		}
	}
	if len(all) == 0 {
		return id + ": nothing is known"
	}
	slices.SortStableFunc(all, func(a, b note) int { return a.at.Compare(b.at) })
	all = append(all, c.log.between(all[0].at.Add(-time.Second), all[len(all)-1].at.Add(time.Second))...)
	slices.SortStableFunc(all, func(a, b note) int { return a.at.Compare(b.at) })
	run := r.runs[id]
	var text strings.Builder
	fmt.Fprintf(
		&text,
		"run %s of %s (%s), slot %s, available %s: %s\n",
		id,
		run.job,
		run.trigger,
		run.scheduled.UTC().Format(clockFormat),
		run.available.UTC().Format(clockFormat),
		run.state,
	)
	for _, n := range all {
		fmt.Fprintf(&text, "%s %s\n", n.at.Format(clockFormat), n.text)
	}
	return text.String()
}
