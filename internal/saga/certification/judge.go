package certification

import (
	"fmt"
	"slices"

	"github.com/skald-saga/skald/sdk/conformance"
)

// Judge returns the first breach that a vector shows. Later calls of the vector are not judged,
// because their results may be consequences of it. Alternatively, untried says why the vector
// proves nothing.
//
// If the caller of a call has disconnected, it is unknown whether that call is still running when
// the next one arrives, or is even delivered after it. Every breach reported here is therefore a
// breach in any order of arrival; the order in the vector only makes it more likely to show.
func Judge(p Played) (breach *Breach, untried *Untried) {
	for n := range p.Seen {
		if breach, untried = p.answers(n); breach != nil || untried != nil {
			return breach, untried
		}
	}
	if breach = p.effects(); breach == nil && p.Stayed {
		return nil, &Untried{Vector: p.Vector.Name, Reason: "the participant always responded to a call before its connection could be cut"}
	}
	return breach, nil
}

// answers judges call n by its answers, and by whether its effect existed when it was answered.
func (p Played) answers(n int) (*Breach, *Untried) {
	c, seen := p.Vector.Calls[n], p.Seen[n]
	for _, r := range seen.Replies {
		if !p.right(n, r) {
			return p.wrong(n, r)
		}
	}
	var done *Reply
	for i, r := range seen.Replies {
		if !r.done() {
			continue
		}
		if done != nil && done.Body != r.Body {
			return p.changed(n, r, done.Body), nil
		}
		done = &seen.Replies[i]
	}
	if done != nil && seen.Early == 0 && p.Vector.Effects[c.Key()] > 0 {
		what := fmt.Sprintf("got %s, but had no effect at that moment", show(*done))
		if p.Effects[c.Key()] > 0 {
			return p.breach("answered_before_commit", n, what+"; it had an effect later"), nil
		}
		return p.noEffect(n, what), nil
	}
	return nil, nil
}

// right reports whether an expected answer was given. Any permanent refusal counts as the 409 of
// the vectors, because Skald treats them the same.
func (p Played) right(n int, r Reply) bool {
	return slices.ContainsFunc(p.Vector.Calls[n].Expect, func(a conformance.Answer) bool {
		if a.SameAs > 0 {
			earlier := p.Seen[a.SameAs-1].Replies
			return len(earlier) > 0 && earlier[0].Status == r.Status && earlier[0].Body == r.Body
		}
		if a.Status == 409 {
			return r.refused()
		}
		return r.done() == (a.Status == 200) && (r.done() || r.Status == a.Status)
	})
}

// wrong returns the rule that an answer breaks.
func (p Played) wrong(n int, r Reply) (*Breach, *Untried) {
	c := p.Vector.Calls[n]
	first := p.first(n)
	switch undo := p.undo(n); {
	case r.done() && undo >= 0 && !p.answered(n-1, c.Key()): // it was not done before the compensation
		return p.breach("late_do_accepted"+p.suffix(undo, n), n, got(r, "a refusal (409)")), nil
	case r.done() && undo >= 0 && !p.knownOnce(c.Key()):
		return p.breach("done_again_after_undo"+p.suffix(undo, n), n, got(r, "the first response or a refusal (409)")), nil
	case r.done() && first < n:
		return p.changed(n, r, p.firstBody(n)), nil
	case r.done():
		code := "fence_ignored"
		if p.restarted(p.fenced(n), n) {
			code = "fence_forgotten_after_restart"
		}
		return p.breach(code, n, got(r, "a refusal (409)")), nil
	}
	if !r.refused() {
		if p.answered(n, c.Key()) {
			return p.breach(repeatCode(c), n, got(r, "the first answer")), nil
		}
		return nil, &Untried{Vector: p.Vector.Name, Reason: "no usable response: " + show(r)}
	}
	if p.Effects[c.Key()] > 0 && !p.answered(n, c.Key()) {
		return p.breach("refused_although_applied", n, got(r, "2xx")+"; it had an effect"), nil
	}
	return p.refusal(n, r, first)
}

