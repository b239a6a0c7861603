package explain

import (
	"time"

	"github.com/skald-saga/skald/internal/saga"
)

// DryRun describes what would follow a change if every call succeeded.
type DryRun struct {
	// InFlight means that a call may be in flight. Its outcome comes first, and it is not included
	// in Calls.
	InFlight bool
	Calls    []PlannedCall
	EndState saga.State // the state in which the saga would end, or stop if it is suspended
}

// PlannedCall is a call that would be made. Exact means that its body is final; otherwise the body
// depends on an answer that has not arrived yet.
type PlannedCall struct {
	saga.Call
	Exact bool
}

// maxPlanned limits the number of planned calls; no saga that completes needs more.
const maxPlanned = 1000

// Following returns what would follow a change that was decided on before and has not been written.
func Following(c *saga.Change, before *saga.Instance, m saga.Moment, d saga.Defaults) DryRun {
	r := c.After
	overtaken := r.Awaited() != nil && r.Pending() != "" // the wait for a report ends without a report
	f := DryRun{InFlight: !r.State.Terminal() && before.MayBeInFlight(m.Now) && !overtaken}
	done := saga.Answered{Outcome: saga.Outcome{Verdict: saga.Done, StartedAt: m.Now, EndedAt: m.Now}}
	if r.Unreadable() != nil { // the next calls are unknown
		f.EndState = r.State
		return f
	}
	unknown := false // whether an output that later bodies contain is unknown
	next := func(e saga.Event) bool {
		change, err := saga.Apply(r, e, m)
		if err == nil {
			r = change.After
		}
		return err == nil
	}
	if f.InFlight {
		unknown = r.State.Forward()
		next(done)
	}
	for len(f.Calls) < maxPlanned {
		if _, _, begun := r.AwaitedRun(); begun { // begun by the previous change
			f.Calls = append(f.Calls, PlannedCall{r.Call(d), !unknown})
			unknown = unknown || r.State.Forward()
			if !next(done) {
				break
			}
			continue
		}
		if !r.State.Terminal() && r.LeaseOwner == nil && r.SuspendedAt == nil {
			r.LeaseOwner, r.Attempt = new(int64), max(r.Attempt, 1) // a node claims it
		}
		m.Now = m.Now.Add(time.Microsecond)
		if r.NextRunAt != nil && r.NextRunAt.After(m.Now) {
			m.Now = *r.NextRunAt
		}
		var e saga.Event = saga.Turned{}
		switch r.Next(m.Now) {
		case saga.Send:
			if o, unsendable := r.Unsendable(m.Budget, m.Now); unsendable {
				e = saga.Answered{Outcome: o}
				break
			}
			f.Calls = append(f.Calls, PlannedCall{r.Call(d), !unknown})
			unknown = unknown || r.State.Forward()
			e = done
		case saga.Turn:
		case saga.Begin:
			e = saga.Begun{}
		default:
			f.EndState = r.State
			return f
		}
		if !next(e) {
			break
		}
	}
	f.EndState = r.State
	return f
}
