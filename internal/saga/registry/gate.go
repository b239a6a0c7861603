package registry

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/retry"
)

// State says what the gate of a participant lets through.
type State string

// States of gates.
const (
	Open      State = "OPEN"      // every call passes
	Held      State = "HELD"      // only canaries pass; none while an operator holds it
	Releasing State = "RELEASING" // waiting calls pass in waves
)

// States lists them.
var States = []State{Open, Held, Releasing}

// Gate controls the calls to a participant.
type Gate struct {
	State  State
	Since  time.Time
	Reason string // a clause without a full stop; "" if the gate was never held
	HeldBy string // the subject of the person who holds it; "" if none does
	// CountedFrom is the time from which calls count. Calls that ended before the gate entered its
	// present state say nothing about that state.
	CountedFrom time.Time
	NextCanary  *time.Time // set while Skald holds it
	Rate        float64    // calls per second while it is being released
	WavedAt     *time.Time // when calls were last let through during a release
	GrownAt     *time.Time // when the rate last increased
}

// Seen is what all nodes together have counted for a participant, and what is waiting for it.
type Seen struct {
	// Calls is the number of calls that ended within the window. Failed is how many of them ended
	// without a definite answer or were certainly not applied.
	Calls, Failed int64
	// Let is the number of calls since Gate.CountedFrom that were let through by a grant: the
	// canaries of a held participant, and the waves of one that is being released. Calls that were
	// in flight when the participant was held say nothing about its present condition.
	Let, LetFailed int64
	LastLetOK      time.Time // when the last successful one ended; zero if none did
	// Pause is the time until which the participant has asked not to be called; zero if it has not.
	Pause   time.Time
	Waiting bool // whether something waits for it
	// WaitsSince is when the longest-waiting caller began to wait; zero if nothing waits.
	WaitsSince time.Time
}

// Decision is the result of Gate.Decide.
type Decision struct {
	Gate    Gate
	Changed bool
	// Grants is how many waiting calls are let through now, longest-waiting first.
	Grants int
}

// Verb is the audit trail's name for the change from one state to another, or "" if the change has
// no entry.
func (d *Decision) Verb(before State) string {
	if before == d.Gate.State {
		return ""
	}
	return map[State]string{Held: VerbHeld, Releasing: "releasing", Open: "released"}[d.Gate.State]
}

// VerbHeld is the verb for a gate that Skald starts to hold.
const VerbHeld = "held"

// Limits of a wave. Waves are at least shortestWave apart. If no node has run a round for a while,
// one wave makes up for at most mostLate. The leftovers of an open participant are let through in
// batches. A gate opens once nothing has waited for the time settles after a wave: a webhook has
// only one delivery waiting, and returns with its next one.
const (
	shortestWave = 200 * time.Millisecond
	mostLate     = 1500 * time.Millisecond
	leftovers    = 1000
	settles      = time.Second
	fastest      = 1e6 // calls per second; upper limit for a growing rate
)

// Decide implements all rules of a gate except operators' commands. now is the database's time.
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
	case g.HeldBy != "": // nothing changes until a person releases it
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
	// One wave is enough to see that calls fail again.
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
		// The last wave left nothing waiting. Calls that began to wait since then are leftovers, of
		// which a participant under constant load always has some.
		return changed(Gate{State: Open, Since: now, CountedFrom: now, Reason: "the calls that waited were let through"})
	}
	// The rate grows only after a second in which a released call succeeded.
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

// broken returns the gate, held because too many calls failed.
func (g Gate) broken(o *Outage, calls, failed int64, when string, now time.Time) Gate {
	why := fmt.Sprintf("%d %% of %d calls failed %s", 100*failed/max(calls, 1), calls, when)
	return heldSince(now, why, now.Add(o.canaryEvery()))
}

// paused returns the gate, held because the participant asked for it.
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

// hold returns the gate as held by an operator with the given display name. If it was already held,
// it keeps the time since when.
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

// ShownRate is Rate for display, rounded to a tenth.
func (g *Gate) ShownRate() float64 { return math.Round(10*g.Rate) / 10 }

// Sentence describes the state of a participant's gate, since when it has been in it, and why.
func (g *Gate) Sentence(now time.Time) string {
	text := fmt.Sprintf("%s since %s", strings.ToLower(string(g.State)), g.Since.UTC().Format(time.RFC3339))
	if g.Reason != "" {
		text += " because " + g.Reason
	}
	switch {
	case g.State == Releasing:
		text += fmt.Sprintf("; calls are let through at %g per second", g.ShownRate())
	case g.NextCanary != nil && g.NextCanary.After(now):
		text += "; next canary in " + spelled(g.NextCanary.Sub(now))
	case g.NextCanary != nil:
		text += "; the next canary is due"
	}
	return text
}

// spelled formats a duration in whole seconds.
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
