// Package jobrun contains the rules of job runs: valid definitions, the states of a run and who may
// change them, retries, and the answer to a worker's late call (seed 5, 004_*;
// requirements/jobrun.md). The package is pure: it stores nothing, and takes time, ids and
// randomness as arguments.
//
// Files, each on top of those before it: definition, machine, state, run, problems, settings,
// admit, leader, published, worker, store, event, new, args, ends, backfill, check, sweep, apply,
// audited, builtin, bulk, claim, damage, deliver, emit, queue, explain, hints, logline, outbox,
// plan, follow, program, records, history.
package jobrun

import (
	"fmt"
	"slices"
)

// State is the state of a run.
type State string

// These are the states, in seed 5's words.
const (
	Pending   State = "PENDING"  // no worker holds it yet
	Assigned  State = "ASSIGNED" // given to a worker that has not started it
	Running   State = "RUNNING"
	Orphaned  State = "ORPHANED" // its worker is gone; another attempt may follow
	Succeeded State = "SUCCEEDED"
	Failed    State = "FAILED"
	TimedOut  State = "TIMED_OUT"
	Canceled  State = "CANCELED"
	Skipped   State = "SKIPPED" // deliberately never started
)

// States lists all states.
var States = []State{Pending, Assigned, Running, Orphaned, Succeeded, Failed, TimedOut, Canceled, Skipped}

// Mover is who may make a transition.
type Mover string

// Movers.
const (
	Worker   Mover = "worker"   // the worker that holds the fence
	Leader   Mover = "leader"   // the leader of the current epoch
	Operator Mover = "operator" // an operator, through the API
)

// Edge is one legal transition.
type Edge struct {
	From, To State
	By       []Mover
}

// Edges is the transition table (J-06 to J-15, completed by S2, S6, S7, S9). All other transitions
// are illegal, and the database refuses them as well (migration 0112).
var Edges = []Edge{
	{Pending, Assigned, []Mover{Worker}}, // requested by a worker; any node assigns under the current epoch
	{Pending, Canceled, []Mover{Operator, Leader}},
	{Pending, Skipped, []Mover{Leader, Operator}}, // by an operator who changes the schedule
	{Assigned, Running, []Mover{Worker}},
	{Assigned, Orphaned, []Mover{Leader, Worker, Operator}}, // its lease expired, or it was released or reassigned
	{Assigned, Canceled, []Mover{Operator, Leader}},
	{Assigned, Skipped, []Mover{Leader}},
	{Running, Succeeded, []Mover{Worker}},
	{Running, Failed, []Mover{Worker}},
	{Running, TimedOut, []Mover{Worker, Leader}},
	{Running, Canceled, []Mover{Worker, Leader, Operator}},
	{Running, Orphaned, []Mover{Leader, Worker, Operator}},
	{Orphaned, Assigned, []Mover{Worker}},
	{Orphaned, Failed, []Mover{Leader}}, // losses exhausted
	{Orphaned, TimedOut, []Mover{Leader}},
	{Orphaned, Canceled, []Mover{Operator, Leader}},
}

// CanMove reports whether the table contains the transition.
func CanMove(from, to State, by Mover) bool {
	return slices.Contains(From(to, by), from)
}

// From returns the states from which the mover by may move a run to the state to, in table order.
// Statements that change many rows at once derive their conditions from it.
func From(to State, by Mover) []State {
	var out []State
	for _, e := range Edges {
		if e.To == to && slices.Contains(e.By, by) {
			out = append(out, e.From)
		}
	}
	return out
}

// IllegalEdgeError is a transition that Edges does not contain, or that it does not allow for this
// mover. It is the cause of a Conflict that Apply returns.
type IllegalEdgeError struct {
	From, To State
	By       Mover
}

func (e *IllegalEdgeError) Error() string {
	return fmt.Sprintf("the transition table does not allow the %[3]s to move a run from %[1]s to %[2]s", e.From, e.To, e.By)
}

// Apply decides what e changes in r, which it does not modify. It covers every change of a single
// run after its creation. Statements that change many rows at once (claims, starts, renewals, and
// successes without consequences) derive their conditions from the same table. Apply fails only
// with a Conflict, if the state does not allow e.
func Apply(r Instance, e Event, m Moment) (Change, error) {
	d := newDecision(&r, m)
	ok, what := true, "ended in this way"
	switch e := e.(type) {
	// Events from workers.
	case Reported:
		ok = d.end(e.verdict())
	case Released:
		ok, what = d.release(e), "released"
	case CancelAcknowledged:
		ok, what = d.end(verdict{state: Canceled, by: Worker, reason: d.After.CancelReason}), "canceled"
	// Events from operators, and from callers that act on their behalf.
	case CancelRequested:
		ok, what = d.cancel(e), "canceled"
	case ReassignRequested:
		ok, what = d.reassign(e), "reassigned"
	case Withdrawn:
		ok, what = d.end(verdict{state: Skipped, by: Operator, actor: e.Actor, reason: e.Reason}), "withdrawn"
	case Detached:
		d.workerDetached(e)
	// Events from the leader. A deadline that has not passed changes nothing.
	case Decided:
		ok, what = d.decided(e), "skipped or canceled"
	case LeaseExpired:
		d.leaseExpired(e.Settings)
	case LossesExhausted:
		d.lossesExhausted()
	case TimeoutPassed:
		d.timeoutPassed(e.Settings)
	case CancelExpired:
		d.cancelExpired(e.Settings)
	}
	if !ok {
		return Change{Before: d.Before, After: r.Run}, d.refusal(&r.Run, what)
	}
	return d.Change, nil
}
