package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
)

// participants are the services behind every step of every saga. They behave as DESIGN.md requires:
// a repeated key has no second effect, and a compensation may arrive before its step, which is then
// refused forever. A gateway in front of them may refuse any call, even one that repeats a
// completed call. They keep the ledger that the engine is checked against, and check each call when
// it arrives.
type participants struct {
	w *world
	// behavior returns the reply to the nth call of a key; nil means that every call is done at
	// once.
	behavior func(c saga.Call, nth int) reply

	mu       sync.Mutex
	ledger   map[uuid.UUID][]*entry // by saga, in order of arrival
	effects  map[effectID]*effect
	nth      map[string]int
	inFlight int // calls that have not returned
	most     int // maximum of inFlight
}

type entry struct {
	saga.Call
	node    string
	at      time.Time
	verdict saga.Verdict // as sent; a dead or fenced node does not receive it
}

type effectID struct {
	saga uuid.UUID
	step int
}

// effect is what a participant has stored for one step of one saga.
type effect struct {
	applied, undone int  // how often the state changed
	blocked         bool // a compensation has arrived: nothing may be applied anymore
}

func (e *effect) holds() bool { return e.applied > e.undone }

// reply is how a participant behaves in one call.
type reply struct {
	verdict    saga.Verdict
	class      retry.Class
	silent     bool          // applied even though the verdict does not say so
	gateway    bool          // answered by a gateway, which does not know about earlier calls and passes nothing on
	takes      time.Duration // the time until the answer; the call's timeout may end before it
	retryAfter time.Duration
	output     string // JSON; "" is an object that names the step
}

var (
	yes         = reply{verdict: saga.Done}
	no          = reply{verdict: saga.Refused, class: retry.Refused}
	turnedAway  = reply{verdict: saga.Refused, class: retry.Refused, gateway: true}
	lostReply   = reply{verdict: saga.Unknown, class: retry.Network, silent: true}
	crashed     = reply{verdict: saga.Unknown, class: retry.ServerError}
	unavailable = reply{verdict: saga.NotApplied, class: retry.Unavailable}
	hangs       = reply{verdict: saga.Done, takes: 24 * time.Hour}
)

func slowly(r reply, takes time.Duration) reply { r.takes = takes; return r }

// call receives one call of node n.
func (p *participants) call(ctx context.Context, n *node, c saga.Call) saga.Outcome {
	began := now()
	if !n.connection.alive() {
		return saga.Outcome{Verdict: saga.Unknown, Class: retry.Network, Code: "dead", StartedAt: began, EndedAt: began}
	}
	p.checkCall(c)
	r, written := p.receive(n, c)
	defer func() { p.mu.Lock(); p.inFlight--; p.mu.Unlock() }()
	o := saga.Outcome{
		Verdict:    r.verdict,
		Class:      r.class,
		Code:       string(r.class),
		Message:    "m",
		RetryAfter: r.retryAfter,
		Request:    c.Body,
		Parts:      c.Parts,
		StartedAt:  began,
	}
	// An answer that takes no time needs no timer. Many timers that have already
	// expired when they are first waited for crash the race detector in a bubble
	// (go.dev/issue/78156).
	if r.takes > 0 {
		takes := time.NewTimer(min(r.takes, c.Timeout))
		defer takes.Stop()
		select {
		case <-takes.C:
			if r.takes > c.Timeout {
				o.Verdict, o.Class, o.Code = saga.Unknown, retry.Timeout, "timeout"
			}
		case <-ctx.Done():
			o.Verdict, o.Class, o.Code = saga.Unknown, retry.Network, "given up"
		}
	}
	o.EndedAt = now()
	if o.Verdict == saga.Refused && r.output != "" {
		o.Response = []byte(r.output)
	}
	if o.Verdict == saga.Done {
		o.Code, o.Message = "", ""
		if o.Output = []byte(r.output); r.output == "" {
			o.Output = fmt.Appendf(nil, `{"by":%q}`, c.Step)
		}
	}
	p.mu.Lock()
	written.verdict = o.Verdict
	p.mu.Unlock()
	return o
}

// receive records the call and applies its effect, before any answer.
func (p *participants) receive(n *node, c saga.Call) (reply, *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight++
	p.most = max(p.most, p.inFlight)
	p.nth[c.Key]++
	r := yes
	if p.behavior != nil {
		r = p.behavior(c, p.nth[c.Key])
	}
	id := effectID{c.SagaID, c.Index}
	if p.effects[id] == nil {
		p.effects[id] = &effect{}
	}
	switch e := p.effects[id]; {
	case r.gateway:
	case c.Action == saga.Execute && e.blocked:
		r = slowly(no, r.takes)
	case c.Action == saga.Execute && e.applied > 0:
		if r.verdict == saga.Refused { // a participant does not refuse a call that it has already done
			r = slowly(yes, r.takes)
		}
	case r.verdict != saga.Done && !r.silent:
	case c.Action == saga.Execute:
		e.applied++
	default:
		e.blocked = true
		if e.holds() {
			e.undone++
		}
	}
	e := &entry{Call: c, node: n.name, at: now(), verdict: r.verdict}
	p.ledger[c.SagaID] = append(p.ledger[c.SagaID], e)
	return r, e
}

