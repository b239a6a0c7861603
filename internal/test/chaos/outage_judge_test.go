package chaos

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// outageRecord contains what is known about an outage once all participants are healthy again: the
// calls that the participants received, and the changes of their gates in the meantime.
type outageRecord struct {
	rules    gateRules
	ill      interval
	arrivals []arrival  // by time
	gates    []gateView // by time, for all participants
	// Durations of sagas that use only the healthy participant, and of this test's own calls at the
	// same time.
	before, during speeds
}

// gateRules are the settings that apply to all participants.
type gateRules struct {
	ratio         float64
	least         int // minimum number of calls from which a ratio is computed
	window        time.Duration
	canary        time.Duration
	start, factor float64
}

// gateView is the state of a gate from one change to the next.
type gateView struct {
	participant string
	state       string
	at          time.Time // time of the change
	since       time.Time // when the gate entered its state
	rate        float64
	waits       int // number of sagas that wait at the gate
}

// speeds are measured durations.
type speeds struct {
	sagas   []time.Duration
	control []time.Duration
}

const (
	// learned is how long nodes may continue to call after a gate was held: they check once a
	// second, and the machine may be busy.
	learned = time.Second + clumsy
	// mostSlower is the factor by which sagas that use no unhealthy participant may become slower.
	mostSlower = 2.0
	// enoughSagas is the number of sagas from which a percentile is meaningful.
	enoughSagas = 500
	// quick is the p95 of sagas on a machine that can keep up with the orders.
	quick = 100 * time.Millisecond
	// within is the relative deviation from the ramp that calls may have.
	within = 0.2
)

// stay is a period during which a gate was in one state, with the rates that it had.
type stay struct {
	participant, state string
	interval
	levels []gateView
}

// stays returns the periods during which gates were in one state, by participant and time. The last
// period of each gate extends to the last arrival.
func (r *outageRecord) stays() (all []stay) {
	open := map[string]int{} // index of the current stay
	for _, g := range r.gates {
		i, there := open[g.participant]
		if there && all[i].state == g.state && all[i].from.Equal(g.since) {
			if last := all[i].levels[len(all[i].levels)-1]; last.rate != g.rate {
				all[i].levels = append(all[i].levels, g)
			}
			continue
		}
		if there {
			all[i].to = g.since
		}
		open[g.participant] = len(all)
		all = append(all, stay{participant: g.participant, state: g.state, interval: interval{from: g.since},
			levels: []gateView{g}})
	}
	end := r.ill.to
	if n := len(r.arrivals); n > 0 {
		end = r.arrivals[n-1].at
	}
	for _, i := range open {
		all[i].to = end
	}
	return all
}

// received counts the attempts whose first call arrived at a participant in [from, to).
func (r *outageRecord) received(participant string, from, to time.Time) int {
	return len(r.calls(participant, from, to))
}

// calls returns when the first calls of attempts arrived at a participant in [from, to), relative
// to from.
func (r *outageRecord) calls(participant string, from, to time.Time) (after []time.Duration) {
	seen := map[attempt]bool{}
	for i := range r.arrivals {
		a := &r.arrivals[i]
		if a.participant != participant || seen[a.spent()] {
			continue
		}
		seen[a.spent()] = true
		if !a.at.Before(from) && a.at.Before(to) {
			after = append(after, a.at.Sub(from))
		}
	}
	return after
}

// judge checks the record against the promises of outage mode.
func (r *outageRecord) judge(add func(rule, format string, args ...any)) {
	stays := r.stays()
	for i := range stays {
		switch s := &stays[i]; s.state {
		case "HELD":
			r.judgeHeld(s, add)
		case "RELEASING":
			r.judgeRelease(s, add)
		}
	}
	for participant, g := range r.last() {
		if g.state != "OPEN" {
			add("stays closed", "the gate of %s is %s at the end", participant, g.state)
		}
	}
	r.judgeDead(stays, add)
	r.judgeOthers(add)
}

