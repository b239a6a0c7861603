package certification

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/skald-saga/skald/sdk/conformance"
)

// breach builds a Breach that names call n.
func (p Played) breach(code string, n int, what string) *Breach {
	c := p.Vector.Calls[n]
	return &Breach{code, n + 1, fmt.Sprintf("call %d (%s of %s) %s", n+1, c.Action, c.Step, what)}
}

func got(r Reply, right string) string { return "got " + show(r) + "; expected " + right }

func show(r Reply) string {
	if r.Status == 0 {
		return "no response (" + r.Error + ")"
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", r.Status, short(r.Body)))
}

// short returns the beginning of a body.
func short(body string) string {
	const limit = 100
	body = strings.ToValidUTF8(strings.Join(strings.Fields(body), " "), "?")
	if utf8.RuneCountInString(body) <= limit {
		return body
	}
	return string([]rune(body)[:limit]) + "…"
}

// first returns the number of the first call with the same key as call n.
func (p Played) first(n int) int {
	for i := range n {
		if p.Vector.Calls[i].Key() == p.Vector.Calls[n].Key() {
			return i
		}
	}
	return n
}

func (p Played) firstBody(n int) string {
	if r := p.Seen[p.first(n)].Replies; len(r) > 0 {
		return r[0].Body
	}
	return "the same response for the same key"
}

// answered reports whether a key was answered with success by call n or an earlier call.
func (p Played) answered(n int, key string) bool {
	for i := range n + 1 {
		if p.Vector.Calls[i].Key() != key {
			continue
		}
		for _, r := range p.Seen[i].Replies {
			if r.done() {
				return true
			}
		}
	}
	return false
}

// knownOnce reports whether effects were counted and the key has no more than expected.
func (p Played) knownOnce(key string) bool {
	want := p.Vector.Effects[key]
	if p.Vector.Net != nil {
		want = 1
	}
	return p.Effects != nil && p.Effects[key] <= want
}

// sent counts the calls with a key that precede call n.
func (p Played) sent(key string, n int) (times int) {
	for i := range n {
		if p.Vector.Calls[i].Key() == key {
			times++
		}
	}
	return times
}

func sameStep(a, b conformance.Call) bool {
	return a.Saga == b.Saga && a.Tenant == b.Tenant && a.Step == b.Step
}

// undo returns the number of the compensation that made the execute of call n too late, or -1.
func (p Played) undo(n int) int {
	c := p.Vector.Calls[n]
	for i, e := range p.Vector.Calls[:n] {
		if c.Action == "execute" && e.Action == "compensate" && sameStep(c, e) && e.Run >= c.Run &&
			e.Fence >= c.Fence && (e.Together == "" || e.Together != c.Together) && p.answered(i, e.Key()) {
			return i
		}
	}
	return -1
}

// executed reports whether the step of call n was executed earlier.
func (p Played) executed(n int) bool {
	c := p.Vector.Calls[n]
	for i, e := range p.Vector.Calls[:n] {
		if e.Action == "execute" && sameStep(c, e) && p.answered(i, e.Key()) {
			return true
		}
	}
	return false
}

// fenced returns the number of the call with the newer fence that made the fence of call n stale.
func (p Played) fenced(n int) int {
	c := p.Vector.Calls[n]
	for i, e := range p.Vector.Calls[:n] {
		if e.Saga == c.Saga && e.Tenant == c.Tenant && e.Fence > c.Fence {
			return i
		}
	}
	return n
}

// restarted reports whether the participant was restarted after call from and before the answer to
// call n.
func (p Played) restarted(from, n int) bool {
	for i := from + 1; i <= n; i++ {
		if p.Vector.Calls[i].Restart {
			return true
		}
	}
	return false
}

// suffix returns a code suffix for what happened between two related calls.
func (p Played) suffix(from, n int) string {
	if p.restarted(from, n) {
		return "_after_restart"
	}
	return ""
}