// checkCall checks whether this call may be made now (requirements/invariants.md 2.2). It checks
// I3, I4 (order), I6 and I9 against the database at the call's arrival, and I7 against the ledger.
func (p *participants) checkCall(c saga.Call) {
	t := p.w.t
	l := p.w.load(c.SagaID)
	name := fmt.Sprintf("%s %s, attempt %d of epoch %d", c.Step, c.Action, c.Attempt, c.Fence)
	if c.Fence < l.Saga.LeaseEpoch {
		t.Errorf("%s: the saga is at epoch %d", name, l.Saga.LeaseEpoch)
	}
	if l.Saga.State.Terminal() {
		t.Errorf("%s: the saga has ended %s", name, l.Saga.State)
	}
	has := func(i int, a saga.Action, s ...saga.LogStatus) bool {
		return slices.ContainsFunc(l.Logs, func(l saga.StepLog) bool {
			return l.StepIndex == i && l.Action == a && slices.Contains(s, l.Status)
		})
	}
	for i := range l.Saga.TotalSteps {
		switch {
		case c.Action == saga.Execute && i < c.Index && p.w.mayBeAhead(&l.Saga, i) && p.answered(c.SagaID, i):
		case c.Action == saga.Execute && i < c.Index && !has(i, saga.Execute, saga.LogSuccess, saga.LogSkipped):
			t.Errorf("%s: step %d is not done", name, i)
		case c.Action == saga.Compensate && i > c.Index && (has(i, saga.Execute, saga.LogSuccess) || p.holds(c.SagaID, i)) &&
			!has(i, saga.Compensate, saga.LogSuccess, saga.LogSkipped):
			t.Errorf("%s: step %d is not undone", name, i)
		}
	}
	for _, before := range p.of(c.SagaID) {
		same := before.Index == c.Index && before.Action == c.Action
		switch {
		case same != (before.Key == c.Key):
			t.Errorf("%s has key %s, %s %s has key %s", name, c.Key, before.Step, before.Action, before.Key)
		case same && before.Attempt >= c.Attempt:
			t.Errorf("%s after attempt %d", name, before.Attempt)
		case same && !bytes.Equal(before.Body, c.Body):
			t.Errorf("%s: two bodies\n%s\n%s", name, before.Body, c.Body)
		case before.Fence > c.Fence:
			t.Errorf("%s after epoch %d", name, before.Fence)
		}
	}
}

// mayBeAhead reports whether a step may be called before the outcome of step i is written.
func (w *world) mayBeAhead(s *saga.Saga, i int) bool {
	d, err := w.definition(context.Background(), home.ID, s.WorkflowName, s.WorkflowVersion)
	return err == nil && d.Steps[i].Checkpoint != nil
}

// answered reports whether the last call of a step was answered as done.
func (p *participants) answered(id uuid.UUID, step int) (done bool) {
	for _, e := range p.of(id) {
		if e.Index == step && e.Action == saga.Execute {
			done = e.verdict == saga.Done
		}
	}
	return done
}

// busiest returns the maximum number of concurrent calls since it was last called.
func (p *participants) busiest() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.most
	p.most = p.inFlight
	return most
}

func (p *participants) holds(id uuid.UUID, step int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.effects[effectID{id, step}]
	return e != nil && e.holds()
}

// of returns the calls received for one saga.
func (p *participants) of(id uuid.UUID) []entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []entry
	for _, e := range p.ledger[id] {
		out = append(out, *e)
	}
	return out
}

// sequence returns one saga's calls as text: "X0 X1 C0" for two steps and one compensation.
func (p *participants) sequence(id uuid.UUID) string {
	var b bytes.Buffer
	for i, e := range p.of(id) {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(map[saga.Action]string{saga.Execute: "X", saga.Compensate: "C"}[e.Action])
		fmt.Fprint(&b, e.Index)
	}
	return b.String()
}

// when applies f to the calls of one step and direction; all other calls are done at once.
func when(step int, a saga.Action, f func(nth int) reply) func(saga.Call, int) reply {
	return func(c saga.Call, nth int) reply {
		if c.Index == step && c.Action == a {
			return f(nth)
		}
		return yes
	}
}

// always gives the same answer to every call of a step and direction.
func always(r reply) func(int) reply { return func(int) reply { return r } }

// first answers the first n calls of a step and direction with r, and later ones with done.
func first(n int, r reply) func(int) reply {
	return func(nth int) reply {
		if nth <= n {
			return r
		}
		return yes
	}
}

// then answers the first call of a step and direction with r, and later ones with after.
func then(r, after reply) func(int) reply {
	return func(nth int) reply {
		if nth == 1 {
			return r
		}
		return after
	}
}