// judgeHeld: a held participant gets canaries and nothing else (I23).
func (r *outageRecord) judgeHeld(s *stay, add func(rule, format string, args ...any)) {
	from := s.from.Add(learned)
	if !from.Before(s.to) {
		return
	}
	calls, most := r.calls(s.participant, from, s.to), r.canaries(s.to.Sub(from))
	if len(calls) > most {
		add("held", "%s was held for %s and, from %s on, got %d calls after %v: at most %d canaries were due", s.participant,
			s.to.Sub(s.from), learned, len(calls), calls, most)
	}
}

// canaries returns the maximum number of canaries in a period.
func (r *outageRecord) canaries(d time.Duration) int { return int(d/r.rules.canary) + 1 }

// rise is one step of a release: its rate, its duration, and the number of calls from the beginning
// of the release to the end of the step, both due and received.
type rise struct {
	rate     float64
	took     time.Duration
	due, got float64
	in       time.Duration // since the beginning of the release
	dry      bool          // the waiting sagas may have been used up in this step or before it
	last     bool
	until    time.Time
}

func (r *outageRecord) rises(s *stay) (all []rise) {
	due, dry := 0.0, false
	for i := range s.levels {
		from, to := s.levels[i].at, s.to
		if i == 0 {
			from = s.from
		}
		if i+1 < len(s.levels) {
			to = s.levels[i+1].at
		}
		rate := s.levels[i].rate
		dry = dry || i+1 == len(s.levels) || float64(s.levels[i+1].waits) < rate
		due += rate * to.Sub(from).Seconds()
		all = append(all, rise{rate: rate, took: to.Sub(from), due: due, got: float64(r.received(s.participant, s.from, to)),
			in: to.Sub(s.from), dry: dry, last: i+1 == len(s.levels), until: to})
	}
	return all
}

// judgeRelease: calls follow the ramp, which starts at the configured rate and grows by its factor
// at most once a second.
func (r *outageRecord) judgeRelease(s *stay, add func(rule, format string, args ...any)) {
	want := r.rules.start
	for i, step := range r.rises(s) {
		if math.Abs(step.rate-want) > want*1e-6 {
			add("ramp", "%s was released at %g calls per second in step %d, want %g", s.participant, step.rate, i+1, want)
		}
		want *= r.rules.factor
		if !step.last && (step.took < time.Second-slack || step.took > longestStep && r.keepsPace()) {
			add("ramp", "the rate of %s grew after %s, want a second", s.participant, step.took)
		}
		// The time between the last wave and the change of the rate counts at the new rate.
		grown := step.rate * (1 - 1/r.rules.factor) * longestWave.Seconds()
		if most := step.due*(1+within) + grown + 2; step.got > most {
			add("flood", "%s got %g calls in %s of its release, at most %.0f are due", s.participant, step.got, step.in, most)
		}
		// Sagas that were let through may make their calls a little later, or much later if the
		// machine can't even keep up with the orders. In the latter case, the deviation from the
		// ramp is only reported.
		if step.dry || !r.keepsPace() {
			continue
		}
		got := float64(r.received(s.participant, s.from, step.until.Add(clumsy)))
		if least := step.due*(1-within) - 1; got < least {
			add("ramp", "%s got %g calls in %s of its release, at least %.0f are due", s.participant, got, step.in, least)
		}
	}
}

const (
	// slack is the precision with which the change of a gate is observed.
	slack = 50 * time.Millisecond
	// longestWave is the longest time between two waves of the nodes.
	longestWave = 1500 * time.Millisecond
	// longestStep is the longest time that one rate may last on a busy machine: nodes check once a
	// second, and a call must succeed in between.
	longestStep = 2*time.Second + clumsy
)

// judgeDead: the dead participant is held as soon as its calls warrant it, and it is not released
// before it is back.
func (r *outageRecord) judgeDead(stays []stay, add func(rule, format string, args ...any)) {
	broken := r.broken(theDead)
	i := slices.IndexFunc(stays, func(s stay) bool {
		return s.participant == theDead && s.state == "HELD" && s.from.After(r.ill.from)
	})
	switch {
	case broken.IsZero():
		add("input", "the dead participant got too few calls")
		return
	case i < 0:
		add("dead", "the dead participant was never held")
		return
	case stays[i].from.Sub(broken) > learned:
		add("dead", "the dead participant was held %s after its calls said so", stays[i].from.Sub(broken))
	}
	if stays[i].to.Before(r.ill.to) {
		add("dead", "the dead participant was released %s before it was back", r.ill.to.Sub(stays[i].to))
	}
}

