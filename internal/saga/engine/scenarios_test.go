package engine_test

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// scenario is a saga that ends the same way regardless of which nodes drive it and how often they
// die.
type scenario struct {
	name     string
	d        *workflow.Definition
	behavior func(w *world) func(saga.Call, int) reply
	unowned  bool // stored without an owner: its first write is a claim
	timed    bool // a deadline decides, so the calls depend on timing
	end      saga.State
}

// takenOn is the answer of a participant that has accepted the work and reports its result later.
var takenOn = reply{verdict: saga.Later, silent: true}

// reporting returns the behavior of participants of which the second answers later and reports a
// result after ten minutes; "" means that it never reports.
func reporting(result reported.Result) func(*world) func(saga.Call, int) reply {
	return func(w *world) func(saga.Call, int) reply {
		return func(c saga.Call, _ int) reply {
			if c.Index != 1 || c.Action != saga.Execute {
				return yes
			}
			taken := takenOn
			taken.silent = result != reported.Refused
			if result != "" {
				time.AfterFunc(10*time.Minute, func() { w.report(&c, result) })
			}
			return taken
		}
	}
}

// report reports the outcome of a call, as the API does, until the report is accepted or is too
// late.
func (w *world) report(c *saga.Call, result reported.Result) {
	for {
		l := w.load(c.SagaID)
		run := w.run(c.SagaID)
		standing, _ := callback.Standing(&run, callback.Of(c), l.Logs)
		switch {
		case run.Version != l.Saga.Version:
			continue
		case standing == reported.Early:
			time.Sleep(time.Second)
			continue
		case standing != reported.Awaited:
			return
		}
		e := saga.Reported{Attempt: callback.Of(c), Outcome: saga.Outcome{Verdict: saga.Done, Code: result.Code()}}
		if result == reported.Refused {
			e.Outcome.Verdict, e.Outcome.Class, e.Outcome.Message = saga.Refused, retry.Refused, "m"
		}
		change, err := saga.Apply(run, e, saga.Moment{Now: now(), NewID: w.newID})
		if err != nil {
			w.t.Errorf("a report of saga %s: %v", c.SagaID, err)
			return
		}
		results, err := w.api.Commit(context.Background(), []saga.Change{change.Released(now())})
		switch err = errors.Join(append(results, err)...); {
		case err == nil:
			w.wake(c.SagaID)
			return
		case !fault.IsCode(err, saga.CodeStale):
			w.t.Errorf("a report of saga %s: %v", c.SagaID, err)
			return
		}
	}
}

