package saga

import (
	"encoding/json"
	"time"

	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/retry"
)

// participant is the remote side of one step. It remembers the calls that it applied and gives a
// repeated call the same answer as the first. A gateway in front of it keeps no state and may
// refuse any call, even the repetition of a call that was applied.
type participant struct {
	applied, undone int // how often it had an effect
	// output is its answer to an action that was applied; it is always the same.
	output string
}

// policies draws retry policies with few attempts, sometimes with very few.
func policies() *rapid.Generator[*retry.Policy] {
	return rapid.Custom(func(t *rapid.T) *retry.Policy {
		return &retry.Policy{
			MaxAttempts:       rapid.IntRange(1, 4).Draw(t, "max_attempts"),
			InitialIntervalMS: rapid.Int64Range(1, 50).Draw(t, "initial_interval_ms"),
			MaxIntervalMS:     rapid.Int64Range(1, 200).Draw(t, "max_interval_ms"),
			Multiplier:        2,
			RetryOn: rapid.SampledFrom([][]retry.Class{retry.Classes, retry.Classes, {retry.Timeout, retry.Network}, {}}).
				Draw(t, "retry_on"),
		}
	})
}

// The ways in which a call can go. The test knows them even where the caller does not.
type way int

const (
	answersDone way = iota
	answersNothing
	refuses
	appliesInSilence // applied, and the answer is lost
	failsInSilence   // not applied, but the caller cannot know that
	neverReached     // certainly not applied
	refusesTheSecond // sent twice within the attempt: the first was applied without an answer, the second refused
)

// receive lets one call arrive or get lost, and returns its outcome as the caller sees it.
func (w *world) receive(c Call) Outcome {
	p := &w.participants[c.Index]
	already := p.applied > 0
	if c.Action == Compensate {
		already = p.undone > 0
	}
	ways := []way{
		answersDone,
		answersDone,
		answersDone,
		answersDone,
		answersNothing,
		refuses,
		appliesInSilence,
		failsInSilence,
		neverReached,
		refusesTheSecond,
	}
	if already {
		ways = []way{answersDone, answersNothing, refuses, appliesInSilence, neverReached}
	}
	o := Outcome{Code: "code", Message: "message", Request: c.Body, Parts: c.Parts, StartedAt: w.now,
		EndedAt: w.now.Add(time.Millisecond)}
	silence := []retry.Class{retry.Timeout, retry.Network, retry.ServerError, retry.BadResponse}
	switch rapid.SampledFrom(ways).Draw(w.t, "way") {
	case answersDone:
		o.Output = json.RawMessage(`{"step":"` + c.Step + `"}`)
		fallthrough
	case answersNothing:
		if c.Action == Execute && already {
			o.Output = nil
			if p.output != "" {
				o.Output = json.RawMessage(p.output)
			}
		}
		p.does(c.Action)
		o.Verdict, o.Code = Done, ""
		if c.Action == Execute {
			p.output = string(o.Output)
		}
	case refusesTheSecond:
		p.does(c.Action)
		o.Verdict, o.Class, o.InDoubt = Refused, retry.Refused, true
	case refuses:
		o.Verdict, o.Class, o.Response = Refused, retry.Refused, json.RawMessage(`{"why":"no"}`)
	case appliesInSilence:
		p.does(c.Action)
		o.Verdict, o.Class = Unknown, rapid.SampledFrom(silence).Draw(w.t, "class")
	case failsInSilence:
		o.Verdict, o.Class = Unknown, rapid.SampledFrom(silence).Draw(w.t, "class")
	case neverReached:
		o.Verdict, o.Class = NotApplied, rapid.SampledFrom([]retry.Class{retry.Network, retry.Unavailable}).Draw(w.t, "class")
		o.RetryAfter = rapid.SampledFrom([]time.Duration{0, 0, time.Second, 100 * time.Hour}).Draw(w.t, "retry after")
	}
	return o
}

func (p *participant) does(a Action) {
	switch {
	case a == Execute && p.applied == 0:
		p.applied++
	case a == Compensate && p.undone == 0: // even if the step never happened: from now on it never will
		p.undone++
	}
}
