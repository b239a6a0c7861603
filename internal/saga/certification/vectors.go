// Package certification judges what a participant answered to the vectors of sdk/conformance, and what it did: which
// rule of docs/participants.md it breaks, once for each cause. Package player plays the vectors.
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

// Reply is one answer of the participant.
type Reply struct {
	Status int // 0: there was none
	Body   string
	Error  string // why there was none
}

func (r Reply) done() bool { return r.Status >= 200 && r.Status < 300 }

// refused reports whether Skald takes the answer for a permanent refusal.
func (r Reply) refused() bool {
	return r.Status >= 400 && r.Status < 500 && !slices.Contains([]int{408, 425, 429}, r.Status)
}

// Seen is what was observed of one call of a vector.
type Seen struct {
	Replies []Reply // the last answer of each copy; none if the connection was cut
	Doubt   bool    // an attempt before the last had an unknown outcome: 5xx, or no answer
	Early   int     // effects of the key directly after the answer, or Unknown
}

// Played is a vector with everything that was observed of it.
type Played struct {
	Vector  conformance.Vector
	Seen    []Seen
	Effects map[string]int // by key, at the end; nil if they were not counted
	// Stayed: a call was answered before its caller could leave, as the vector wants it.
	Stayed bool
}

// Breach is a broken rule, as one vector shows it.
type Breach struct {
	Code string
	Call int    // the number of the call that shows it, from 1
	Seen string // what was observed, and what is right
}

// NeedsRestart is why a vector is not tried that needs a restart.
const NeedsRestart = "needs a restart of the participant: `skald participant certify` with --restart-command or " +
	"--ask-restart"

// Plan divides the vectors into those that can be played at any participant and, with the reason, those of them that
// cannot be played here. One step is enough for nearly all of them: its name is step, whatever the vector calls it.
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

// renamed is the vector with another name for its first step.
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

// Untried is a vector that was not played to its end, and says why.
type Untried struct {
	Vector string `json:"vector"`
	Reason string `json:"reason"`
	// Inapplicable: it is about steps that the participant does not have, so it says nothing against it.
	Inapplicable bool `json:"inapplicable"`
}
