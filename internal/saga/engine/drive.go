package engine

import (
	"log/slog"
	"time"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// drive drives one saga as far as it can go for now. It owns run.
type drive struct {
	s    *session
	run  saga.Instance
	seen witness // step logs committed since the saga's first version
	// called is true once this drive has asked a gate. A saga that waits at a gate is released, so
	// a gate can have let it through only before its drive began.
	called bool
	// held is the difference between run and the stored row; nil means none.
	held *held
	// careful is set once a held outcome could not be stored. From then on nothing is held.
	careful bool
	// forgot is set when the held outcomes were lost, so that those calls and the call in flight
	// must be repeated.
	forgot bool
}

func nothing() {}

// loop drives the saga until it ends, waits, or no longer belongs to this node. It returns the work
// that remains once the saga is no longer marked as driven.
func (d *drive) loop() (after func()) {
	s := d.s
	for {
		if d.run.LeaseOwner == nil && !d.run.State.Terminal() {
			return d.wait() // the last commit released it
		}
		task := d.run.Next(s.e.cfg.Now())
		switch {
		case task == saga.Rest:
			ended, seen := d.run.Saga, d.seen
			return func() { s.e.finished(&ended, seen.loaded(&ended)) }
		case task == saga.Wait:
			return d.wait()
		case !s.lease.Valid():
			// The node that takes over continues. This session must not handle even a flag, because
			// it may have dropped an outcome of this saga when the lease became invalid.
			return nothing
		}
		var event saga.Event = saga.Turned{}
		if task == saga.Send {
			if s.stopping.Load() {
				if d.write() {
					s.handOver(refs(d.run.Ref()))
				}
				return nothing
			}
			var later func()
			d.forgot = false
			if event, later = d.perform(); d.forgot {
				continue
			}
			if event == nil {
				return later
			}
		}
		switch task {
		case saga.Begin:
			event = saga.Begun{}
		case saga.CheckJobRun:
			var ok bool
			if event, ok = d.checkJobRun(); !ok {
				return nothing
			}
		}
		if !d.decide(event) {
			return nothing
		}
	}
}

// wait leaves the saga until it is due. The saga stays owned by this node if the wait is short, and
// is unowned if the commit has released it.
func (d *drive) wait() func() {
	ref, due := d.run.Ref(), d.run.NextRunAt
	switch {
	case d.run.SuspendedAt != nil:
		if d.run.LeaseOwner != nil {
			// This happens while the saga is still marked as driven, so that it cannot be resumed
			// in between.
			d.s.handOver(refs(ref))
		}
		return nothing
	case due == nil:
		return nothing
	case d.run.LeaseOwner != nil:
		return func() { d.s.waitUntil(ref, *due) }
	case due.After(d.s.e.cfg.Now()):
		return nothing // any node's poll will find it
	}
	return d.s.e.Backlog
}

// perform makes the call, or lets the saga wait at the gate of its participant. If the drive ends
// here, it returns no event, only the remaining work. When the session is over, the outcome must
// not be recorded, because an abandoned call says nothing about the participant.
func (d *drive) perform() (event saga.Event, after func()) {
	s := d.s
	call, o, unsendable := d.run.Prepared(saga.Defaults{StepTimeout: s.e.cfg.StepTimeout}, s.e.cfg.Budget, s.e.cfg.Now())
	if unsendable {
		return saga.Answered{Outcome: o}, nothing
	}
	if call.By.Names() != "" {
		known, err := d.addressed(&call)
		switch {
		case err != nil && s.calls.Err() != nil:
			return nil, nothing
		case err != nil: // the saga stays with this node, holds no slot, and has used no attempt
			return nil, d.later(addressAgain)
		case !known:
			return saga.Answered{Outcome: registry.Unknown(&call, s.e.cfg.Now())}, nothing
		}
	}
	var entry Entry
	if s.e.cfg.Gate != nil {
		entry = s.e.cfg.Gate.Enter(s.calls, &call, d.run.NextCall(), !d.called)
		d.called = true
		now := s.e.cfg.Now()
		switch {
		case s.calls.Err() != nil:
			if entry.Leave != nil {
				entry.Leave(nil)
			}
			return nil, nothing
		case entry.Park != "":
			return saga.Parked{Participant: entry.Park, Until: now.Add(farLook(s.e.cfg.Jitter()))}, nothing
		case entry.Busy > 0: // the saga stays with this node and holds no slot
			return nil, d.later(entry.Busy)
		}
	}
	hit(call.Action, failpoint.StepBeforeSend, failpoint.CompBeforeSend)
	answer := make(chan saga.Outcome, 1)
	started := s.e.cfg.Now()
	go func() { answer <- s.e.cfg.Call(s.calls, call) }()
	o, ours := d.await(answer, started)
	hit(call.Action, failpoint.StepAfterReply, failpoint.CompAfterReply)
	s.e.cfg.Observer.CallDone(call.Action, &o)
	abandoned := s.calls.Err() != nil
	switch {
	case entry.Leave == nil:
	case abandoned:
		entry.Leave(nil)
	default:
		entry.Leave(&o)
	}
	if abandoned || !ours {
		return nil, nothing
	}
	return saga.Answered{Outcome: o}, nothing
}

// await returns the answer of the call in flight, and whether the saga is still waiting for it.
// While it waits, it writes the held outcomes when they are due, and records a call that takes
// long.
func (d *drive) await(answer <-chan saga.Outcome, started time.Time) (o saga.Outcome, ours bool) {
	cfg := &d.s.e.cfg
	slow := time.NewTimer(cfg.SlowAfter)
	defer slow.Stop()
	var checkpoint <-chan time.Time
	if left, is := d.held.due(cfg.Checkpoint, cfg.Now()); is {
		timer := time.NewTimer(left)
		defer timer.Stop()
		checkpoint = timer.C
	}
	ours = true
	for {
		select {
		case o = <-answer:
			return o, ours
		case <-checkpoint:
			ours = d.write() && !d.forgot
		case <-slow.C:
			if ours = ours && d.write() && !d.forgot; ours {
				d.recordSlow(started)
			}
		}
	}
}

// later writes the held outcomes and returns a function that schedules the saga on this node after
// a short wait.
func (d *drive) later(wait time.Duration) func() {
	if !d.write() {
		return nothing
	}
	ref, again := d.run.Ref(), d.s.e.cfg.Now().Add(wait)
	return func() { d.s.waitUntil(ref, again) }
}

// addressAgain is the delay before a call is tried again when its participant could not be looked
// up.
const addressAgain = time.Second

// addressed fills in the address of a call that names its participant. Workflow versions pin only
// the name, so every attempt uses the current settings.
func (d *drive) addressed(call *saga.Call) (known bool, err error) {
	if d.s.e.cfg.Address == nil {
		return false, nil
	}
	known, err = d.s.e.cfg.Address(d.s.calls, call)
	if err != nil && d.s.calls.Err() == nil {
		d.s.e.cfg.Log.Warn("cannot look up the participant of a call; the call waits",
			slog.String("saga_id", call.SagaID.String()), slog.Any("error", err))
	}
	return known, err
}

// recordSlow makes a long call visible as RUNNING. It is best effort: if the row has changed in the
// meantime, the commit of the call's outcome detects and handles that.
func (d *drive) recordSlow(started time.Time) {
	change, err := saga.Apply(d.run, saga.Slow{StartedAt: started}, d.s.e.moment())
	if err != nil {
		return
	}
	if err := d.s.e.cfg.Commit(d.s.calls, &change); err != nil {
		d.seen.lose() // the change may have been written
		return
	}
	d.seen.saw(&change)
	d.run = change.After
}

// write commits the held outcomes, if there are any, while the call in flight continues. It returns
// false if the saga no longer belongs to this node.
func (d *drive) write() bool { return d.held == nil || d.decide(nil) }

// decide applies an event (nil for none) and either holds the decision or commits it together with
// everything that is held. It retries whenever the row has changed in the meantime, and returns
// false if the saga no longer belongs to this node.
func (d *drive) decide(event saga.Event) bool {
	e := d.s.e
	_, parks := event.(saga.Parked)
	if parks && !d.write() {
		return false
	}
	stripped := false
	for try := 0; ; try++ {
		var change saga.Change
		if event == nil {
			change = d.held.change
		} else {
			m := e.moment()
			next, err := saga.Apply(d.run, event, m)
			switch {
			case err != nil && parks:
				return true // a flag has been set since: the saga takes a turn instead
			case err != nil:
				d.unfit(err)
				return false
			case d.hold(event, &next, m.Now):
				return true
			}
			change = d.held.with(next)
			due := change.After.NextRunAt
			if d.s.stopping.Load() || change.After.SuspendedAt != nil || due != nil && due.Sub(m.Now) > e.cfg.Hold {
				change = change.Released(m.Now)
			}
		}
		hit(d.run.Action(), failpoint.StepBeforeCommit, failpoint.CompBeforeCommit)
		err := e.cfg.Commit(d.s.calls, &change)
		hit(d.run.Action(), failpoint.StepAfterCommit, failpoint.CompAfterCommit)
		switch {
		case err == nil && change.Letter != nil && change.Letter.Outcome == dlq.GaveUp && !change.After.State.Terminal():
			d.seen.lose() // only the store knows the letter of the abandoned compensation
			d.held = nil
			return d.reload(change) == stored
		case err == nil:
			d.seen.saw(&change)
			d.run, d.held = change.After, nil
			return true
		case fault.IsCode(err, saga.CodeUnstorable) && d.held != nil:
			e.cfg.Log.Warn("the database cannot store the results of several steps; repeating these calls one at a time",
				slog.String("saga_id", d.run.ID.String()), slog.Any("error", err))
			d.held, d.careful, d.forgot = nil, true, true
			event = saga.Forgotten{}
		case fault.IsCode(err, saga.CodeUnstorable) && !stripped:
			e.cfg.Log.Warn(
				"the database cannot store a step's result; recording the step without it",
				slog.String("saga_id", d.run.ID.String()),
				slog.Any("error", err),
			)
			event, stripped = withoutContent(event), true
			continue
		case !stale(err):
			e.cfg.Log.Warn(
				"the outcome of a commit is unknown; reading the sagas back",
				slog.String("saga_id", d.run.ID.String()),
				slog.Any("error", err),
			)
			e.sleep(d.s.calls, backoff.Delay(try+1, 0.5, 0))
		}
		d.seen.lose()
		switch d.reload(change) {
		case stored:
			d.held = nil
			return true
		case notOurs:
			return false
		}
		if d.held == nil {
			continue
		}
		if d.held, err = d.held.again(d.run, e.moment()); err != nil {
			d.unfit(err)
			return false
		}
		d.run = d.held.change.After
	}
}

// hold keeps a decision in memory if it need not be committed yet, and reports whether it did. The
// drive then continues from that decision.
func (d *drive) hold(event saga.Event, c *saga.Change, now time.Time) bool {
	most := d.s.e.cfg.Checkpoint
	a, answered := event.(saga.Answered)
	if left, is := d.held.due(most, now); !answered || most <= 0 || is && left == 0 || d.careful ||
		d.s.stopping.Load() || !c.Deferrable() {
		return false
	}
	d.held = d.held.and(*c, a.Outcome, now)
	d.run = d.held.change.After
	return true
}

// unfit logs that outcomes arrived too late, after an operator had ended the saga by force.
func (d *drive) unfit(err error) {
	d.s.e.cfg.Log.Warn("an outcome no longer matches its saga",
		slog.String("saga_id", d.run.ID.String()), slog.Any("error", err))
}

// backoff spaces the attempts to read the saga back after an outage.
var backoff = retry.Policy{InitialIntervalMS: 50, MaxIntervalMS: 2000, Multiplier: 2}

type readBack int

const (
	redecide readBack = iota // the change was not written: decide again on the current row
	stored                   // the change was written
	notOurs                  // the saga has another owner, or the lease is lost
)

// reload reads the saga back after a commit that did not apply or whose outcome is unknown. It
// never guesses: the change was written if and only if its step log exists or, for a change without
// logs, if the row matches the decision.
func (d *drive) reload(change saga.Change) readBack {
	e := d.s.e
	for try := 1; ; try++ {
		if d.s.calls.Err() != nil || !d.s.lease.Valid() {
			return notOurs
		}
		loaded, err := e.cfg.Store.Load(d.s.calls, refs(d.run.Ref()))
		if err == nil && len(loaded) == 0 {
			return notOurs
		}
		var run saga.Instance
		if err == nil {
			run, err = d.s.rebuild(d.s.calls, loaded[0])
		}
		if err != nil {
			e.sleep(d.s.calls, backoff.Delay(try, 0.5, 0))
			continue
		}
		was := written(change, loaded[0])
		d.seen = witnessOf(&loaded[0])
		mine := run.LeaseOwner != nil && *run.LeaseOwner == d.s.owner && run.LeaseEpoch == d.run.LeaseEpoch
		d.run = run
		switch {
		case was && (mine || run.LeaseOwner == nil): // it ended or was released; another node may have claimed it since
			return stored
		case mine:
			return redecide
		}
		return notOurs
	}
}
