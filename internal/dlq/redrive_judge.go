package dlq

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/retry"
)

// ratioFrom is the number of letters that must have been tried for their failure ratio to be
// meaningful.
const ratioFrom = 20

// Counted returns the numbers to which StopOn applies: the letters tried, and those that failed,
// since the redrive was last resumed after a halt.
func (r *Redrive) Counted() (tried, failed int64) {
	failed = r.Failed - r.FailedBefore
	return r.Done - r.DoneBefore + failed, failed
}

// stallAfter is the time without progress after which a redrive counts as stalled.
const stallAfter = 5 * time.Second

// WaitingForLease is what a redrive waits for if no node reports on the letters in flight.
const WaitingForLease = "the lease expiry of letters whose node does not report"

// Stalled returns the time since which a running redrive has finished no letters although its rate
// allowed some, and what it is waiting for. nil means that it is not stalled. A canary under
// observation is not a stall.
func (r *Redrive) Stalled(now time.Time) (since *time.Time, waitingFor string) {
	watching := r.WatchedAt != nil && !r.CanaryOK
	if r.State != RedriveRunning || !r.Gathered || watching || r.Left() == 0 || r.ProgressAt == nil || r.Rate <= 0 {
		return nil, ""
	}
	if now.Sub(*r.ProgressAt) < stallAfter+time.Duration(float64(time.Second)/r.Rate) {
		return nil, ""
	}
	if name, until := r.Pauses.next(now); name != "" {
		return r.ProgressAt, fmt.Sprintf("%s, which asked not to be called until %s", name, until.UTC().Format(time.RFC3339))
	}
	if r.WaitingAt == nil || now.Sub(*r.WaitingAt) > stallAfter {
		return r.ProgressAt, WaitingForLease
	}
	return r.ProgressAt, r.WaitingFor
}

// Judge decides what follows from the numbers of a running redrive: it may halt, its canary may
// start to be observed or pass, or the redrive may be complete. busy is the number of letters in
// flight. changed is false if the redrive simply continues.
func (r Redrive) Judge(busy int64, now time.Time) (after Redrive, changed bool) {
	if r.State != RedriveRunning {
		return r, false
	}
	if why := r.halts(); why != "" {
		return r.halted(why, now), true
	}
	if c := r.watched(); c != nil && busy == 0 && r.Gathered && (r.Matched-r.Left() >= int64(c.Count) || r.Left() == 0) {
		switch {
		case r.WatchedAt == nil:
			r.WatchedAt = &now
			return r.judged(now), true
		case now.Sub(*r.WatchedAt) < time.Duration(c.WatchSeconds)*time.Second:
			return r, false
		}
		r.CanaryOK, changed = true, true
	}
	if r.Gathered && r.Left() == 0 && busy == 0 {
		r.to(CompleteRedrive, now)
		changed = true
	}
	if !changed {
		return r, false
	}
	return r.judged(now), true
}

// halted returns a running redrive after it has halted automatically.
func (r Redrive) halted(why string, now time.Time) Redrive {
	r.to(HaltRedrive, now)
	r.HaltReason = why
	r.Halts, r.LastHalt, r.LastHaltedAt = r.Halts+1, why, &now
	return r.judged(now)
}

// judged returns r as its next version.
func (r Redrive) judged(now time.Time) Redrive {
	r.Version++
	r.UpdatedAt = now
	return r
}

// halts returns the reason why a redrive must halt, or "" if it need not.
func (r *Redrive) halts() string {
	tried, failed := r.Counted()
	c := r.watched()
	switch s := r.StopOn; {
	case r.overrun():
		return bulk.HaltExpected
	case s.Failures > 0 && failed >= s.Failures:
		return "failures"
	case retry.Ratio{Max: s.FailureRatio, From: ratioFrom}.Broken(tried, failed):
		return "failure_ratio"
	case c != nil && r.Bounced > 0 && float64(r.Bounced) > c.MaxBounceRatio*float64(r.Done):
		return "bounce_ratio"
	}
	return ""
}

// AuditHalt returns the audit entry for a redrive that halted automatically; id is the entry's id.
// A redrive that found too many letters has changed none.
func (r *Redrive) AuditHalt(id uuid.UUID) operator.Action {
	tried, failed := r.Counted()
	detail := fmt.Appendf(nil, `{"bounced":%d,"failed":%d,"halt_reason":%q,"left":%d,"tried":%d}`, r.Bounced, failed, r.HaltReason, r.Left(), tried)
	if r.HaltReason == bulk.HaltExpected {
		detail = fmt.Appendf(nil, `{"found":%d,"halt_reason":%q,"halts_above":%d}`, r.Matched, r.HaltReason, *r.HaltsAbove)
	}
	return operator.By{}.Did(id, r.TenantID, r.UpdatedAt, operator.Redrive, r.ID.String(), VerbHalt, detail)
}

// ETA is the time when the redrive will be finished at its rate, including the observation of its
// canary, if nothing halts it. It is nil if that time is unknown.
func (r *Redrive) ETA(now time.Time) *time.Time {
	if since, _ := r.Stalled(now); since != nil || r.State != RedriveRunning || !r.Gathered || r.Rate <= 0 {
		return nil
	}
	at := now.Add(time.Duration(float64(r.Left()) / r.Rate * float64(time.Second)))
	if c := r.watched(); c != nil {
		watch := time.Duration(c.WatchSeconds) * time.Second
		if r.WatchedAt != nil {
			watch = max(0, r.WatchedAt.Add(watch).Sub(now))
		}
		at = at.Add(watch)
	}
	return &at
}
