package registry

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/retry"
)

// State is what the gate of a participant lets through.
type State string

// States of gates.
const (
	Open      State = "OPEN"      // every call
	Held      State = "HELD"      // canaries; nothing while a person holds it
	Releasing State = "RELEASING" // what waits, in waves
)

// States lists them.
var States = []State{Open, Held, Releasing}

// Gate is what stands in front of a participant.
type Gate struct {
	State  State
	Since  time.Time
	Reason string // a sentence without its full stop; "": it was never held
	HeldBy string // the subject of the person who holds it; "": no person
	// CountedFrom is from when calls count: those that ended before the gate came into this state
	// say nothing about it.
	CountedFrom time.Time
	NextCanary  *time.Time // while Skald holds it
	Rate        float64    // calls per second while it is released
	WavedAt     *time.Time // when calls were last let through while it is released
	GrownAt     *time.Time // when the rate last grew
}

// Seen is what all nodes have counted of a participant, and what waits for it.
type Seen struct {
	// Calls are those that ended within the window, and Failed those of them that ended without a
	// definite answer or were certainly not applied.
	Calls, Failed int64
	// Let are the calls since Gate.CountedFrom that a grant let through: the canaries of a held
	// participant, and the waves of one that is released. Calls that were in flight when it was
	// held say nothing about how it is now.
	Let, LetFailed int64
	LastLetOK      time.Time // end of the last of them that succeeded; zero: none
	// Pause is until when the participant has asked not to be called; zero: it has not.
	Pause   time.Time
	Waiting bool // something waits for it
	// WaitsSince is since when what has waited longest waits; zero: nothing waits.
	WaitsSince time.Time
}

// Decision is what follows for a gate.
type Decision struct {
	Gate    Gate
	Changed bool
	// Grants is how many waiting sagas are let through now, those first that have waited longest.
	Grants int
}

// Verb is what the audit trail calls the change from one state to another; "": it has no entry.
func (d *Decision) Verb(before State) string {
	if before == d.Gate.State {
		return ""
	}
	return map[State]string{Held: VerbHeld, Releasing: "releasing", Open: "released"}[d.Gate.State]
}

// VerbHeld is the verb of a gate that Skald holds from now on.
const VerbHeld = "held"

// Limits of a wave: waves are at least shortestWave apart, one makes up for at most mostLate that no
// node has looked, and an open participant's leftovers are let through in parts. A gate opens when nothing has
// waited for settles after a wave: a webhook has one delivery waiting, and comes back with the next.
const (
	shortestWave = 200 * time.Millisecond
	mostLate     = 1500 * time.Millisecond
	leftovers    = 1000
	settles      = time.Second
	fastest      = 1e6 // calls per second, to which a rate grows
)

// Decide is the whole rule of a gate, except for what people order. now is the database's time.
func (g Gate) Decide(o *Outage, seen Seen, now time.Time) Decision {
	switch g.State {
	case Held:
		return g.whileHeld(o, seen, now)
	case Releasing:
		return g.whileReleasing(o, seen, now)
	}
	switch {
	case seen.Pause.After(now):
		return changed(g.paused(seen.Pause, now))
	case o.Ratio().Broken(seen.Calls, seen.Failed):
		return changed(g.broken(o, seen.Calls, seen.Failed, fmt.Sprintf("in %s", spelled(o.Window())), now))
	case seen.Waiting: // it parked while another node opened the gate
		return Decision{Gate: g, Grants: leftovers}
	}
	return Decision{Gate: g}
}

func changed(g Gate) Decision { return Decision{Gate: g, Changed: true} }

func (g Gate) whileHeld(o *Outage, seen Seen, now time.Time) Decision {
	switch {
	case g.HeldBy != "": // until a person releases it
		return Decision{Gate: g}
	case seen.Let > seen.LetFailed:
		return changed(g.releasing(o.Release.StartPerS, "a canary succeeded", now))
	case g.NextCanary == nil || seen.Pause.After(*g.NextCanary):
		g.NextCanary = new(later(seen.Pause, now))
		return changed(g)
	case g.NextCanary.After(now) || !seen.Waiting:
		return Decision{Gate: g}
	}
	g.NextCanary = new(now.Add(o.canaryEvery()))
	return Decision{Gate: g, Changed: true, Grants: 1}
}

