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

// Faults are the probabilities of each way to mishandle a call, each between 0 and 1 and together
// at most 1, because a call gets at most one of them. Refuse is separate: it is drawn once per saga
// and step, not once per call, because no business rule refuses a call and later accepts it under
// the same key.
type Faults struct {
	Failure     float64 // 500, nothing applied
	Unavailable float64 // 503 with Retry-After, nothing applied
	DropRequest float64 // connection closed, nothing applied
	DropReply   float64 // applied, then the connection closed
	Garbage     float64 // applied, then 200 with a body that is not JSON
	Slow        float64 // applied, then answered after up to MaxDelay
	Late        float64 // processed only after up to MaxDelay, even if the caller has stopped waiting
	Refuse      float64 // refused permanently by a business rule (executes only)

	// MaxDelay bounds Slow and Late: their delays are uniformly distributed between 0 and MaxDelay.
	// Required with either.
	MaxDelay time.Duration
	// RetryAfter is the Retry-After header of Unavailable, rounded up to whole seconds.
	RetryAfter time.Duration
}

// kind is one way to mishandle a call.
type kind string

const (
	noFault     kind = ""
	slow        kind = "slow"
	late        kind = "late"
	dropReply   kind = "drop_reply"
	dropRequest kind = "drop_request"
	failure     kind = "fail_500"
	unavailable kind = "unavailable"
	garbled     kind = "garbage"
	refuse      kind = "refuse"
)

// garbage is sent as JSON but is truncated, and contains a NUL and a byte that is not
// UTF-8.
var garbage = []byte("{\"ok\": \x00\xff tru")

// fault is how one call is mishandled. The zero fault mishandles nothing.
type fault struct {
	kind    kind
	always  bool          // on every call of the step, not only on the first
	delay   time.Duration // of slow, late, unavailable
	refused bool          // Faults.Refuse has drawn this step
}

// reply returns what the caller receives for an answer with status under m.
func (m fault) reply(status int) ledger.Reply {
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

func (m Faults) validate() error {
	sum := 0.0
	for _, w := range m.weights() {
		if !probability(w.p) {
			return fmt.Errorf("%s = %g is not a probability", w.kind, w.p)
		}
		sum += w.p
	}
	switch {
	case !probability(m.Refuse):
		return fmt.Errorf("refuse = %g is not a probability", m.Refuse)
	case sum > 1+1e-9: // ten times 0.1 is a little more than 1
		return fmt.Errorf("probabilities add up to %g, more than 1", sum)
	case m.Slow+m.Late > 0 && m.MaxDelay <= 0:
		return fmt.Errorf("slow and late require a maximum delay above 0")
	case m.RetryAfter < 0:
		return fmt.Errorf("the retry delay %s is negative", m.RetryAfter)
	}
	return nil
}

// probability returns false for NaN as well.
func probability(p float64) bool { return p >= 0 && p <= 1 }

type weight struct {
	kind kind
	p    float64
}

func (m Faults) weights() []weight {
	return []weight{
		{failure, m.Failure}, {unavailable, m.Unavailable}, {dropRequest, m.DropRequest},
		{dropReply, m.DropReply}, {garbled, m.Garbage}, {slow, m.Slow}, {late, m.Late},
	}
}

// draw returns the fault of the nth call of id, counting from 0.
func (m Faults) draw(seed uint64, id callID, n int) fault {
	r := dice(seed, id.saga, id.step, string(id.action), strconv.Itoa(n))
	var drawn fault
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

// dice returns a random source seeded by the subject of the draw, so that the result does not
// depend on the order of calls.
func dice(seed uint64, words ...string) *rand.Rand {
	h := fnv.New64a()
	for _, w := range words {
		// Writing to a hash never fails; the zero byte distinguishes ("a", "bc") from ("ab", "c").
		_, _ = io.WriteString(h, w+"\x00")
	}
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// faultOf counts c among the calls of its step and returns its fault: the one that its payload
// requests, or else a random one. A call that breaks the contract has no fault.
func (s *Shop) faultOf(c *call) fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := callID{c.saga, c.step, c.action}
	n := s.calls[id]
	s.calls[id]++
	if c.broken != "" {
		return fault{}
	}
	name, odds := c.step, s.cfg.Faults
	if c.action == ledger.Compensate {
		name, odds = c.step+":compensate", s.cfg.UndoFaults
	}
	asked, err := parseFault(c.order.Simulate[name])
	if err == nil && asked.kind != noFault && (n == 0 || asked.always) {
		return asked
	}
	return odds.draw(s.cfg.Seed, id, n)
}

// parseFault parses a step's entry in payload.simulate: a kind, which affects only the first call
// of the step unless "_always" follows, and optionally a colon and the delay: "slow:800ms",
// "drop_reply", "drop_reply_always", "unavailable_always:1s". slow and late require a delay;
// unavailable may have one, which becomes its Retry-After. "" is no fault.
func parseFault(text string) (fault, error) {
	name, pause, timed := strings.Cut(text, ":")
	name, always := strings.CutSuffix(name, "_always")
	m := fault{kind: kind(name), always: always}
	if timed {
		var err error
		if m.delay, err = time.ParseDuration(pause); err != nil || m.delay < 0 {
			return fault{}, fmt.Errorf("fault %q: %q is not a duration", text, pause)
		}
	}
	switch m.kind {
	case slow, late:
		if !timed {
			return fault{}, fmt.Errorf("fault %q requires a delay, as in %s:800ms", text, m.kind)
		}
	case unavailable:
	case dropReply, dropRequest, failure, garbled, refuse:
		if timed {
			return fault{}, fmt.Errorf("fault %q must have no delay", text)
		}
	default:
		if text != "" {
			return fault{}, fmt.Errorf("unknown fault %q", text)
		}
	}
	return m, nil
}

// validFaults reports whether every requested fault can be parsed.
func validFaults(simulate map[string]string) bool {
	for _, text := range simulate {
		if _, err := parseFault(text); err != nil {
			return false
		}
	}
	return true
}
