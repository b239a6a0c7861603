package saga

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// DryRun is what would follow a change if every call succeeded.
type DryRun struct {
	// InFlight means that a call may be in flight, whose outcome comes first. It is not in
	// Calls.
	InFlight bool
	Calls    []PlannedCall
	EndState State // where the saga would end, or stop if it is suspended
}

// PlannedCall is a call that would be made. Exact means that its body is final; otherwise it
// depends on an answer that has not arrived yet.
type PlannedCall struct {
	Call
	Exact bool
}

// maxPlanned limits the number of planned calls; no saga that completes needs more.
const maxPlanned = 1000

// DryRun returns what would follow the change, which was decided on before and is not written.
func (c *Change) DryRun(before *Instance, m Moment, d Defaults) DryRun {
	r := c.After
	f := DryRun{InFlight: !r.State.Terminal() && before.mayBeInFlight(m.Now)}
	done := Answered{Outcome{Verdict: Done, StartedAt: m.Now, EndedAt: m.Now}}
	if r.Unreadable() != nil { // the next calls are unknown
		f.EndState = r.State
		return f
	}
	unknown := false // an output that bodies would hold
	next := func(e Event) bool {
		change, err := Apply(r, e, m)
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
		if r.recorded && r.job() != nil { // begun by the change before
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
		var e Event = Turned{}
		switch r.Next(m.Now) {
		case Send:
			if o, unsendable := r.Unsendable(m.Budget, m.Now); unsendable {
				e = Answered{o}
				break
			}
			f.Calls = append(f.Calls, PlannedCall{r.Call(d), !unknown})
			unknown = unknown || r.State.Forward()
			e = done
		case Turn:
		case Begin:
			e = Begun{}
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

// mayBeInFlight reports whether the saga is being driven and not waiting.
func (r *Instance) mayBeInFlight(now time.Time) bool {
	return !r.State.Terminal() && r.Attempt > 0 &&
		(r.recorded || r.LeaseOwner != nil && (r.NextRunAt == nil || !r.NextRunAt.After(now)))
}

// Headers returns the headers of the call, except those that depend on when it is sent:
// X-Saga-Fence, X-Saga-Deadline and traceparent. Characters beyond ASCII are
// percent-encoded.
func (c *Call) Headers() map[string]string {
	_, _, own := c.By.Request()
	h := make(map[string]string, len(own)+6)
	maps.Copy(h, own)
	h["Content-Type"] = cmp.Or(c.ContentType, "application/json")
	h["Idempotency-Key"] = encoded(c.Key)
	h["X-Saga-Id"] = c.SagaID.String()
	h["X-Saga-Tenant"] = c.Tenant.String()
	h["X-Saga-Step"] = encoded(c.Step)
	h["X-Saga-Action"] = strings.ToLower(string(c.Action))
	h["X-Saga-Attempt"] = strconv.Itoa(c.Attempt)
	return h
}

func encoded(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if s[i] > ' ' && s[i] < 0x7f {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}
