package dlq

import (
	"math"
	"time"
)

// ratioFrom is how many letters must have been tried for their ratio of failures
// to tell something.
const ratioFrom = 20

// Counted is what StopOn is compared with: the letters tried, and those failed,
// since somebody let the redrive go on after its last halt.
func (r *Redrive) Counted() (tried, failed int64) {
	failed = r.Failed - r.FailedBefore
	return r.Done - r.DoneBefore + failed, failed
}

// Room is how many more letters may be sent on their way while busy ones are. What
// is on its way when StopOn says halt has been sent all the same: so there are no
// more of them than would have to fail for that, or than requests are made at once.
func (r *Redrive) Room(busy int64) int64 {
	if r.StopOn == (StopOn{}) {
		return math.MaxInt64
	}
	tried, failed := r.Counted()
	most := int64(math.MaxInt64)
	if n := r.StopOn.Failures; n > 0 {
		most = n - failed
	}
	if share := r.StopOn.FailureRatio; share > 0 && share < 1 {
		more := math.Floor((share*float64(tried)-float64(failed))/(1-share)) + 1
		most = min(most, max(ratioFrom-tried, int64(more)))
	}
	return max(0, max(int64(r.Concurrency), most)-busy)
}

// stallAfter is how long nothing has moved when a redrive says that it stands still.
const stallAfter = 5 * time.Second

// WaitingForLease is what a redrive waits for when no node tells of the letters
// that are on their way.
const WaitingForLease = "the leases of letters whose node does not tell of itself"

// Stalled tells since when no letter of a running redrive has come through, though
// its rate would have let some, and what it waits for; nil: it goes on. A canary
// that is watched is no standstill.
func (r *Redrive) Stalled(now time.Time) (since *time.Time, waitingFor string) {
	watching := r.WatchedAt != nil && !r.CanaryOK
	if r.State != RedriveRunning || !r.Gathered || watching || r.Left() == 0 || r.ProgressAt == nil || r.Rate <= 0 {
		return nil, ""
	}
	if now.Sub(*r.ProgressAt) < stallAfter+time.Duration(float64(time.Second)/r.Rate) {
		return nil, ""
	}
	if r.WaitingAt == nil || now.Sub(*r.WaitingAt) > stallAfter {
		return r.ProgressAt, WaitingForLease
	}
	return r.ProgressAt, r.WaitingFor
}

// Judge decides what a running redrive's numbers make of it: it may halt, its
// canary may begin to be watched or pass, it may be complete. busy is how many
// letters are on their way. changed is false when it just goes on.
func (r Redrive) Judge(busy int64, now time.Time) (after Redrive, changed bool) {
	tried, failed := r.Counted()
	halt := func(why string) (Redrive, bool) {
		r.State, r.HaltReason = RedriveHalted, why
		r.Halts, r.LastHalt, r.LastHaltedAt = r.Halts+1, why, &now
		return r, true
	}
	switch s := r.StopOn; {
	case s.Failures > 0 && failed >= s.Failures:
		return halt("failures")
	case s.FailureRatio > 0 && tried >= ratioFrom && float64(failed) > s.FailureRatio*float64(tried):
		return halt("failure_ratio")
	case r.Canary != nil && !r.CanaryOK && r.Bounced > 0 && float64(r.Bounced) > r.Canary.MaxBounceRatio*float64(r.Done):
		return halt("bounce_ratio")
	}
	if c := r.Canary; c != nil && !r.CanaryOK && busy == 0 && r.Gathered && (r.Matched-r.Left() >= int64(c.Count) || r.Left() == 0) {
		switch {
		case r.WatchedAt == nil:
			r.WatchedAt = &now
			return r, true
		case now.Sub(*r.WatchedAt) >= time.Duration(c.WatchSeconds)*time.Second:
			r.CanaryOK = true
			changed = true
		default:
			return r, false
		}
	}
	if r.Gathered && r.Left() == 0 && busy == 0 {
		r.State, r.EndedAt = RedriveCompleted, &now
		return r, true
	}
	return r, changed
}