// broken returns the time from which a participant's calls within the window exceed the ratio.
func (r *outageRecord) broken(participant string) time.Time {
	var within []*arrival
	failed := 0
	for i := range r.arrivals {
		a := &r.arrivals[i]
		if a.participant != participant {
			continue
		}
		within = append(within, a)
		if a.failed {
			failed++
		}
		for a.at.Sub(within[0].at) > r.rules.window {
			if within[0].failed {
				failed--
			}
			within = within[1:]
		}
		if len(within) >= r.rules.least && float64(failed) > r.rules.ratio*float64(len(within)) {
			return a.at
		}
	}
	return time.Time{}
}

// judgeOthers: sagas that use no unhealthy participant don't become much slower. The machine may be
// busier during the outage than before, so the test's own calls are measured as well, and only a
// slowdown beyond theirs counts. In a short run there are too few sagas, and the figures are only
// reported.
func (r *outageRecord) judgeOthers(add func(rule, format string, args ...any)) {
	if len(r.before.sagas) < enoughSagas || len(r.during.sagas) < enoughSagas {
		return
	}
	if sagas, control := r.slower(); sagas > mostSlower*max(1, control) {
		add("others", "sagas that use nothing ill took %.1f times as long as before (p95), this test's own calls %.1f times",
			sagas, control)
	}
}

// keepsPace reports whether sagas were quick while all participants were healthy.
func (r *outageRecord) keepsPace() bool {
	return len(r.before.sagas) >= enoughSagas && p95(r.before.sagas) <= quick
}

// slower returns how many times as long sagas and this test's own calls took during the outage as
// before.
func (r *outageRecord) slower() (sagas, control float64) {
	ratio := func(a, b []time.Duration) float64 { return float64(p95(a)) / float64(max(p95(b), time.Microsecond)) }
	return ratio(r.during.sagas, r.before.sagas), ratio(r.during.control, r.before.control)
}

func p95(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)*95/100]
}

// last returns the final state of the gates.
func (r *outageRecord) last() map[string]gateView {
	out := map[string]gateView{}
	for _, g := range r.gates {
		out[g.participant] = g
	}
	return out
}

// summary describes what happened, with a line for each participant.
func (r *outageRecord) summary() string {
	var text strings.Builder
	stays := r.stays()
	for _, name := range []string{theDead, theSlow, theHalf, theFlaky, theWell} {
		held, canaries, releases, steps := time.Duration(0), 0, 0, 0
		var off []string // steps that were off the ramp
		for i := range stays {
			s := &stays[i]
			switch {
			case s.participant != name:
			case s.state == "HELD":
				held += s.to.Sub(s.from)
				if from := s.from.Add(learned); from.Before(s.to) {
					canaries += r.received(name, from, s.to)
				}
			case s.state == "RELEASING":
				releases, steps = releases+1, max(steps, len(s.levels))
				for _, step := range r.rises(s) {
					if !step.dry && step.due >= 100 {
						off = append(off, fmt.Sprintf("%+.0f %%", 100*(step.got/step.due-1)))
					}
				}
			}
		}
		ill := r.received(name, r.ill.from, r.ill.to)
		fmt.Fprintf(&text, "  %s: %d calls while ill, held for %s with %d canaries, %d releases of up to %d steps, off the ramp by %v\n",
			name, ill, held.Round(100*time.Millisecond), canaries, releases, steps, off)
	}
	if broken := r.broken(theDead); !broken.IsZero() {
		fmt.Fprintf(&text, "  the dead one got %d calls until they said so, and %d later\n",
			r.received(theDead, r.ill.from, broken), r.received(theDead, broken, r.ill.to))
	}
	sagas, control := r.slower()
	fmt.Fprintf(&text, "  others: p95 %s before (%d), %s during (%d): %.2f times; this test's calls %.2f times",
		p95(r.before.sagas).Round(time.Millisecond), len(r.before.sagas), p95(r.during.sagas).Round(time.Millisecond),
		len(r.during.sagas), sagas, control)
	return text.String()
}
