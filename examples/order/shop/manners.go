package shop

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/examples/order/ledger"
)

// Manners are the probabilities, each between 0 and 1 and at most 1 together,
// with which a call is met badly. A call meets at most one of them. Refuse
// stands apart: it is drawn once per saga and step, not once per call, since a
// participant that says no today and yes tomorrow under one key has no rule.
type Manners struct {
	Failure     float64 // 500, nothing applied
	Unavailable float64 // 503 with Retry-After, nothing applied
	DropRequest float64 // connection closed, nothing applied
	DropReply   float64 // applied, then the connection closed
	Garbage     float64 // applied, then 200 with a body that is no JSON
	Slow        float64 // applied, then answered after up to MaxDelay
	Late        float64 // looked at only after up to MaxDelay, whoever still waits
	Refuse      float64 // refused for good by a business rule (executes only)

	// MaxDelay bounds Slow and Late, whose pauses are drawn evenly from above 0
	// to it. Required with either.
	MaxDelay time.Duration
	// RetryAfter is what Unavailable asks for, rounded up to whole seconds.
	RetryAfter time.Duration
}

// kind is one way to meet a call.
type kind string

const (
	good        kind = ""
	slow        kind = "slow"
	late        kind = "late"
	dropReply   kind = "drop_reply"
	dropRequest kind = "drop_request"
	failure     kind = "fail_500"
	unavailable kind = "unavailable"
	garbled     kind = "garbage"
	refuse      kind = "refuse"
)

// garbage claims to be JSON and breaks off; it has a NUL and a byte that is no
// UTF-8, too.
var garbage = []byte("{\"ok\": \x00\xff tru")

// manner is how one call is met.
type manner struct {
	kind    kind
	always  bool          // on every call of the step, not on the first only
	delay   time.Duration // of slow, late, unavailable
	refused bool          // Manners.Refuse struck this step
}

// reply is what becomes of an answer with status under m.
func (m manner) reply(status int) ledger.Reply {
	switch m.kind {
	case slow, late:
		return ledger.Delayed
	case dropReply, dropRequest:
		return ledger.Dropped
	case garbled:
		if status == http.StatusOK { // a refusal stays readable
			return ledger.Garbage
		}
	}
	return ledger.Sent
}

func (m Manners) validate() error {
	sum := 0.0
	for _, w := range m.weights() {
		if !probability(w.p) {
			return fmt.Errorf("%s = %g is no probability", w.kind, w.p)
		}
		sum += w.p
	}
	switch {
	case !probability(m.Refuse):
		return fmt.Errorf("refuse = %g is no probability", m.Refuse)
	case sum > 1+1e-9: // ten times 0.1 is a little more than 1
		return fmt.Errorf("probabilities add up to %g, more than 1", sum)
	case m.Slow+m.Late > 0 && m.MaxDelay <= 0:
		return fmt.Errorf("slow and late need a maximal delay above 0")
	case m.RetryAfter < 0:
		return fmt.Errorf("retry after = %s is negative", m.RetryAfter)
	}
	return nil
}

// probability is false for NaN, too.
func probability(p float64) bool { return p >= 0 && p <= 1 }

type weight struct {
	kind kind
	p    float64
}

func (m Manners) weights() []weight {
	return []weight{
		{failure, m.Failure}, {unavailable, m.Unavailable}, {dropRequest, m.DropRequest},
		{dropReply, m.DropReply}, {garbled, m.Garbage}, {slow, m.Slow}, {late, m.Late},
	}
}

// draw picks the manner of the nth call of id, n from 0.
func (m Manners) draw(seed uint64, id callID, n int) manner {
	r := dice(seed, id.saga, id.step, string(id.action), strconv.Itoa(n))
	var drawn manner
	at := r.Float64()
	for _, w := range m.weights() {
		if at < w.p {
			drawn.kind = w.kind
			break
		}
		at -= w.p
	}
	switch drawn.kind {
	case slow, late:
		drawn.delay = 1 + time.Duration(r.Int64N(int64(m.MaxDelay)))
	case unavailable:
		drawn.delay = m.RetryAfter
	}
	drawn.refused = dice(seed, id.saga, id.step, "refuse").Float64() < m.Refuse
	return drawn
}

// dice are loaded by what they are thrown for, so that chance does not depend
// on the order in which calls come.
func dice(seed uint64, words ...string) *rand.Rand {
	h := fnv.New64a()
	for _, w := range words {
		// A hash never fails; the zero byte keeps ("a", "bc") from ("ab", "c").
		_, _ = io.WriteString(h, w+"\x00")
	}
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// mannerOf counts c among the calls of its step and says how it is met: as its
// payload asks, else as chance has it. A call that breaks the contract is met
// straight.
func (s *Shop) mannerOf(c call) manner {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.broken != "" {
		return manner{}
	}
	id := callID{stepID{c.saga, c.step}, c.action}
	n := s.state.calls[id]
	s.state.calls[id]++

	name, odds := c.step, s.cfg.Manners
	if c.action == ledger.Compensate {
		name, odds = c.step+":compensate", s.cfg.UndoManners
	}
	asked, err := parseManner(c.order.Simulate[name])
	if err == nil && asked.kind != good && (n == 0 || asked.always) {
		return asked
	}
	return odds.draw(s.cfg.Seed, id, n)
}

// parseManner reads what payload.simulate says of a step: a kind, which acts on
// the first call of the step only unless "_always" follows, and after a colon
// the pause: "slow:800ms", "drop_reply", "drop_reply_always",
// "unavailable_always:1s". slow and late need a pause; unavailable may have
// one, which goes into Retry-After. "" is good manners.
func parseManner(text string) (manner, error) {
	name, pause, timed := strings.Cut(text, ":")
	name, always := strings.CutSuffix(name, "_always")
	m := manner{kind: kind(name), always: always}
	if timed {
		var err error
		if m.delay, err = time.ParseDuration(pause); err != nil || m.delay < 0 {
			return manner{}, fmt.Errorf("manner %q: %q is no pause", text, pause)
		}
	}
	switch m.kind {
	case slow, late:
		if !timed {
			return manner{}, fmt.Errorf("manner %q needs a pause, as in %s:800ms", text, m.kind)
		}
	case unavailable:
	case dropReply, dropRequest, failure, garbled, refuse:
		if timed {
			return manner{}, fmt.Errorf("manner %q takes no pause", text)
		}
	default:
		if text != "" {
			return manner{}, fmt.Errorf("manner %q is not known", text)
		}
	}
	return m, nil
}

// mannersParse reports whether every request for bad manners is understood.
func mannersParse(simulate map[string]string) bool {
	for _, text := range simulate {
		if _, err := parseManner(text); err != nil {
			return false
		}
	}
	return true
}