// refusal returns the rule that a refusal without an effect breaks.
func (p Played) refusal(n int, r Reply, first int) (*Breach, *Untried) {
	c := p.Vector.Calls[n]
	what := got(r, "2xx")
	earlier := p.Vector.Calls[:n]
	switch {
	case p.answered(n, c.Key()):
		return p.breach(repeatCode(c), n, got(r, "the first answer")), nil
	case first < n && len(p.Seen[first].Replies) > 0:
		return p.breach("refusal_of_a_late_call_kept", n, what), nil
	case c.Step != p.Vector.Calls[0].Step:
		return nil, &Untried{p.Vector.Name, "the participant does not serve the step " + c.Step + " at this URL", true}
	case c.Action == "compensate" && p.executed(n):
		return p.breach("undo_refused", n, what), nil
	case c.Action == "compensate":
		return p.breach("unknown_undo_refused", n, what), nil
	case c.Run > 1:
		return p.breach("new_run_refused", n, what), nil
	case len(c.Headers) > 0 || len(c.Members) > 0:
		return p.breach("unknown_members_refused", n, what), nil
	case c.Attempt > 1 && n == 0:
		return p.breach("first_seen_attempt_refused", n, what), nil
	case slices.ContainsFunc(earlier, func(e conformance.Call) bool { return e.Tenant != c.Tenant }):
		return p.breach("tenants_mixed", n, what), nil
	case slices.ContainsFunc(earlier, func(e conformance.Call) bool { return e.Saga != c.Saga }):
		return p.breach("sagas_mixed", n, what), nil
	}
	return nil, &Untried{Vector: p.Vector.Name, Reason: "the participant refuses the payload; choose another with --payload: " + show(r)}
}

// effects judges the number of effects at the end.
func (p Played) effects() *Breach {
	if p.Effects == nil {
		return nil
	}
	for of, want := range p.Vector.Net {
		n := len(p.Vector.Calls) - 1
		net := p.Effects[of+"/execute"] - p.Effects[of+"/compensate"]
		what := fmt.Sprintf("left a balance of %d (effects minus undone effects); expected %d", net, want)
		again, late := "done_again_at_once", "late_do_accepted_at_once"
		if slices.ContainsFunc(p.Vector.Calls, func(c conformance.Call) bool { return c.Cut }) {
			again, late = "done_again_after_undo", "late_do_accepted_after_a_lost_answer"
		}
		switch {
		case p.Effects[of+"/execute"] > 1 || p.Effects[of+"/compensate"] > 1:
			return p.breach(again, n, what)
		case net > want:
			return p.breach(late, n, what)
		case net < want:
			return p.breach("undone_without_do", n, what)
		}
	}
	if p.Vector.Net != nil {
		return nil
	}
	for n, c := range p.Vector.Calls {
		key := c.Key()
		if p.first(n) < n {
			continue
		}
		last := n
		for i := range p.Vector.Calls {
			if p.Vector.Calls[i].Key() == key {
				last = i
			}
		}
		want, have := p.Vector.Effects[key], p.Effects[key]
		what := fmt.Sprintf("ended with an effect count of %d under its key; expected %d", have, want)
		switch {
		case have < want:
			return p.noEffect(last, what)
		case have > want && want == 0 && c.Action == "compensate":
			return p.breach("undone_without_do", last, what)
		case have > want && want == 0:
			return p.breach("refused_although_applied", last, what)
		case have > want && p.undo(last) >= 0 && p.sent(key, p.undo(last)) == 1:
			return p.breach("done_again_after_undo"+p.suffix(p.undo(last), last), last, what)
		case have > want:
			return p.breach(p.again(n, last, true), last, what)
		}
	}
	return nil
}

// changed returns the breach of a repeat that got a different answer: the call was done again,
// unless it is known that it was not.
func (p Played) changed(n int, r Reply, before string) *Breach {
	key := p.Vector.Calls[n].Key()
	what := got(r, short(before))
	first := p.first(n)
	if p.knownOnce(key) {
		return p.breach("answer_changed"+p.suffix(first, n), n, what+"; it was not applied again")
	}
	return p.breach(p.again(first, n, false), n, what)
}

// again returns the code for a call that was done more than once, depending on what happened
// between calls first and n.
func (p Played) again(first, n int, equal bool) string {
	key := p.Vector.Calls[n].Key()
	var doubt, atOnce, cut bool
	for i := first; i <= n; i++ {
		if c := p.Vector.Calls[i]; c.Key() == key {
			doubt = doubt || p.Seen[i].Doubt
			atOnce = atOnce || c.AtOnce > 1 || c.Together != ""
			cut = cut || c.Cut
		}
	}
	switch {
	case doubt:
		return "done_again_after_an_error"
	case p.restarted(first, n):
		return "done_again_after_restart"
	case atOnce:
		return "done_again_at_once"
	case cut:
		return "done_again_after_a_lost_answer"
	case equal:
		return "done_twice_behind_equal_answers"
	}
	return "done_again"
}

func (p Played) noEffect(n int, what string) *Breach {
	if p.Vector.Calls[n].Action == "compensate" && p.restarted(0, n) {
		return p.breach("undone_nothing_after_restart", n, what)
	}
	return p.breach("done_without_effect", n, what)
}

func repeatCode(c conformance.Call) string {
	if c.Action == "compensate" {
		return "repeated_undo_fails"
	}
	return "repeat_refused"
}
