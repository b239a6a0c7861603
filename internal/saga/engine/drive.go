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

// drive drives one saga as far as it can go now. It owns run.
type drive struct {
	s    *session
	run  saga.Instance
	seen witness // step logs committed since the saga's first version
	// called: this drive has asked a gate before. A saga that waits at one is released, so it can have
	// been let through only before its drive began.
	called bool
}

func nothing() {}

// loop drives until the saga ends, waits, or is no longer this node's. It returns what
// remains to be done once the saga is no longer marked as driven.
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
			// The node that takes over continues. Not even a flag may be handled here: this
			// session may have dropped an outcome of this saga for the same reason.
			return nothing
		}
		var event saga.Event = saga.Turned{}
		if task == saga.Send {
			if s.stopping.Load() {
				s.handOver(refs(d.run.Ref()))
				return nothing
			}
			var later func()
			if event, later = d.perform(); event == nil {
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

// wait leaves the saga until it is due: owned by this node when that is soon, unowned
// when the commit has released it.
func (d *drive) wait() func() {
	ref, due := d.run.Ref(), d.run.NextRunAt
	switch {
	case d.run.SuspendedAt != nil:
		if d.run.LeaseOwner != nil {
			// While it is still marked as driven, so that it is not resumed in between.
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

// perform makes the call, or lets the saga wait at the gate of its participant. It returns no event
// if the drive ends here, and then what remains to be done: if the session is over, the outcome must
// not be recorded, because an abandoned call shows nothing about the participant.
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
		case err != nil: // it stays this node's, holds no slot, and has spent nothing
			ref, again := d.run.Ref(), s.e.cfg.Now().Add(addressAgain)
			return nil, func() { s.waitUntil(ref, again) }
		case !known:
			return saga.Answered{Outcome: registry.Unknown(&call, s.e.cfg.Now())}, nothing
		}
	}
	var entry Entry
	if s.e.cfg.Gate != nil {
		entry = s.e.cfg.Gate.Enter(s.calls, &call, d.run.NextCall(), !d.called)
		d.called = true
		ref, now := d.run.Ref(), s.e.cfg.Now()
		switch {
		case s.calls.Err() != nil:
			if entry.Leave != nil {
				entry.Leave(nil)
			}
			return nil, nothing
		case entry.Park != "":
			return saga.Parked{Participant: entry.Park, Until: now.Add(farLook(s.e.cfg.Jitter()))}, nothing
		case entry.Busy > 0: // it stays this node's, and holds no slot
			return nil, func() { s.waitUntil(ref, now.Add(entry.Busy)) }
		}
	}
	hit(call.Action, failpoint.StepBeforeSend, failpoint.CompBeforeSend)
	answer := make(chan saga.Outcome, 1)
	started := s.e.cfg.Now()
	go func() { answer <- s.e.cfg.Call(s.calls, call) }()
	slow := time.NewTimer(s.e.cfg.SlowAfter)
	select {
	case o = <-answer:
		slow.Stop()
	case <-slow.C:
		d.recordSlow(started)
		o = <-answer
	}
	hit(call.Action, failpoint.StepAfterReply, failpoint.CompAfterReply)
	s.e.cfg.Observer.CallDone(call.Action, &o)
	if s.calls.Err() != nil {
		if entry.Leave != nil {
			entry.Leave(nil)
		}
		return nil, nothing
	}
	if entry.Leave != nil {
		entry.Leave(&o)
	}
	return saga.Answered{Outcome: o}, nothing
}

// addressAgain is how long a call waits whose participant could not be looked up.
const addressAgain = time.Second

// addressed fills in where a call goes that names its participant. Versions pin the name only, so
// every attempt goes by the settings of the moment.
func (d *drive) addressed(call *saga.Call) (known bool, err error) {
	if d.s.e.cfg.Address == nil {
		return false, nil
	}
	known, err = d.s.e.cfg.Address(d.s.calls, call)
	if err != nil && d.s.calls.Err() == nil {
		d.s.e.cfg.Log.Warn("cannot look up the participant of a call; it waits",
			slog.String("saga_id", call.SagaID.String()), slog.Any("error", err))
	}
	return known, err
}

// farLook is after how long a saga at a gate looks again although nothing has let it through: so far
// that a million of them cost nothing, and spread over half an hour. It is beyond Config.Hold, so
// that the saga is released.
func farLook(chance float64) time.Duration {
	return 30*time.Minute + time.Duration(chance*float64(30*time.Minute))
}

// recordSlow makes a long call visible as RUNNING. Best effort: if the row has changed in the
// meantime, the commit of the call's outcome detects and handles that.
func (d *drive) recordSlow(started time.Time) {
	change, err := saga.Apply(d.run, saga.Slow{StartedAt: started}, d.s.e.moment())
	if err != nil {
		return
	}
	if err := d.s.e.cfg.Commit(d.s.calls, &change); err != nil {
		d.seen.lose() // it may have been written
		return
	}
	d.seen.saw(&change)
	d.run = change.After
}

// decide applies an event and commits the decision, and repeats this whenever the row has
// changed in the meantime. It returns false if the saga no longer belongs to this node.
func (d *drive) decide(event saga.Event) bool {
	e := d.s.e
	stripped := false
	for try := 0; ; try++ {
		m := e.moment()
		change, err := saga.Apply(d.run, event, m)
		if _, parks := event.(saga.Parked); parks && err != nil {
			return true // flagged since: there is a turn to take instead
		}
		if err != nil {
			e.cfg.Log.Warn(
				"an outcome no longer matches its saga",
				slog.String("saga_id", d.run.ID.String()),
				slog.Any("error", err),
			)
			return false
		}
		next := change.After.NextRunAt
		if d.s.stopping.Load() || change.After.SuspendedAt != nil || next != nil && next.Sub(m.Now) > e.cfg.Hold {
			change = change.Released(m.Now)
		}
		hit(d.run.Action(), failpoint.StepBeforeCommit, failpoint.CompBeforeCommit)
		err = e.cfg.Commit(d.s.calls, &change)
		hit(d.run.Action(), failpoint.StepAfterCommit, failpoint.CompAfterCommit)
		switch {
		case err == nil && change.Letter != nil && change.Letter.Outcome == dlq.GaveUp && !change.After.State.Terminal():
			d.seen.lose() // only the store knows which letter the compensation has that was left
			return d.reload(change) == stored
		case err == nil:
			d.seen.saw(&change)
			d.run = change.After
			return true
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
				"the outcome of a commit is unknown; reading back",
				slog.String("saga_id", d.run.ID.String()),
				slog.Any("error", err),
			)
			e.sleep(d.s.calls, backoff.Delay(try+1, 0.5, 0))
		}
		d.seen.lose()
		switch d.reload(change) {
		case stored:
			return true
		case notOurs:
			return false
		}
	}
}

// backoff spaces the attempts to read back after an outage.
var backoff = retry.Policy{InitialIntervalMS: 50, MaxIntervalMS: 2000, Multiplier: 2}

type readBack int

const (
	redecide readBack = iota // the change was not written: decide again on the current row
	stored                   // the change was written
	notOurs                  // the saga has another owner, or the lease is lost
)

// reload reads the saga back after a commit whose change did not apply or whose outcome
// is unknown. It never guesses: the change was written exactly if its step log exists,
// or for a change without logs if the row is as decided.
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

func written(change saga.Change, now saga.Loaded) bool {
	if len(change.Logs) == 0 {
		a := &change.After
		return now.Saga.Version == a.Version && now.Saga.State == a.State && now.Saga.UpdatedAt.Equal(a.UpdatedAt)
	}
	mine := change.Logs[0]
	for _, l := range now.Logs {
		sameCall := l.StepIndex == mine.StepIndex && l.Action == mine.Action && l.Attempt == mine.Attempt
		if l.ID == mine.ID || mine.Completes && sameCall && l.Status == mine.Status && l.UpdatedAt.Equal(mine.UpdatedAt) {
			return true
		}
	}
	return false
}

// withoutContent turns an outcome whose content the database rejects into one that it can
// store. A success loses its output, so the answer was unusable and the outcome is unknown. Any
// other outcome is kept without its content.
func withoutContent(event saga.Event) saga.Event {
	a, ok := event.(saga.Answered)
	if !ok {
		return event
	}
	if a.Verdict == saga.Done {
		a.Verdict, a.Class, a.Code = saga.Unknown, retry.BadResponse, "unstorable_response"
	}
	a.Message = "the participant's answer cannot be stored"
	a.Output, a.Response, a.Request, a.StackTrace, a.Cause = nil, nil, nil, "", nil
	return a
}
