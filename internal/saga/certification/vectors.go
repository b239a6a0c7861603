// Package certification judges a participant's answers to the vectors of sdk/conformance, and their
// effects: it reports which rules of docs/participants.md the participant breaks, once per cause.
// Package player plays the vectors.
//
// Files, each on top of those before it: vectors, history, problems, findings, report, certification, judge, junit,
// store, told.
package certification

import (
	"slices"

	"github.com/skald-saga/skald/sdk/conformance"
)

// Unknown stands for a number of effects that was not counted.
const Unknown = -1

// Reply is one answer from the participant.
type Reply struct {
	Status int // 0 means no answer
	Body   string
	Error  string // why there was no answer
}

func (r Reply) done() bool { return r.Status >= 200 && r.Status < 300 }

// refused reports whether Skald would treat the answer as a permanent refusal.
func (r Reply) refused() bool {
	return r.Status >= 400 && r.Status < 500 && !slices.Contains([]int{408, 425, 429}, r.Status)
}

// Seen contains the observations about one call of a vector.
type Seen struct {
	Replies []Reply // the last answer to each copy; none if the connection was cut
	Doubt   bool    // the outcome of an earlier attempt was unknown: 5xx, or no answer
	Early   int     // number of effects of the key directly after the answer, or Unknown
}

// Played is a vector with all observations.
type Played struct {
	Vector  conformance.Vector
	Seen    []Seen
	Effects map[string]int // by key, at the end; nil if they were not counted
	// Stayed means that a call was answered before its caller could disconnect, as the vector
	// requires.
	Stayed bool
}

// Breach is a broken rule, as shown by one vector.
type Breach struct {
	Code string
	Call int    // number of the call that shows it, from 1
	Seen string // what was observed, and what would be right
}

// NeedsRestart is the reason why a vector that needs a restart was not played.
const NeedsRestart = "needs a restart of the participant: run `skald participant certify` with --restart-command or " +
	"--ask-restart"

// Plan splits the vectors that apply to every participant into those that can be played now and,
// with the reason, those that cannot. Nearly all vectors need only one step, which is then called
// step, whatever its name in the vector.
func Plan(all []conformance.Vector, step string, restart bool) (plan []conformance.Vector, untried []Untried) {
	for _, v := range all {
		switch {
		case !v.Certify:
		case !restart && slices.ContainsFunc(v.Calls, func(c conformance.Call) bool { return c.Restart }):
			untried = append(untried, Untried{Vector: v.Name, Reason: NeedsRestart})
		default:
			plan = append(plan, renamed(v, step))
		}
	}
	return plan, untried
}

// renamed returns the vector with another name for its first step.
func renamed(v conformance.Vector, step string) conformance.Vector {
	first, names := v.Calls[0].Step, map[string]string{}
	v.Calls = slices.Clone(v.Calls)
	for i := range v.Calls {
		c := &v.Calls[i]
		before := c.Key()
		if c.Step == first {
			c.Step = step
		}
		names[before] = c.Key()
	}
	effects, net := v.Effects, v.Net
	if v.Effects, v.Net = nil, nil; effects != nil {
		v.Effects = map[string]int{}
	}
	for key, n := range effects {
		v.Effects[names[key]] = n
	}
	for of, n := range net {
		if v.Net == nil {
			v.Net = map[string]int{}
		}
		execute := names[of+"/execute"]
		v.Net[execute[:len(execute)-len("/execute")]] = n
	}
	return v
}

// Untried is a vector that was not played to its end, with the reason.
type Untried struct {
	Vector string `json:"vector"`
	Reason string `json:"reason"`
	// Inapplicable means that the vector concerns steps that the participant does not have, so it
	// does not count against the participant.
	Inapplicable bool `json:"inapplicable"`
}
