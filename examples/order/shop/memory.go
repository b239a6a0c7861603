package shop

import (
	"net/http"

	"github.com/skald-saga/skald/examples/order/ledger"
)

// memory is what the ledger says about keys and effects, for quick reading. It
// is rebuilt from the ledger at start and never knows more than that.
type memory struct {
	keys    map[string]keyed
	effects map[stepID]effect
	calls   map[callID]int // received so far, those that broke the contract apart
}

type stepID struct{ saga, step string }

type callID struct {
	stepID
	action ledger.Action
}

// keyed is what an Idempotency-Key stands for since it was first seen.
type keyed struct {
	owner   callID
	sha     string
	decided bool // answer is final
	answer  answer
}

// effect is where one step of one saga stands.
type effect struct {
	applied     bool
	compensated bool // undone, or promised never to be applied
}

// verdict is what a call comes to.
type verdict struct {
	effect ledger.Effect
	answer answer
}

func newMemory(entries []ledger.Entry) memory {
	m := memory{keys: map[string]keyed{}, effects: map[stepID]effect{}, calls: map[callID]int{}}
	for _, e := range entries {
		if e.Status != http.StatusBadRequest {
			m.calls[callID{stepID{e.Saga, e.Step}, e.Action}]++
		}
		m.remember(e)
	}
	return m
}

// remember takes in an entry of the ledger: one that is about to be written, or
// one read at start.
func (m *memory) remember(e ledger.Entry) {
	step := stepID{e.Saga, e.Step}
	id := callID{step, e.Action}
	if e.Status == http.StatusBadRequest {
		return // broke the contract: settles nothing, and its key is not to be trusted
	}
	k, seen := m.keys[e.Key]
	if !seen {
		k = keyed{owner: id, sha: e.BodySHA256}
	}
	if !e.Decided() {
		m.keys[e.Key] = k
		return
	}
	if !k.decided {
		k.decided, k.answer = true, answer{status: e.Status, body: e.Answer}
	}
	m.keys[e.Key] = k

	now := m.effects[step]
	if e.Action == ledger.Compensate {
		now.compensated = true
	} else if e.Effect == ledger.Applied {
		now.applied = true
	}
	m.effects[step] = now
}

// judge decides c by what is known, changing nothing. The order of the rules
// matters: an execute whose undo has been here is refused even when its key was
// answered with success before, since telling "done" about something that is
// undone would be a lie.
func (m *memory) judge(c call, with fault) verdict {
	step := stepID{c.saga, c.step}
	id, at := callID{step, c.action}, m.effects[step]
	k, seen := m.keys[c.key]
	switch {
	case c.broken != "":
		return verdict{ledger.None, problem(http.StatusBadRequest, c.broken)}
	case seen && k.owner != id:
		return verdict{ledger.None, problem(http.StatusUnprocessableEntity, "key_belongs_to_another_call")}
	case seen && k.sha != c.sha:
		return verdict{ledger.None, problem(http.StatusUnprocessableEntity, "key_had_another_body")}
	case c.action == ledger.Execute && at.compensated:
		return verdict{ledger.RefusedLate, problem(http.StatusConflict, "already_compensated")}
	case k.decided:
		return verdict{ledger.Dup, k.answer}
	case c.action == ledger.Compensate:
		return c.undo(at.applied && !at.compensated)
	default:
		return c.execute(with)
	}
}

// undo accepts a compensate, whether or not there is something to take back.
func (c call) undo(something bool) verdict {
	v := verdict{ledger.None, c.to.undone(c.key, something)}
	if something {
		v.effect = ledger.Applied
	}
	return v
}

// execute does the work of a step, unless a business rule forbids it. A new key
// is a new piece of work: who changes the key between two tries pays twice.
func (c call) execute(with fault) verdict {
	var code string
	switch {
	case c.misread != nil:
		code = "order_invalid"
	case !validFaults(c.order.Simulate):
		code = "simulation_unknown"
	case with.kind == refuse || with.refused:
		code = "simulated_refusal"
	default:
		code = c.to.refuse(c.order)
	}
	if code != "" {
		return verdict{ledger.RefusedBusiness, problem(http.StatusConflict, code)}
	}
	return verdict{ledger.Applied, c.to.done(c.key, c.order)}
}