func (g Gate) whileReleasing(o *Outage, seen Seen, now time.Time) Decision {
	// One wave is enough to see that it fails again.
	wave := retry.Ratio{Max: o.FailureRatio, From: min(o.MinCalls, max(1, int64(g.Rate)))}
	waved, grown := timeOr(g.WavedAt, g.Since), timeOr(g.GrownAt, g.Since)
	switch {
	case seen.Pause.After(now):
		return changed(g.paused(seen.Pause, now))
	case wave.Broken(seen.Let, seen.LetFailed):
		return changed(g.broken(o, seen.Let, seen.LetFailed, "while it was released", now))
	case !seen.Waiting && now.Sub(waved) < settles:
		return Decision{Gate: g}
	case !seen.Waiting, seen.WaitsSince.After(waved):
		// The last wave left none waiting. Those that have come since are leftovers: of a participant that is
		// called all the time there are always some.
		return changed(Gate{State: Open, Since: now, CountedFrom: now, Reason: "what waited was let through"})
	}
	// More only after a second in which a call that was let through succeeded.
	if now.Sub(grown) >= time.Second && seen.LastLetOK.After(grown) {
		g.Rate, g.GrownAt = min(g.Rate*o.Release.Factor, max(fastest, g.Rate)), &now
	}
	passed := min(now.Sub(waved), max(mostLate, time.Duration(float64(time.Second)/g.Rate)))
	n := int(g.Rate * passed.Seconds())
	if n < 1 || passed < shortestWave {
		return Decision{Gate: g}
	}
	g.WavedAt = &now
	return Decision{Gate: g, Changed: true, Grants: n}
}

// broken returns the gate held because too many calls failed.
func (g Gate) broken(o *Outage, calls, failed int64, when string, now time.Time) Gate {
	why := fmt.Sprintf("%d %% of %d calls failed %s", 100*failed/max(calls, 1), calls, when)
	return heldSince(now, why, now.Add(o.canaryEvery()))
}

// paused returns the gate held because the participant asked for it.
func (g Gate) paused(until, now time.Time) Gate {
	if most := now.Add(retry.MaxAfter); until.After(most) {
		until = most
	}
	return heldSince(now, "it asked not to be called until "+until.UTC().Format(time.RFC3339), until)
}

func heldSince(now time.Time, why string, canary time.Time) Gate {
	return Gate{State: Held, Since: now, CountedFrom: now, Reason: why, NextCanary: &canary}
}

func (g Gate) releasing(rate float64, why string, now time.Time) Gate {
	return Gate{
		State: Releasing, Since: now, CountedFrom: now, Reason: why, Rate: rate, WavedAt: &now, GrownAt: &now,
	}
}

// hold returns the gate held by a person, whom people call name; since when it is held does not change if it was.
func (g Gate) hold(by, name, reason string, now time.Time) Gate {
	since := now
	if g.State == Held {
		since = g.Since
	}
	why := cmp.Or(name, by, "a person") + " holds it"
	if reason != "" {
		why += ": " + strings.TrimSuffix(reason, ".")
	}
	return Gate{State: Held, Since: since, CountedFrom: now, Reason: why, HeldBy: cmp.Or(by, "a person")}
}

func (g Gate) releasedBy(by string, rate float64, now time.Time) Gate {
	return g.releasing(rate, cmp.Or(by, "a person")+" released it", now)
}

// ShownRate is Rate to a tenth, as people read it.
func (g *Gate) ShownRate() float64 { return math.Round(10*g.Rate) / 10 }

// Sentence says in which state the gate of a participant is, since when and why.
func (g *Gate) Sentence(now time.Time) string {
	text := fmt.Sprintf("%s since %s", strings.ToLower(string(g.State)), g.Since.UTC().Format(time.RFC3339))
	if g.Reason != "" {
		text += " because " + g.Reason
	}
	switch {
	case g.State == Releasing:
		text += fmt.Sprintf("; %g calls per second are let through", g.ShownRate())
	case g.NextCanary != nil && g.NextCanary.After(now):
		text += "; next canary in " + spelled(g.NextCanary.Sub(now))
	case g.NextCanary != nil:
		text += "; the next canary is due"
	}
	return text
}

// spelled returns a duration in whole seconds.
func spelled(d time.Duration) string {
	return fmt.Sprintf("%d s", int64(d.Round(time.Second)/time.Second))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func timeOr(t *time.Time, or time.Time) time.Time {
	if t == nil {
		return or
	}
	return *t
}