// scenarios returns the runs that crash_test.go and unknown_test.go disturb at every write.
func scenarios() []scenario {
	plain := func(f func(saga.Call, int) reply) func(*world) func(saga.Call, int) reply {
		return func(*world) func(saga.Call, int) reply { return f }
	}
	both := func(step int, step2 func(int) reply, undo int, undoing func(int) reply) func(saga.Call, int) reply {
		return func(c saga.Call, nth int) reply {
			switch {
			case c.Action == saga.Execute && c.Index == step:
				return step2(nth)
			case c.Action == saga.Compensate && c.Index == undo:
				return undoing(nth)
			}
			return yes
		}
	}
	// intervening applies an event when the first call of a step and direction arrives.
	intervening := func(step int, a saga.Action, e saga.Event,
		then func(saga.Call, int) reply) func(*world) func(saga.Call, int) reply {
		return func(w *world) func(saga.Call, int) reply {
			return func(c saga.Call, nth int) reply {
				if c.Index == step && c.Action == a && nth == 1 {
					_ = w.intervene(c.SagaID, e)
				}
				return then(c, nth)
			}
		}
	}
	always := func(r reply) func(int) reply { return func(int) reply { return r } }
	far := reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: time.Hour}
	late := named("late", "uuu")
	late.TimeoutMS = 3000
	lateUndo := named("late-undo", "uuu")
	lateUndo.CompensationTimeoutMS = 3000
	all := []scenario{
		{name: "success", d: steps("unu"), behavior: plain(nil), end: saga.Completed},
		{name: "success of a saga that had to be claimed", d: steps("unu"), behavior: plain(nil), unowned: true, end: saga.Completed},
		{name: "slow calls", d: steps("uu"), behavior: plain(both(1, always(slowly(no, 2*time.Second)), 0, always(slowly(yes, 2*time.Second)))), end: saga.Compensated},
		{name: "a long wait", d: steps("uuu"), behavior: plain(when(1, saga.Execute, first(1, reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: time.Minute}))), end: saga.Completed},
		{name: "cancel during a call", d: steps("uuu"), behavior: intervening(1, saga.Execute, cancel, func(saga.Call, int) reply { return yes }), end: saga.Cancelled},
		{name: "cancel during a call that is refused", d: steps("uuu"), behavior: intervening(1, saga.Execute, cancel, when(1, saga.Execute, always(no))), end: saga.Cancelled},
		{name: "deadline while it waits", d: late, behavior: plain(when(1, saga.Execute, always(far))), timed: true, end: saga.TimedOut},
		{name: "deadline of the compensation", d: lateUndo, behavior: plain(both(2, always(no), 1, always(far))), timed: true, end: saga.Failed},
		{name: "an undo that fails and then succeeds", d: steps("uuu"), behavior: plain(both(2, always(no), 1, first(2, crashed))), end: saga.Compensated},
		{name: "an undo that gives up", d: steps("uuu"), behavior: plain(both(2, always(no), 1, always(crashed))), end: saga.Failed},
		{name: "an undo whose reply is lost and that a gateway then refuses", d: steps("uuu"), behavior: plain(both(2, always(no), 1, then(lostReply, turnedAway))), end: saga.Failed},
		{name: "an undo that is refused", d: steps("uuu"), behavior: plain(both(2, always(no), 1, always(no))), end: saga.Failed},
	}
	for name, sc := range map[string]scenario{
		"an answer that comes later":  {behavior: reporting(reported.Done), end: saga.Completed},
		"a refusal that comes later":  {behavior: reporting(reported.Refused), end: saga.Compensated},
		"a report that does not come": {behavior: reporting(""), end: saga.Compensated},
		"cancel while a report is awaited": {
			behavior: func(w *world) func(saga.Call, int) reply {
				return func(c saga.Call, nth int) reply {
					if c.Index != 1 || c.Action != saga.Execute {
						return yes
					}
					time.AfterFunc(time.Minute, func() { _ = w.intervene(c.SagaID, cancel) })
					return takenOn
				}
			}, end: saga.Cancelled,
		},
	} {
		sc.name, sc.d = name, named("later", "uuu")
		sc.d.Steps[1].Answer = &workflow.Answer{Later: "status == 202", LaterMS: (20 * time.Minute).Milliseconds()}
		all = append(all, sc)
	}
	third := func(r reply) func(saga.Call, int) reply { return when(2, saga.Execute, always(r)) }
	for name, sc := range map[string]scenario{
		"steps that do not wait for the disk": {behavior: plain(nil), end: saga.Completed},
		"one of them takes longer":            {behavior: plain(third(slowly(yes, 50*time.Millisecond))), end: saga.Completed},
		"the last of them is refused": {
			behavior: plain(when(3, saga.Execute, always(slowly(no, 10*time.Millisecond)))), end: saga.Compensated},
		"lost replies of the last of them": {behavior: plain(when(3, saga.Execute, always(lostReply))), end: saga.Compensated},
		"cancel while outcomes are held": {
			behavior: intervening(2, saga.Execute, cancel, third(slowly(yes, 10*time.Millisecond))), end: saga.Cancelled},
		"cancel while outcomes are held, and the call is refused": {
			behavior: intervening(2, saga.Execute, cancel, third(slowly(no, 50*time.Millisecond))), end: saga.Cancelled},
		"compensate while outcomes are held": {
			behavior: intervening(1, saga.Execute, saga.CompensateRequested{By: "op"}, third(yes)), end: saga.Compensated},
	} {
		sc.name, sc.d = name, ahead("ahead", "uuuu")
		all = append(all, sc)
	}
	for step, where := range []string{"the first step", "the second step", "the third step", "the last step"} {
		all = append(
			all,
			scenario{
				name:     "refusal of " + where,
				d:        steps("uunu"),
				behavior: plain(when(step, saga.Execute, always(no))),
				end:      saga.Compensated,
			},
			scenario{
				name:     "lost replies of " + where,
				d:        steps("uunu"),
				behavior: plain(when(step, saga.Execute, always(lostReply))),
				end:      saga.Compensated,
			},
			scenario{
				name:     "a lost reply of " + where + ", then a gateway refuses",
				d:        steps("uunu"),
				behavior: plain(when(step, saga.Execute, then(lostReply, turnedAway))),
				end:      saga.Compensated,
			},
			scenario{
				name:     "errors of " + where,
				d:        steps("uunu"),
				behavior: plain(when(step, saga.Execute, always(crashed))),
				end:      saga.Compensated,
			},
			scenario{
				name:     "a lost reply of " + where,
				d:        steps("uunu"),
				behavior: plain(when(step, saga.Execute, first(1, lostReply))),
				end:      saga.Completed,
			},
		)
	}
	return all
}

// writes counts a node's writes and makes the at-th fail.
type writes struct {
	w   *world
	n   int
	at  int // 0 means none
	how failure
}

func (c *writes) fault(r request) failure {
	switch r.op {
	case creating, committing, releasing:
	case claiming:
		if !c.w.claimable() {
			return passes // it does not write
		}
	default:
		return passes
	}
	if c.n++; c.n == c.at {
		return c.how
	}
	return passes
}

// claimable reports whether a claim would find something. w.mu is held.
func (w *world) claimable() bool {
	for id, owned := range w.owned {
		if s := w.load(id).Saga; !owned && !s.State.Terminal() && s.NextRunAt != nil && !s.NextRunAt.After(now()) {
			return true
		}
	}
	return false
}

func (w *world) ended(id uuid.UUID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ended := w.ends[id]
	return ended
}

// work is one direction of one step.
type work struct {
	step   int
	action saga.Action
}

func (p *participants) counts(id uuid.UUID) map[work]int {
	n := map[work]int{}
	for _, c := range p.of(id) {
		n[work{c.Index, c.Action}]++
	}
	return n
}
