package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/examples/order/ledger"
	"github.com/skald-saga/skald/internal/saga"
)

const (
	maxShown     = 30 // maximum number of violations to print
	maxTimelines = 3  // maximum number of sagas whose timeline is printed
)

// summary describes the run in one line.
func (w *world) summary(v *verdict, looks int, took time.Duration) string {
	looked, missed := w.shop.witness.counts()
	return fmt.Sprintf(
		"chaos: seed=%d kills=%d stops=%d terms=%d participant_restarts=%d pg_crashes=%d pg_cuts=%d blackouts=%d sagas=%d "+
			"completed=%d compensated=%d cancelled=%d timed_out=%d dirty=%d (open effects %d) "+
			"calls=%d duplicates=%d stragglers=%d takeovers=%d calls_lost=%d gateway_refused=%d+%d unknown_creates=%d replays=%d "+
			"probes=%d witnessed=%d (missed %d) violations=%d in %s",
		w.seed,
		w.tally.kills.Load(),
		w.tally.stops.Load(),
		w.tally.terms.Load(),
		w.tally.shops.Load(),
		w.tally.crashes.Load(),
		w.tally.cuts.Load(),
		w.tally.blackouts.Load(),
		len(v.sagas),
		v.ends[saga.Completed],
		v.ends[saga.Compensated],
		v.ends[saga.Cancelled],
		v.ends[saga.TimedOut],
		v.ends[saga.Failed],
		v.outsideDirty,
		v.calls,
		v.duplicates,
		v.stragglers,
		v.takeovers,
		v.lost,
		w.shop.gateway.count(ledger.Execute),
		w.shop.gateway.count(ledger.Compensate),
		v.unknown,
		w.tally.replays.Load(),
		looks,
		looked,
		missed,
		len(w.all()),
		took.Round(100*time.Millisecond),
	)
}

// report prints the violations and the timelines of the first sagas affected.
func (w *world) report(v *verdict) {
	found := w.reportFindings()
	told := map[string]bool{}
	for _, f := range found {
		if r := v.sagas[f.Saga]; r != nil && !told[r.id] && len(told) < maxTimelines {
			told[r.id] = true
			w.t.Log(w.timeline(r))
		}
	}
}

// reportFindings prints the violations and returns them.
func (w *world) reportFindings() []ledger.Violation {
	found := w.all()
	for i, f := range found {
		if i == maxShown {
			w.t.Errorf("… and %d more", len(found)-i)
			break
		}
		w.t.Errorf("violation: %s", f)
	}
	return found
}

// timeline returns everything that happened to a saga and around it, in order.
func (w *world) timeline(r *record) string {
	var story []note
	tell := func(at time.Time, format string, args ...any) {
		story = append(story, note{at.UTC(), fmt.Sprintf(format, args...)})
	}
	end := time.Now()
	if r.completed != nil {
		end = *r.completed
	}
	tell(r.created, "  saga    created; %s, steps %v, without undo %v", r.flow.name, r.flow.steps, r.flow.withoutUndo)
	for _, c := range r.calls {
		tell(
			c.Time,
			"  ledger  #%d %s %s attempt %d fence %d: %s, %s %d",
			c.Seq,
			c.Step,
			c.Action,
			c.Attempt,
			c.Fence,
			c.Effect,
			c.Reply,
			c.Status,
		)
		if c.Time.After(end) {
			end = c.Time
		}
	}
	for _, l := range r.logs {
		at := "running"
		if l.finished != nil {
			at = "until " + l.finished.UTC().Format(clockFormat)
		}
		tell(
			l.started,
			"  log     %s %s attempt %d: %s %s final=%v, %s",
			stepName(l.step),
			l.action,
			l.attempt,
			l.status,
			l.outcome,
			l.final,
			at,
		)
	}
	if r.completed != nil {
		tell(*r.completed, "  saga    ended %s, cause %q, version %d, epoch %d", r.state, r.cause, r.version, r.epoch)
	}
	story = append(story, w.log.between(r.created.Add(-time.Second), end.Add(time.Second))...)
	slices.SortStableFunc(story, func(a, b note) int { return a.at.Compare(b.at) })
	var text strings.Builder
	fmt.Fprintf(
		&text,
		"saga %s (%s, cancel sent %v, timeout %v):\n",
		r.id,
		r.marker,
		r.order != nil && r.order.cancelSent,
		r.timeoutAt,
	)
	for _, n := range story {
		fmt.Fprintf(&text, "%s %s\n", n.at.Format(clockFormat), n.text)
	}
	return text.String()
}

// unmet returns the conditions that the run should have produced but didn't: without them it proves
// nothing.
func (w *world) unmet(v *verdict) []string {
	var missing []string
	need := func(what string, got, want int) {
		if got < want {
			missing = append(missing, fmt.Sprintf("%s: %d, want at least %d", what, got, want))
		}
	}
	looked, missed := w.shop.witness.counts()
	need("kills", int(w.tally.kills.Load()), w.plan.kills)
	need("stops", int(w.tally.stops.Load()), w.plan.stops)
	need("sagas", len(v.sagas), w.plan.sagas)
	for _, s := range []saga.State{saga.Completed, saga.Compensated, saga.Cancelled, saga.TimedOut, saga.Failed} {
		need("sagas that ended "+s.String(), v.ends[s], cmp.Or(w.plan.sagas/200, 1))
	}
	need("dead letters of compensations", v.letters, v.ends[saga.Failed])
	need("takeovers", v.takeovers, w.plan.kills)
	need("calls whose owner died", v.lost, 1)
	need("duplicates", v.duplicates, w.plan.kills)
	need("repeated creates", int(w.tally.replays.Load()), 1)
	need("repeated calls that the gateway refused", w.shop.gateway.count(ledger.Execute), w.plan.kills)
	need("first calls witnessed", looked, missed/4+1) // on a busy machine, more than half are missed
	return missing
}
